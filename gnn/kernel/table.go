package kernel

import (
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"unsafe"
)

// Table is a growing list of rows of equal width, in large blocks: growing
// copies nothing once the first block is full, and the garbage collector sees
// one pointer a block. Rows are numbered from 0. A Table is not safe for
// concurrent use, except that several goroutines may read and write different
// rows.
type Table[T any] struct {
	blocks [][]T // all full but the last, or the first while it grows
	width  int
	shift  uint     // a full block has 1<<shift rows
	n      int      // rows; those after row n-1 are zero
	ahead  chan []T // delivers the next block, being made by a goroutine; nil for none

	reserved [][]T // blocks made by Reserve and not used yet
}

const (
	// blockBytes is about the size of a full block: two huge pages, and small
	// enough that allocating a block, or copying the first one while it grows,
	// is no long pause.
	blockBytes = 1 << 22
	// startRows is the size of the first block at the beginning. It is replaced
	// by one of twice the size until it is full.
	startRows = 64
)

// NewTable returns a table without rows. It panics unless the width, the number
// of elements in a row, is at least 1.
func NewTable[T any](width int) *Table[T] {
	if width < 1 {
		panic(fmt.Sprintf("kernel: rows of %d elements", width))
	}
	var zero T
	rows := max(blockBytes/(uint(width)*uint(unsafe.Sizeof(zero))), 1)
	return &Table[T]{width: width, shift: uint(bits.Len(rows)) - 1}
}

// Len is the number of rows.
func (t *Table[T]) Len() int { return t.n }

// Width is the number of elements in a row.
func (t *Table[T]) Width() int { return t.width }

// Row returns row i, which may be written to, valid until the table next grows.
func (t *Table[T]) Row(i int32) []T {
	return t.blocks[i>>t.shift][int(i)&(1<<t.shift-1)*t.width:][:t.width:t.width]
}

// From returns the rows from i to the end of i's block or of the table,
// whichever is first, as one slice, valid until the table next grows.
func (t *Table[T]) From(i int32) []T {
	last := min(int(i)|(1<<t.shift-1), t.n-1)
	return t.blocks[i>>t.shift][int(i)&(1<<t.shift-1)*t.width:][:(last+1-int(i))*t.width]
}

// At returns a pointer to the first element of row i, valid until the table
// next grows.
func (t *Table[T]) At(i int32) *T {
	return &t.blocks[i>>t.shift][int(i)&(1<<t.shift-1)*t.width]
}

// Grow adds rows of zeros. It panics when their numbers would exceed an int32.
func (t *Table[T]) Grow(rows int) {
	if rows < 0 || rows > math.MaxInt32-t.n {
		panic(fmt.Sprintf("kernel: %d rows more than %d, want at most %d", rows, t.n, math.MaxInt32))
	}
	t.n += rows
	full := 1 << t.shift
	if len(t.blocks) == 0 && len(t.reserved) > 0 {
		t.blocks = append(t.blocks, t.next())
	}
	if room := t.room(); len(t.blocks) <= 1 && room < full && t.n > room {
		size := min(max(startRows, 1<<bits.Len(uint(t.n-1))), full)
		block := Zeros[T](size * t.width)
		if len(t.blocks) == 1 {
			copy(block, t.blocks[0])
		}
		t.blocks = append(t.blocks[:0], block)
	}
	for len(t.reserved) == 0 && t.n > t.room()+full { // many rows, whose pages are touched by those who fill them
		t.blocks = append(t.blocks, Zeros[T](full*t.width))
	}
	for t.n > t.room() {
		t.blocks = append(t.blocks, t.next())
	}
	if t.ahead == nil && t.n > full/2 && len(t.reserved) == 0 {
		t.prepare()
	}
}

// Reserve preallocates memory for a number of rows. The table must be empty.
func (t *Table[T]) Reserve(rows int) {
	full := 1 << t.shift
	for taken := 0; taken < rows; taken += full {
		t.reserved = append(t.reserved, touched[T](full*t.width))
	}
}

// Shrink removes the last rows and keeps their memory for the next that are
// added. It panics when there are fewer.
func (t *Table[T]) Shrink(rows int) {
	if rows < 0 || rows > t.n {
		panic(fmt.Sprintf("kernel: %d rows fewer than %d", rows, t.n))
	}
	for i := t.n - rows; i < t.n; i++ {
		clear(t.Row(int32(i)))
	}
	t.n -= rows
}

// next returns a full block of zeros and starts to prepare the one after it.
func (t *Table[T]) next() []T {
	if len(t.reserved) > 0 {
		block := t.reserved[0]
		t.reserved = t.reserved[1:]
		return block
	}
	if t.ahead == nil {
		t.prepare()
	}
	block := <-t.ahead
	t.prepare()
	return block
}

// prepare starts a goroutine that allocates the next block. Touching a page for
// the first time can take longer than all other work of an arrival, above all on
// a virtual machine, and Grow should not wait for it. The block is zeros in any
// case, so the goroutine cannot affect a result.
func (t *Table[T]) prepare() {
	ahead, size := make(chan []T, 1), t.width<<t.shift
	t.ahead = ahead
	go func() { ahead <- touched[T](size) }()
}

// touched is [Zeros] with every page touched. It yields the processor every 64
// pages.
func touched[T any](n int) []T {
	s := Zeros[T](n)
	const page, pages = 4096, 64
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), uintptr(n)*unsafe.Sizeof(s[0]))
	for i := 0; i < len(bytes); i += page {
		bytes[i] = 0
		if i%(page*pages) == 0 {
			runtime.Gosched()
		}
	}
	return s
}

// room is the number of rows that the blocks have room for.
func (t *Table[T]) room() int {
	rows := 0
	if last := len(t.blocks) - 1; last >= 0 {
		rows = last<<t.shift + len(t.blocks[last])/t.width
	}
	return rows
}

// Zeros returns n zeros, on huge pages if they are many and the system has them.
func Zeros[T any](n int) []T {
	s := make([]T, n)
	adviseHuge(unsafe.Pointer(unsafe.SliceData(s)), uintptr(n)*unsafe.Sizeof(s[0]))
	return s
}

// Room returns s[:n] if the capacity of s is at least n, else a new slice of
// length n. The elements' values are undefined. The new slice comes from [Zeros],
// so it lies on huge pages if it is large, and its capacity is the least power of
// two above n: use Room for buffers that grow large or whose length varies.
func Room[T any](s []T, n int) []T {
	if n > cap(s) {
		s = Zeros[T](1 << bits.Len(uint(n)))
	}
	return s[:n]
}

// Resize returns s[:n] if the capacity of s is at least n, else a new slice of
// length n. The elements' values are undefined. It differs from [Room] in the new
// slice alone, which is on ordinary pages and has the capacity that append would
// give it, close to n in its first allocation: use Resize for scratch memory.
func Resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// within panics when an index is out of range.
func (t *Table[T]) within(index []int32) {
	var most uint32 // negative indices are large
	for _, i := range index {
		most = max(most, uint32(i))
	}
	if len(index) > 0 && int64(most) >= int64(t.n) {
		panic(fmt.Sprintf("kernel: row %d of a table of %d", int32(most), t.n))
	}
}

// column panics unless rows have n columns from the given one on.
func (t *Table[T]) column(from, n int) {
	if from < 0 || from > t.width-n {
		panic(fmt.Sprintf("kernel: %d columns from %d in rows of %d", n, from, t.width))
	}
}

// Prefetch loads columns from to from+n-1 of the indexed rows into the cache,
// without waiting for them. It has no effect but on time. The size of an element
// must be a multiple of 4 bytes.
func Prefetch[T any](t *Table[T], index []int32, from, n int) {
	t.within(index)
	t.column(from, n)
	if n > 0 && vectors(index) {
		var zero T
		words := int(unsafe.Sizeof(zero) / 4)
		prefetch(n*words, &index[0], len(index), (*[]float32)(unsafe.Pointer(&t.blocks[0])), int(t.shift), t.width*words, from*words)
	}
}

// PrefetchLines is [Prefetch] of the cache lines at some addresses. They need
// not be valid pointers: the memory may be gone.
func PrefetchLines(address []uintptr) {
	if vectors(address) {
		prefetchAt(&address[0], len(address))
	}
}

// GatherRectified computes dst[j] = Σ_i max(row_i[x+j] + scale[i]·row_i[y+j],
// 0), with row_i the row index[i] and i ascending: the sum, from zero, of what
// [AddRectified] adds for each.
func GatherRectified(dst []float32, t *Table[float32], index []int32, scale []float32, x, y int) {
	if len(scale) != len(index) {
		panic(fmt.Sprintf("kernel: %d indices with %d scales", len(index), len(scale)))
	}
	t.within(index)
	t.column(x, len(dst))
	t.column(y, len(dst))
	if len(dst) > 0 && vectors(index) {
		gatherRectified(&dst[0], len(dst), &index[0], &scale[0], len(index), &t.blocks[0], int(t.shift), t.width, x, y)
		return
	}
	clear(dst)
	for k, i := range index {
		row := t.Row(i)
		AddRectified(dst, row[x:], row[y:], scale[k])
	}
}

// Exchange sends messages over the edges between row v and each row u of the
// index, in turn and in both directions: with row the n columns that begin at
// from, and sum those that begin at to, it computes sum_v += row_u and
// sum_u += row_v. The rows must differ from each other and from v, and the column
// ranges must not overlap.
func Exchange(t *Table[float32], v int32, index []int32, from, to, n int) {
	t.within([]int32{v})
	t.within(index)
	t.column(from, n)
	t.column(to, n)
	a := t.Row(v)
	if n > 0 && vectors(index) {
		exchange(&a[to], n, &a[from], &index[0], len(index), &t.blocks[0], int(t.shift), t.width, from, to)
		return
	}
	for _, u := range index {
		b := t.Row(u)
		Add(a[to:to+n], b[from:from+n])
		Add(b[to:to+n], a[from:from+n])
	}
}
