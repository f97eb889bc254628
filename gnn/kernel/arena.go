package kernel

import (
	"math"
	"math/bits"
	"unsafe"
)

// Arena holds many short lists in few allocations, so that the collector sees
// one pointer a segment instead of one a list. A list lies in a block of
// 2^class elements, cut from a segment. One that outgrows its block moves to a
// block of at least twice the size, and the block it left is used again. At
// most half of a block is empty, or three quarters of one whose list got
// shorter.
//
// The zero Arena is empty. It is used by one goroutine.
type Arena[T any] struct {
	segments [][]T
	size     int           // length of the segments together
	uncut    int           // elements at the end of the last segment that belong to no block
	free     [32][]address // by class, the blocks that no list uses
}

// List says where in an [Arena] a list lies. The zero List is empty and has no
// block.
type List struct {
	at  address
	len int32 // <= cap
	cap int32 // 1<<class, 0 without a block
}

// address is where a block begins.
type address struct{ segment, offset int32 }

const (
	// A segment is as long as all before it together, within these bounds in
	// bytes. A larger block has one of its own.
	minSegment = 1 << 14
	maxSegment = 1 << 24

	minClass = 2  // blocks have at least 4 elements
	maxClass = 30 // and at most this many, as a List's cap is an int32
)

// Len is the number of elements.
func (l List) Len() int { return int(l.len) }

// Cap is the number of elements that the list's block has room for.
func (l List) Cap() int { return int(l.cap) }

// Size is the number of elements that memory was taken for.
func (a *Arena[T]) Size() int { return a.size }

// View returns the elements. The slice must not be written to, and is valid until
// the list next changes.
func (a *Arena[T]) View(l List) []T {
	if l.len == 0 {
		return nil
	}
	return a.segments[l.at.segment][l.at.offset:][:l.len:l.len]
}

// Edit is View for elements that are to be written to.
func (a *Arena[T]) Edit(l List) []T {
	if l.len == 0 {
		return nil
	}
	return a.segments[l.at.segment][l.at.offset:][:l.len]
}

// Append adds an element at the end. It may move the list to another block, but
// does not change the elements of a View taken before.
func (a *Arena[T]) Append(l *List, x T) {
	if l.len == l.cap {
		a.grow(l, 1)
	}
	a.segments[l.at.segment][l.at.offset+l.len] = x
	l.len++
}

// Grow makes room for n more elements, so that appending them moves nothing.
func (a *Arena[T]) Grow(l *List, n int) {
	if n > int(l.cap-l.len) {
		a.grow(l, n)
	}
}

// Set replaces all elements.
func (a *Arena[T]) Set(l *List, x []T) {
	if len(x) > int(l.cap) {
		a.Clear(l)
		a.grow(l, len(x))
	}
	l.len = int32(len(x))
	if len(x) > 0 {
		copy(a.Edit(*l), x)
	}
}

// Clear makes the list empty, and lets its block be used again.
func (a *Arena[T]) Clear(l *List) {
	if l.cap > 0 {
		class := bits.Len32(uint32(l.cap)) - 1
		a.free[class] = append(a.free[class], l.at)
	}
	*l = List{}
}

// Insert puts an element before the i-th. The list must have room for it, as it
// has after Remove.
func (a *Arena[T]) Insert(l *List, i int, x T) {
	l.len++
	list := a.Edit(*l)
	copy(list[i+1:], list[i:])
	list[i] = x
}

// Remove takes out the i-th element. The list stays in its block.
func (a *Arena[T]) Remove(l *List, i int) {
	list := a.Edit(*l)
	copy(list[i:], list[i+1:])
	l.len--
}

// RemoveLast takes out the last element. The list stays in its block.
func (a *Arena[T]) RemoveLast(l *List) { l.len-- }

// Retain takes out the elements that stays is false for, and moves a list that
// has become short to a smaller block.
func (a *Arena[T]) Retain(l *List, stays func(T) bool) {
	list := a.Edit(*l)
	n := 0
	for _, x := range list {
		if stays(x) {
			list[n] = x
			n++
		}
	}
	l.len = int32(n)
	switch {
	case l.len == 0:
		a.Clear(l)
	case l.len <= l.cap/4 && l.cap > 1<<minClass:
		var smaller List
		a.Set(&smaller, a.View(*l))
		a.Clear(l)
		*l = smaller
	}
}

// AppendEnd appends, for [PrefetchLines], the address at which the list's next
// element will be written, or, of a list that is about to move, its beginning.
func (a *Arena[T]) AppendEnd(addresses []uintptr, l List) []uintptr {
	if l.cap == 0 {
		return addresses
	}
	at := l.at.offset
	if l.len < l.cap {
		at += l.len
	}
	return append(addresses, uintptr(unsafe.Pointer(&a.segments[l.at.segment][at])))
}

// grow moves the list to a block with room for n more.
func (a *Arena[T]) grow(l *List, n int) {
	class := max(bits.Len(uint(int(l.len)+n-1)), minClass)
	if class > maxClass {
		panic("kernel: a list is too long")
	}
	larger := List{at: a.block(class), len: l.len, cap: 1 << class}
	copy(a.Edit(larger), a.View(*l))
	a.Clear(l)
	*l = larger
}

// block returns an unused block of the class.
func (a *Arena[T]) block(class int) address {
	if last := len(a.free[class]) - 1; last >= 0 {
		at := a.free[class][last]
		a.free[class] = a.free[class][:last]
		return at
	}
	length := 1 << class
	if length > a.uncut {
		a.cutRest()
		if len(a.segments) == math.MaxInt32 {
			panic("kernel: too many lists")
		}
		element := int(unsafe.Sizeof(*new(T)))
		a.uncut = max(length, min(max(a.size, minSegment/element), maxSegment/element))
		a.size += a.uncut
		a.segments = append(a.segments, Zeros[T](a.uncut))
	}
	at := a.rest()
	a.uncut -= length
	return at
}

// cutRest cuts the unused end of the last segment into free blocks.
func (a *Arena[T]) cutRest() {
	for a.uncut >= 1<<minClass {
		class := bits.Len(uint(a.uncut)) - 1
		a.free[class] = append(a.free[class], a.rest())
		a.uncut -= 1 << class
	}
	a.uncut = 0
}

// rest returns the address of the first element of the last segment that belongs
// to no block.
func (a *Arena[T]) rest() address {
	last := len(a.segments) - 1
	return address{int32(last), int32(len(a.segments[last]) - a.uncut)}
}
