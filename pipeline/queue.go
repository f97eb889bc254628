package pipeline

import "github.com/gvbll/gvbll/gnn/kernel"

// queue is a map that remembers the order of insertion, so that the oldest
// entry can make room: every store of things that wait is one, and bounded.
type queue[K comparable, V any] struct {
	slot       places[K]
	entries    chunked[entry[K, V]]
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
	return &queue[K, V]{slot: hashed[K]{}, head: none, tail: none}
}

// newNodeQueue returns a queue of nodes by their numbers.
func newNodeQueue[V any]() *queue[int32, V] {
	return &queue[int32, V]{slot: new(numbered), head: none, tail: none}
}

// places say in which slot a key is.
type places[K comparable] interface {
	len() int
	get(k K) (slot int32, ok bool)
	set(k K, slot int32)
	drop(k K) // which is there
}

type hashed[K comparable] map[K]int32

func (m hashed[K]) len() int { return len(m) }

func (m hashed[K]) get(k K) (slot int32, ok bool) {
	slot, ok = m[k]
	return slot, ok
}

func (m hashed[K]) set(k K, slot int32) { m[k] = slot }

func (m hashed[K]) drop(k K) { delete(m, k) }

// numbered is for the numbers of nodes, which are dense: 4 bytes a node, in a
// fraction of the time that a map takes.
type numbered struct {
	slots chunked[int32] // and 1, or 0, by number
	n     int
}

func (m *numbered) len() int { return m.n }

func (m *numbered) get(v int32) (slot int32, ok bool) {
	if int(v) >= m.slots.len() {
		return 0, false
	}
	slot = *m.slots.at(v) - 1
	return slot, slot >= 0
}

func (m *numbered) set(v, slot int32) {
	for int(v) >= m.slots.len() {
		m.slots.add(0)
	}
	*m.slots.at(v) = slot + 1
	m.n++
}

func (m *numbered) drop(v int32) {
	*m.slots.at(v) = 0
	m.n--
}

func (q *queue[K, V]) len() int { return q.slot.len() }

// place returns the slot of k, if it is there.
func (q *queue[K, V]) place(k K) (slot int32, ok bool) { return q.slot.get(k) }

// get returns the value kept under k, to read or to change in place until the
// next put or take; nil when there is none.
func (q *queue[K, V]) get(k K) *V {
	i, ok := q.slot.get(k)
	if !ok {
		return nil
	}
	return &q.entries.at(i).value
}

// put appends k, which must not be there, and returns its slot.
func (q *queue[K, V]) put(k K, v V) (slot int32) {
	e := entry[K, V]{key: k, value: v, prev: q.tail, next: none}
	i := int32(q.entries.len())
	if n := len(q.free); n > 0 {
		i = q.free[n-1]
		q.free = q.free[:n-1]
		*q.entries.at(i) = e
	} else {
		q.entries.add(e)
	}
	if q.tail == none {
		q.head = i
	} else {
		q.entries.at(q.tail).next = i
	}
	q.tail = i
	q.slot.set(k, i)
	return i
}

// take removes and returns what is kept under k.
func (q *queue[K, V]) take(k K) (v V, ok bool) {
	i, ok := q.slot.get(k)
	if !ok {
		return v, false
	}
	e := *q.entries.at(i)
	if e.prev == none {
		q.head = e.next
	} else {
		q.entries.at(e.prev).next = e.next
	}
	if e.next == none {
		q.tail = e.prev
	} else {
		q.entries.at(e.next).prev = e.prev
	}
	q.slot.drop(k)
	if q.hold {
		q.held = append(q.held, i)
		return e.value, true
	}
	q.empty(i)
	return e.value, true
}

// empty has a slot used again.
func (q *queue[K, V]) empty(i int32) {
	*q.entries.at(i) = entry[K, V]{}
	q.free = append(q.free, i)
}

// oldest removes and returns the entry that has waited longest; the queue must
// not be empty.
func (q *queue[K, V]) oldest() (K, V) {
	k := q.entries.at(q.head).key
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
	s.next = kernel.Room(s.next, q.entries.len())
	for i := range s.next {
		s.next[i] = q.entries.at(int32(i)).next
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
		return slot, s.q.entries.at(slot)
	}
}
