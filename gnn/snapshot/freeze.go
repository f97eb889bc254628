package snapshot

import "reflect"

// Freeze is a view of a store's records, numbered from 0, as they were when
// [Freeze.Begin] was called: copy on write. Records are slices: a row of a table,
// a list, a struct as a slice of one. Records that do not change stay where they
// are and are read from there. Before record i changes or its memory is used for
// another, the store calls
//
//	f.Keep(i, record)
//
// which copies the record if the view still needs it. When nothing is frozen,
// this costs one comparison.
//
// The zero Freeze freezes nothing. It is used by one goroutine.
type Freeze[T any] struct {
	on    bool
	n     uint32  // records below it belong to the view; 0 unless on
	walks []*walk // of those who read all records in order

	// Copies lie in blocks, one after the other. Blocks and pages stay for the
	// next freeze: to take their memory costs more than to fill it.
	blocks [][]T
	block  int // the one that is being filled
	used   int // elements of it
	pages  []*page
	epoch  uint32 // number of this freeze
}

// page says for each of pageLen records where its copy is.
type page struct {
	epoch  uint32 // of the freeze that it was last written in
	copies [pageLen]span
}

// span is a copy's place. The zero span stands for no copy.
type span struct {
	block       int32 // and 1
	offset, len int32
}

// walk is how far a reader has come.
type walk struct{ next int32 }

const (
	pageShift = 9
	pageLen   = 1 << pageShift

	// A block has twice as many elements as the one before, within these bounds,
	// or as many as one long record.
	minBlock = 1 << 9
	maxBlock = 1 << 18
)

// Begin freezes the first n records. It panics when some are frozen already.
func (f *Freeze[T]) Begin(n int) {
	if f.on {
		panic("snapshot: a store is frozen already")
	}
	f.on, f.n, f.walks = true, uint32(n), nil
	f.epoch++
	f.block, f.used = 0, 0
	if pages := (n + pageLen - 1) >> pageShift; pages > len(f.pages) {
		f.pages = append(f.pages, make([]*page, pages-len(f.pages))...)
	}
}

// On reports whether a freeze is under way.
func (f *Freeze[T]) On() bool { return f.on }

// End gives up the view. What it gave out may not be read any more.
func (f *Freeze[T]) End() {
	f.on, f.n = false, 0
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Struct, reflect.Slice, reflect.String: // they may hold on to other memory
		f.blocks = nil
	}
}

// Wants reports whether [Freeze.Keep] would copy record i. A store asks first where
// it costs something to make the record.
func (f *Freeze[T]) Wants(i int32) bool { return uint32(i) < f.n && f.wants(i) }

func (f *Freeze[T]) wants(i int32) bool {
	_, kept := f.kept(i)
	return !kept && f.unread(i)
}

// unread reports whether some reader may still read record i.
func (f *Freeze[T]) unread(i int32) bool {
	for _, w := range f.walks {
		if w.next <= i {
			return true
		}
	}
	return len(f.walks) == 0
}

// Keep copies record i, which is about to change, if the view still needs it and has
// no copy.
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
	c := &p.copies[i&(pageLen-1)]
	if c.block != 0 {
		return
	}
	if f.block == len(f.blocks) || len(f.blocks[f.block])-f.used < len(record) {
		f.nextBlock(len(record))
	}
	copy(f.blocks[f.block][f.used:], record)
	*c = span{int32(f.block + 1), int32(f.used), int32(len(record))}
	f.used += len(record)
}

// nextBlock begins a block with room for a record of n elements.
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

// kept returns the copy of record i, if there is one.
func (f *Freeze[T]) kept(i int32) ([]T, bool) {
	p := f.pages[i>>pageShift]
	if p == nil || p.epoch != f.epoch {
		return nil, false
	}
	c := p.copies[i&(pageLen-1)]
	if c.block == 0 {
		return nil, false
	}
	return f.blocks[c.block-1][c.offset:][:c.len], true
}

// At returns record i as it was: its copy, or else what now says of it. The
// slice holds until the store next changes.
func (f *Freeze[T]) At(i int32, now func(i int32) []T) []T {
	if record, kept := f.kept(i); kept {
		return record
	}
	return now(i)
}

// Walk returns a function that returns the records as they were, one a call,
// from the first on. now returns a record as it is. Where all reading is by
// walks, records that all of them are past need not be copied any more.
func (f *Freeze[T]) Walk(now func(i int32) []T) func() []T {
	w := new(walk)
	f.walks = append(f.walks, w)
	return func() []T {
		i := w.next
		w.next++
		return f.At(i, now)
	}
}
