package neighbourhood

import (
	"math"
	"math/bits"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// entry is one number of a sparse vector.
type entry struct {
	index int32
	value float32
}

// lists are sparse vectors, numbered from 0, in few allocations. They lie in
// blocks of 2^class entries that are cut from segments; the block that a list
// has outgrown is used again.
type lists struct {
	at       []list
	segments [][]entry
	total    int // entries in the segments
	room     int // entries not yet cut from the last one
	free     [32][]place
	entries  int // in all lists
}

type place struct{ segment, offset int32 }

// list is where a vector lies. The zero list is empty.
type list struct {
	place
	len, cap int32
}

// A segment is as long as all before it together, within these bounds. A larger
// block has one of its own.
const (
	leastSegment = 1 << 10
	mostSegment  = 1 << 21
)

// leastClass is the class of the smallest block: 4 entries.
const leastClass = 2

// grow adds empty lists.
func (l *lists) grow(n int) { l.at = append(l.at, make([]list, n)...) }

// view returns list i, until it is next set.
func (l *lists) view(i int32) []entry {
	b := &l.at[i]
	if b.len == 0 {
		return nil
	}
	return l.segments[b.segment][b.offset:][:b.len:b.len]
}

// set replaces list i.
func (l *lists) set(i int32, x []entry) {
	b := &l.at[i]
	l.entries += len(x) - int(b.len)
	if len(x) > int(b.cap) {
		if b.cap > 0 {
			class := bits.Len32(uint32(b.cap)) - 1
			l.free[class] = append(l.free[class], b.place)
		}
		class := max(bits.Len(uint(len(x)-1)), leastClass)
		b.place, b.cap = l.take(class), 1<<class
	}
	b.len = int32(len(x))
	if len(x) > 0 {
		copy(l.segments[b.segment][b.offset:], x)
	}
}

// take returns a block of 2^class entries.
func (l *lists) take(class int) place {
	if last := len(l.free[class]) - 1; last >= 0 {
		p := l.free[class][last]
		l.free[class] = l.free[class][:last]
		return p
	}
	size := 1 << class
	if size > l.room {
		for l.room >= 1<<leastClass { // what is left of the last segment
			class := bits.Len(uint(l.room)) - 1
			l.free[class] = append(l.free[class], l.end())
			l.room -= 1 << class
		}
		if len(l.segments) == math.MaxInt32 {
			panic("vicinity: too many features")
		}
		l.room = max(size, min(max(l.total, leastSegment), mostSegment))
		l.total += l.room
		l.segments = append(l.segments, kernel.Zeros[entry](l.room))
	}
	p := l.end()
	l.room -= size
	return p
}

// end is where the room of the last segment begins.
func (l *lists) end() place {
	last := len(l.segments) - 1
	return place{int32(last), int32(len(l.segments[last]) - l.room)}
}
