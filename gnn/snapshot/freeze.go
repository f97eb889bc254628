package snapshot

import "reflect"

// Freeze is a view of a store's records as they were when [Freeze.Begin] was
// called, by copy on write. Records are numbered from 0, and each is a slice: a
// row of a table, a list, or a struct as a slice of length 1. A record that does
// not change is read from the store. Before record i changes, or its memory is
// reused for another record, the store calls
//
//	f.Keep(i, record)
//
// which copies the record if the view still needs it. Without a freeze this
// costs one comparison.
//
// The zero Freeze is ready to use, with nothing frozen. A Freeze is not safe for
// concurrent use.
type Freeze[T any] struct {
	on      bool
	n       uint32    // records 0 to n-1 belong to the view; 0 unless on
	cursors []*cursor // one for each call of Walk during this freeze

	// Copies are stored one after the other in blocks. Blocks and pages are
	// reused by the next freeze, because allocating them costs more than filling
	// them.
	blocks [][]T
	block  int     // index of the block being filled
	used   int     // elements used in that block
	pages  []*page // by record number / pageLen; nil until a record of the page is copied
	epoch  uint32  // number of the current freeze
}

// page records where the copies of pageLen consecutive records are.
type page struct {
	epoch  uint32 // the freeze that wrote copies; they are void in any other
	copies [pageLen]span
}

// span is the location of a copy. The zero span means that there is none.
type span struct {
	block       int32 // index of the block plus 1
	offset, len int32
}

// cursor is the position of one walk: the number of the record it returns next.
type cursor struct{ next int32 }

const (
	pageShift = 9
	pageLen   = 1 << pageShift

	// Each block has twice as many elements as the one before, within these
	// bounds, or the length of a record that is longer.
	minBlock = 1 << 9
	maxBlock = 1 << 18
)

// Begin freezes the first n records, until [Freeze.End]. It panics when a freeze
// is under way.
func (f *Freeze[T]) Begin(n int) {
	if f.on {
		panic("snapshot: a store is frozen already")
	}
	f.on, f.n, f.cursors = true, uint32(n), nil
	f.epoch++
	f.block, f.used = 0, 0
	if pages := (n + pageLen - 1) >> pageShift; pages > len(f.pages) {
		f.pages = append(f.pages, make([]*page, pages-len(f.pages))...)
	}
}

// On reports whether a freeze is under way.
func (f *Freeze[T]) On() bool { return f.on }

// End ends the freeze. Records that the view returned are no longer valid.
func (f *Freeze[T]) End() {
	f.on, f.n = false, 0
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Struct, reflect.Slice, reflect.String: // copies may hold references: let them be collected
		f.blocks = nil
	}
}

// Wants reports whether [Freeze.Keep] would copy record i. A store for which
// building the record is expensive asks first.
func (f *Freeze[T]) Wants(i int32) bool { return uint32(i) < f.n && f.wants(i) }

func (f *Freeze[T]) wants(i int32) bool {
	_, copied := f.copyOf(i)
	return !copied && f.unread(i)
}

// unread reports whether record i may still be read: some walk has not passed
// it, or there are no walks and it may be read by [Freeze.At].
func (f *Freeze[T]) unread(i int32) bool {
	for _, c := range f.cursors {
		if c.next <= i {
			return true
		}
	}
	return len(f.cursors) == 0
}

// Keep copies record i, which is about to change, if the view still needs it and
// has no copy of it yet.
func (f *Freeze[T]) Keep(i int32, record []T) {
	if uint32(i) < f.n && f.unread(i) {
		f.keep(i, record)
	}
}

func (f *Freeze[T]) keep(i int32, record []T) {
	p := f.pages[i>>pageShift]
	if p == nil {
		p = new(page)
		f.pages[i>>pageShift] = p
	}
	if p.epoch != f.epoch {
		*p = page{epoch: f.epoch}
	}
	place := &p.copies[i&(pageLen-1)]
	if place.block != 0 {
		return
	}
	if f.block == len(f.blocks) || len(f.blocks[f.block])-f.used < len(record) {
		f.nextBlock(len(record))
	}
	copy(f.blocks[f.block][f.used:], record)
	*place = span{int32(f.block + 1), int32(f.used), int32(len(record))}
	f.used += len(record)
}

// nextBlock moves to a block with room for a record of n elements.
func (f *Freeze[T]) nextBlock(n int) {
	for f.block < len(f.blocks) && len(f.blocks[f.block])-f.used < n {
		f.block, f.used = f.block+1, 0
	}
	if f.block == len(f.blocks) {
		size := minBlock
		if f.block > 0 {
			size = 2 * len(f.blocks[f.block-1])
		}
		f.blocks = append(f.blocks, make([]T, max(min(size, maxBlock), n)))
	}
}

func (f *Freeze[T]) copyOf(i int32) ([]T, bool) {
	p := f.pages[i>>pageShift]
	if p == nil || p.epoch != f.epoch {
		return nil, false
	}
	place := p.copies[i&(pageLen-1)]
	if place.block == 0 {
		return nil, false
	}
	return f.blocks[place.block-1][place.offset:][:place.len], true
}

// At returns record i as it was when the freeze began: its copy, or, if it has
// not changed, the current record, which is current(i). The slice is valid until
// the store next changes.
func (f *Freeze[T]) At(i int32, current func(i int32) []T) []T {
	if record, copied := f.copyOf(i); copied {
		return record
	}
	return current(i)
}

// Walk returns a function that returns the records as they were when the freeze
// began, one for each call, in order from record 0. current returns a record as
// it is now.
//
// Once a freeze has a walk, all of its reads must be by walks: a record that
// every walk has passed is no longer copied.
func (f *Freeze[T]) Walk(current func(i int32) []T) (next func() []T) {
	c := new(cursor)
	f.cursors = append(f.cursors, c)
	return func() []T {
		i := c.next
		c.next++
		return f.At(i, current)
	}
}
