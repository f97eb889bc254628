package gnn

import (
	"math"
	"math/bits"
)

// arena holds the adjacency lists of all nodes in few allocations. Lists live
// in blocks of 2^class numbers, cut from segments; a list that outgrows its
// block moves to one of twice the size, and the block it left is used again.
// At most half of a block stands empty.
type arena struct {
	segments [][]int32
	room     int           // numbers not yet cut from the last segment
	free     [32][]address // by class
}

// segmentLen is the length of a segment. A larger block has one of its own.
const segmentLen = 1 << 18

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
		a.grow(b)
	}
	a.segments[b.at.segment][b.at.offset+b.len] = v
	b.len++
}

// grow moves b to a block of the next class.
func (a *arena) grow(b *block) {
	class := minClass
	if b.cap > 0 {
		class = bits.Len32(uint32(b.cap))
	}
	if class > 30 {
		panic("gnn: a node has too many neighbours")
	}
	at := a.take(class)
	copy(a.segments[at.segment][at.offset:], a.view(*b))
	if b.cap > 0 {
		a.free[class-1] = append(a.free[class-1], b.at)
	}
	b.at, b.cap = at, 1<<class
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
		a.room = max(size, segmentLen)
		a.segments = append(a.segments, make([]int32, a.room))
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
