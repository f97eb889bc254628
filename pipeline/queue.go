package pipeline

import "github.com/gvbll/gvbll/gnn/kernel"

// queue is a map that remembers the order of insertion, so that the oldest
// entry can make room: every store of things that wait is one, and bounded.
type queue[K comparable, V any] struct {
	slot       map[K]int32
	entries    []entry[K, V]
	free       []int32
	head, tail int32 // oldest and newest entry, none when empty
	held       []int32
	hold       bool // what is taken goes to held, not to free: see still
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
	q.entries[i] = entry[K, V]{}
	if q.hold {
		q.held = append(q.held, i)
	} else {
		q.free = append(q.free, i)
	}
	return e.value, true
}

// oldest removes and returns the entry that has waited longest; the queue must
// not be empty.
func (q *queue[K, V]) oldest() (K, V) {
	k := q.entries[q.head].key
	v, _ := q.take(k)
	return k, v
}

// still is a queue's entries as they were at one time.
type still[K comparable, V any] struct {
	q       *queue[K, V]
	entries []entry[K, V]
	head    int32
	len     int
}

// take copies the entries of q, which until release puts nothing into the slots
// that they stand in: what lies beside the queue by slot stays as it is.
func (s *still[K, V]) take(q *queue[K, V]) {
	s.q, s.head, s.len = q, q.head, q.len()
	s.entries = kernel.Room(s.entries, len(q.entries))
	copy(s.entries, q.entries)
	q.hold = true
}

// release forgets the entries and gives the slots back. Room is kept.
func (s *still[K, V]) release() {
	clear(s.entries)
	s.q.free, s.q.held, s.q.hold = append(s.q.free, s.q.held...), s.q.held[:0], false
}

// walk returns a function that returns each entry in turn, the oldest first,
// with its slot.
func (s *still[K, V]) walk() func() (int32, *entry[K, V]) {
	next := s.head
	return func() (int32, *entry[K, V]) {
		slot := next
		next = s.entries[slot].next
		return slot, &s.entries[slot]
	}
}
