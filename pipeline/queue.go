package pipeline

import "github.com/gvbll/gvbll/gnn/kernel"

// queue is a map that remembers the order of insertion, so that the oldest
// entry can make room: every store of things that wait is one, and bounded.
type queue[K comparable, V any] struct {
	slot       map[K]int32
	entries    []entry[K, V]
	free       []int32
	head, tail int32 // oldest and newest entry, none when empty
	hold       bool  // for a still: what is taken stays in its slot
	held       []int32
}

type entry[K comparable, V any] struct {
	key        K
	value      V
	prev, next int32
}

const none = -1

func newQueue[K comparable, V any]() *queue[K, V] {
	return &queue[K, V]{slot: make(map[K]int32), head: none, tail: none}
}

func (q *queue[K, V]) len() int { return len(q.slot) }

// get returns the value kept under k, to read or to change in place until the
// next put or take; nil when there is none.
func (q *queue[K, V]) get(k K) *V {
	i, ok := q.slot[k]
	if !ok {
		return nil
	}
	return &q.entries[i].value
}

// put appends k, which must not be there.
func (q *queue[K, V]) put(k K, v V) {
	e := entry[K, V]{key: k, value: v, prev: q.tail, next: none}
	i := int32(len(q.entries))
	if n := len(q.free); n > 0 {
		i = q.free[n-1]
		q.free = q.free[:n-1]
		q.entries[i] = e
	} else {
		q.entries = append(q.entries, e)
	}
	if q.tail == none {
		q.head = i
	} else {
		q.entries[q.tail].next = i
	}
	q.tail = i
	q.slot[k] = i
}

// take removes and returns what is kept under k.
func (q *queue[K, V]) take(k K) (v V, ok bool) {
	i, ok := q.slot[k]
	if !ok {
		return v, false
	}
	e := q.entries[i]
	if e.prev == none {
		q.head = e.next
	} else {
		q.entries[e.prev].next = e.next
	}
	if e.next == none {
		q.tail = e.prev
	} else {
		q.entries[e.next].prev = e.prev
	}
	delete(q.slot, k)
	if q.hold {
		q.held = append(q.held, i)
		return e.value, true
	}
	q.empty(i)
	return e.value, true
}

// empty has a slot used again.
func (q *queue[K, V]) empty(i int32) {
	q.entries[i] = entry[K, V]{}
	q.free = append(q.free, i)
}

// oldest removes and returns the entry that has waited longest; the queue must
// not be empty.
func (q *queue[K, V]) oldest() (K, V) {
	k := q.entries[q.head].key
	v, _ := q.take(k)
	return k, v
}

// still is a queue's entries as they were at one time, but for values that were
// changed in place.
type still[K comparable, V any] struct {
	q    *queue[K, V]
	next []int32 // by slot: the next entry's
	head int32
	len  int
}

// take notes the order of q's entries, which until release stay in their slots,
// and what lies beside the queue by slot with them.
func (s *still[K, V]) take(q *queue[K, V]) {
	s.q, s.head, s.len = q, q.head, q.len()
	s.next = kernel.Room(s.next, len(q.entries))
	for i := range s.next {
		s.next[i] = q.entries[i].next
	}
	q.hold = true
}

// release lets the slots of entries that were taken be used again.
func (s *still[K, V]) release() {
	for _, i := range s.q.held {
		s.q.empty(i)
	}
	s.q.held, s.q.hold = s.q.held[:0], false
}

// walk returns a function that returns each entry in turn, the oldest first,
// with its slot.
func (s *still[K, V]) walk() func() (int32, *entry[K, V]) {
	next := s.head
	return func() (int32, *entry[K, V]) {
		slot := next
		next = s.next[slot]
		return slot, &s.q.entries[slot]
	}
}
