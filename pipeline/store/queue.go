package store

import (
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// Queue is a map in order of insertion. All stores of things that wait are queues: each
// is bounded, and removes its oldest entry to make room.
//
// Each entry has a slot, a small integer that does not change while the entry is in the
// queue, and is reused afterwards. Tables indexed by slot store more about an entry, see
// [SlotTable].
type Queue[K comparable, V any] struct {
	slot       slotMap[K]
	entries    Chunked[entry[K, V]] // by slot
	free       []int32              // slots without an entry
	head, tail int32                // slots of the oldest and the newest entry, none when empty
	frozen     snapshot.Freeze[entry[K, V]]
}

// entry is a key with its value.
type entry[K comparable, V any] struct {
	Key        K
	Value      V
	prev, Next int32 // slots, or none
}

// none is no slot.
const none = -1

// NewQueue returns an empty queue.
func NewQueue[K comparable, V any]() *Queue[K, V] {
	return &Queue[K, V]{slot: hashSlots[K]{}, head: none, tail: none}
}

// NewNodeQueue returns a queue of nodes by their numbers.
func NewNodeQueue[V any]() *Queue[int32, V] {
	return &Queue[int32, V]{slot: new(denseSlots), head: none, tail: none}
}

// slotMap maps keys to slots.
type slotMap[K comparable] interface {
	len() int
	get(k K) (slot int32, ok bool)
	set(k K, slot int32)
	remove(k K) // k must be in the map
}

type hashSlots[K comparable] map[K]int32

func (m hashSlots[K]) len() int { return len(m) }

func (m hashSlots[K]) get(k K) (slot int32, ok bool) {
	slot, ok = m[k]
	return slot, ok
}

func (m hashSlots[K]) set(k K, slot int32) { m[k] = slot }

func (m hashSlots[K]) remove(k K) { delete(m, k) }

// denseSlots is a slotMap for node numbers: 4 bytes per number, and several times as
// fast as a map.
type denseSlots struct {
	slots Chunked[int32] // by number: 1 + the slot, or 0
	n     int
}

func (m *denseSlots) len() int { return m.n }

func (m *denseSlots) get(v int32) (slot int32, ok bool) {
	if int(v) >= m.slots.Len() {
		return 0, false
	}
	slot = *m.slots.At(v) - 1
	return slot, slot >= 0
}

func (m *denseSlots) set(v, slot int32) {
	for int(v) >= m.slots.Len() {
		m.slots.Add(0)
	}
	*m.slots.At(v) = slot + 1
	m.n++
}

func (m *denseSlots) remove(v int32) {
	*m.slots.At(v) = 0
	m.n--
}

func (q *Queue[K, V]) Len() int { return q.slot.len() }

// Oldest returns the slot of the oldest entry, none if the queue is empty.
func (q *Queue[K, V]) Oldest() int32 { return q.head }

// Slots returns how many slots there are: all are below it.
func (q *Queue[K, V]) Slots() int { return q.entries.Len() }

// At returns the entry in a slot for reading; it is zero in an empty slot.
func (q *Queue[K, V]) At(slot int32) *entry[K, V] { return q.entries.At(slot) }

// SlotOf returns the slot of k, if k is in the queue.
func (q *Queue[K, V]) SlotOf(k K) (slot int32, ok bool) { return q.slot.get(k) }

// Get returns the value of k for reading, nil if k is not in the queue. It is valid until
// the next put or remove.
func (q *Queue[K, V]) Get(k K) *V {
	i, ok := q.slot.get(k)
	if !ok {
		return nil
	}
	return &q.entries.At(i).Value
}

// Edit is like get, for a value that the caller will change in place.
func (q *Queue[K, V]) Edit(k K) *V {
	i, ok := q.slot.get(k)
	if !ok {
		return nil
	}
	return &q.Change(i).Value
}

// Change returns the entry in a slot for writing. An open snapshot copies it first.
func (q *Queue[K, V]) Change(i int32) *entry[K, V] {
	if q.frozen.Wants(i) {
		q.frozen.Keep(i, q.entries.slice(i))
	}
	return q.entries.At(i)
}

// Put appends k, which must not be there, and returns its slot.
func (q *Queue[K, V]) Put(k K, v V) (slot int32) {
	e := entry[K, V]{Key: k, Value: v, prev: q.tail, Next: none}
	i := int32(q.entries.Len())
	if n := len(q.free); n > 0 {
		i = q.free[n-1]
		q.free = q.free[:n-1]
		*q.Change(i) = e
	} else {
		q.entries.Add(e)
	}
	if q.tail == none {
		q.head = i
	} else {
		q.Change(q.tail).Next = i
	}
	q.tail = i
	q.slot.set(k, i)
	return i
}

// Remove removes and returns the value under k.
func (q *Queue[K, V]) Remove(k K) (v V, ok bool) {
	i, ok := q.Detach(k)
	if !ok {
		return v, false
	}
	v = q.entries.At(i).Value
	q.Release(i)
	return v, true
}

// Detach takes k out of the queue. Its slot keeps the value until it is released.
func (q *Queue[K, V]) Detach(k K) (slot int32, ok bool) {
	i, ok := q.slot.get(k)
	if !ok {
		return none, false
	}
	e := q.entries.At(i)
	if e.prev == none {
		q.head = e.Next
	} else {
		q.Change(e.prev).Next = e.Next
	}
	if e.Next == none {
		q.tail = e.prev
	} else {
		q.Change(e.Next).prev = e.prev
	}
	q.slot.remove(k)
	return i, true
}

// Release frees the slot of a key that was detached.
func (q *Queue[K, V]) Release(slot int32) {
	*q.Change(slot) = entry[K, V]{}
	q.free = append(q.free, slot)
}

// RemoveOldest removes and returns the oldest entry. The queue must not be empty.
func (q *Queue[K, V]) RemoveOldest() (K, V) {
	k := q.entries.At(q.head).Key
	v, _ := q.Remove(k)
	return k, v
}

// Freeze makes the queue copy on write for a schema that saves.
func (q *Queue[K, V]) Freeze(s *snapshot.Schema) { s.Freeze(&q.frozen, q.entries.Len()) }

// Walk returns a function that returns the next entry at each call, with its slot: the
// entries at the time of freeze, which is now, the oldest first. An entry is valid until
// the queue changes.
func (q *Queue[K, V]) Walk() func() (slot int32, e *entry[K, V]) { return q.WalkFrom(q.head) }

// WalkFrom is walk from an entry on, given its slot.
func (q *Queue[K, V]) WalkFrom(next int32) func() (slot int32, e *entry[K, V]) {
	now := q.entries.slice
	return func() (int32, *entry[K, V]) {
		slot := next
		e := &q.frozen.At(slot, now)[0]
		next = e.Next
		return slot, e
	}
}

// DeclareNodes freezes a queue of nodes and declares its keys, the oldest first. When
// restoring, there may be at most limit, all below n; their values are zero, and the
// i-th has slot i.
func DeclareNodes[V any](s *snapshot.Schema, name string, q *Queue[int32, V], limit, n int) {
	q.Freeze(s)
	next := q.Walk()
	keys := snapshot.Column(s, name, func() int32 { _, e := next(); return e.Key }, s.Len(name, q.Len(), limit))
	s.Check(func() error {
		for _, v := range keys {
			if uint(v) >= uint(n) || q.Get(v) != nil {
				return snapshot.Damaged("%s: node %d of %d, or twice", name, v, n)
			}
			var zero V
			q.Put(v, zero)
		}
		return nil
	})
}

// WalkSlots returns a function that returns the slot of the next entry at each call, in the
// order of walk.
func (q *Queue[K, V]) WalkSlots() func() (slot int32) {
	next := q.Walk()
	return func() int32 {
		slot, _ := next()
		return slot
	}
}

// DeclareField declares one field of all values of a queue. The keys must have been
// declared before.
func DeclareField[T safetensors.Element, K comparable, V any](s *snapshot.Schema, name string, q *Queue[K, V], field func(*V) *T) {
	next := q.Walk()
	values := snapshot.Column(s, name, func() T { _, e := next(); return *field(&e.Value) }, q.Len())
	for i, x := range values {
		*field(&q.entries.At(int32(i)).Value) = x
	}
}

// DeclareKeys declares the keys of a frozen queue. When restoring, put is called with
// each, the oldest first.
func DeclareKeys[V any](s *snapshot.Schema, name string, q *Queue[event.ID, V], put func(i int, id event.ID) error) {
	strings, bytes := 0, 0
	for i := range int32(q.entries.Len()) {
		if id := q.entries.At(i).Key.Str; id != "" { // there is none in an empty slot
			strings++
			bytes += len(id)
		}
	}
	DeclareIDs(s, name, q.Len(), strings, bytes, func() func() event.ID {
		next := q.Walk()
		return func() event.ID {
			_, e := next()
			return e.Key
		}
	}, put)
}
