package gnn

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// arena holds the adjacency lists of all nodes in few allocations. Lists live
// in blocks of 2^class numbers, cut from segments; a list that outgrows its
// block moves to one of twice the size, and the block it left is used again.
// At most half of a block stands empty, or three quarters of one whose list got
// shorter.
type arena struct {
	segments [][]int32
	total    int           // length of the segments together
	room     int           // numbers not yet cut from the last one
	free     [32][]address // by class
}

// A segment is as long as all before it together, within these bounds. A larger
// block has one of its own.
const (
	minSegment = 1 << 12
	maxSegment = 1 << 22
)

// minClass is the class of the smallest block: 4 neighbours.
const minClass = 2

type address struct{ segment, offset int32 }

// block is a list in the arena. The zero block is the empty list.
type block struct {
	at  address
	len int32
	cap int32
}

// view returns the list. It must not be written to.
func (a *arena) view(b block) []int32 {
	if b.len == 0 {
		return nil
	}
	return a.segments[b.at.segment][b.at.offset:][:b.len:b.len]
}

func (a *arena) append(b *block, v int32) {
	if b.len == b.cap {
		a.grow(b, 1)
	}
	a.segments[b.at.segment][b.at.offset+b.len] = v
	b.len++
}

// end appends the address at which the next number of a list will be put, or, if
// the list is about to move, of the list.
func (a *arena) end(addresses []uintptr, b block) []uintptr {
	if b.cap == 0 {
		return addresses
	}
	at := b.at.offset
	if b.len < b.cap {
		at += b.len
	}
	return append(addresses, uintptr(unsafe.Pointer(&a.segments[b.at.segment][at])))
}

// reserve makes room for more numbers, so that appending them moves nothing.
func (a *arena) reserve(b *block, more int) {
	if more > int(b.cap-b.len) {
		a.grow(b, more)
	}
}

// fill sets an empty list to the numbers.
func (a *arena) fill(b *block, numbers []int32) {
	if len(numbers) > 0 {
		a.grow(b, len(numbers))
		b.len = int32(copy(a.segments[b.at.segment][b.at.offset:], numbers))
	}
}

// grow moves b to a block with room for more.
func (a *arena) grow(b *block, more int) {
	class := max(bits.Len(uint(int(b.len)+more-1)), minClass)
	if class > 30 {
		panic("gnn: a node has too many neighbours")
	}
	at := a.take(class)
	copy(a.segments[at.segment][at.offset:], a.view(*b))
	a.release(b)
	b.at, b.cap = at, 1<<class
}

// release lets the room of a list be used again.
func (a *arena) release(b *block) {
	if b.cap > 0 {
		class := bits.Len32(uint32(b.cap)) - 1
		a.free[class] = append(a.free[class], b.at)
	}
}

// take returns a block of 2^class numbers.
func (a *arena) take(class int) address {
	if last := len(a.free[class]) - 1; last >= 0 {
		at := a.free[class][last]
		a.free[class] = a.free[class][:last]
		return at
	}
	size := 1 << class
	if size > a.room {
		a.recycle()
		if len(a.segments) == math.MaxInt32 {
			panic("gnn: too many edges")
		}
		a.room = max(size, min(max(a.total, minSegment), maxSegment))
		a.total += a.room
		a.segments = append(a.segments, kernel.Zeros[int32](a.room))
	}
	last := len(a.segments) - 1
	at := address{int32(last), int32(len(a.segments[last]) - a.room)}
	a.room -= size
	return at
}

// recycle cuts what is left of the last segment into free blocks.
func (a *arena) recycle() {
	last := len(a.segments) - 1
	for a.room >= 1<<minClass {
		class := bits.Len(uint(a.room)) - 1
		a.free[class] = append(a.free[class], address{int32(last), int32(len(a.segments[last]) - a.room)})
		a.room -= 1 << class
	}
	a.room = 0
}

// cut takes number i out of a list. It stays in its room.
func (a *arena) cut(b *block, i int) {
	list := a.segments[b.at.segment][b.at.offset:][:b.len]
	copy(list[i:], list[i+1:])
	b.len--
}

// insert puts back what cut took.
func (a *arena) insert(b *block, i int, v int32) {
	b.len++
	list := a.segments[b.at.segment][b.at.offset:][:b.len]
	copy(list[i+1:], list[i:])
	list[i] = v
}

// retain takes the numbers out of a list that are not to stay, and moves it to a
// smaller block where it has become short.
func (a *arena) retain(b *block, stays func(int32) bool) {
	list := a.segments[b.at.segment][b.at.offset:][:b.len]
	b.len = 0
	for _, v := range list {
		if stays(v) {
			list[b.len] = v
			b.len++
		}
	}
	switch {
	case b.len == 0:
		a.release(b)
		*b = block{}
	case b.len <= b.cap/4 && b.cap > 1<<minClass:
		was := *b
		b.at, b.len, b.cap = address{}, 0, 0
		a.fill(b, a.view(was))
		a.release(&was)
	}
}
