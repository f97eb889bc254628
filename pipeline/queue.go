package pipeline

import (
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// queue is a map in order of insertion. All stores of things that wait are queues: each
// is bounded, and removes its oldest entry to make room.
//
// Each entry has a slot, a small integer that does not change while the entry is in the
// queue, and is reused afterwards. Tables indexed by slot store more about an entry, see
// [slotTable].
type queue[K comparable, V any] struct {
	slot       slotMap[K]
	entries    chunked[entry[K, V]] // by slot
	free       []int32              // slots without an entry
	head, tail int32                // slots of the oldest and the newest entry, none when empty
	frozen     snapshot.Freeze[entry[K, V]]
}

type entry[K comparable, V any] struct {
	key        K
	value      V
	prev, next int32 // slots, or none
}

// none is no slot, no node and no class.
const none = -1

func newQueue[K comparable, V any]() *queue[K, V] {
	return &queue[K, V]{slot: hashSlots[K]{}, head: none, tail: none}
}

// newNodeQueue returns a queue of nodes by their numbers.
func newNodeQueue[V any]() *queue[int32, V] {
	return &queue[int32, V]{slot: new(denseSlots), head: none, tail: none}
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
	slots chunked[int32] // by number: 1 + the slot, or 0
	n     int
}

func (m *denseSlots) len() int { return m.n }

func (m *denseSlots) get(v int32) (slot int32, ok bool) {
	if int(v) >= m.slots.len() {
		return 0, false
	}
	slot = *m.slots.at(v) - 1
	return slot, slot >= 0
}

func (m *denseSlots) set(v, slot int32) {
	for int(v) >= m.slots.len() {
		m.slots.add(0)
	}
	*m.slots.at(v) = slot + 1
	m.n++
}

func (m *denseSlots) remove(v int32) {
	*m.slots.at(v) = 0
	m.n--
}

func (q *queue[K, V]) len() int { return q.slot.len() }

// oldest returns the slot of the oldest entry, none if the queue is empty.
func (q *queue[K, V]) oldest() int32 { return q.head }

// slots returns how many slots there are: all are below it.
func (q *queue[K, V]) slots() int { return q.entries.len() }

// at returns the entry in a slot for reading; it is zero in an empty slot.
func (q *queue[K, V]) at(slot int32) *entry[K, V] { return q.entries.at(slot) }

// slotOf returns the slot of k, if k is in the queue.
func (q *queue[K, V]) slotOf(k K) (slot int32, ok bool) { return q.slot.get(k) }

// get returns the value of k for reading, nil if k is not in the queue. It is valid until
// the next put or remove.
func (q *queue[K, V]) get(k K) *V {
	i, ok := q.slot.get(k)
	if !ok {
		return nil
	}
	return &q.entries.at(i).value
}

// edit is like get, for a value that the caller will change in place.
func (q *queue[K, V]) edit(k K) *V {
	i, ok := q.slot.get(k)
	if !ok {
		return nil
	}
	return &q.change(i).value
}

// change returns the entry in a slot for writing. An open snapshot copies it first.
func (q *queue[K, V]) change(i int32) *entry[K, V] {
	if q.frozen.Wants(i) {
		q.frozen.Keep(i, q.entries.slice(i))
	}
	return q.entries.at(i)
}

// put appends k, which must not be there, and returns its slot.
func (q *queue[K, V]) put(k K, v V) (slot int32) {
	e := entry[K, V]{key: k, value: v, prev: q.tail, next: none}
	i := int32(q.entries.len())
	if n := len(q.free); n > 0 {
		i = q.free[n-1]
		q.free = q.free[:n-1]
		*q.change(i) = e
	} else {
		q.entries.add(e)
	}
	if q.tail == none {
		q.head = i
	} else {
		q.change(q.tail).next = i
	}
	q.tail = i
	q.slot.set(k, i)
	return i
}

// remove removes and returns the value under k.
func (q *queue[K, V]) remove(k K) (v V, ok bool) {
	i, ok := q.detach(k)
	if !ok {
		return v, false
	}
	v = q.entries.at(i).value
	q.release(i)
	return v, true
}

// detach takes k out of the queue. Its slot keeps the value until it is released.
func (q *queue[K, V]) detach(k K) (slot int32, ok bool) {
	i, ok := q.slot.get(k)
	if !ok {
		return none, false
	}
	e := q.entries.at(i)
	if e.prev == none {
		q.head = e.next
	} else {
		q.change(e.prev).next = e.next
	}
	if e.next == none {
		q.tail = e.prev
	} else {
		q.change(e.next).prev = e.prev
	}
	q.slot.remove(k)
	return i, true
}

// release frees the slot of a key that was detached.
func (q *queue[K, V]) release(slot int32) {
	*q.change(slot) = entry[K, V]{}
	q.free = append(q.free, slot)
}

// removeOldest removes and returns the oldest entry. The queue must not be empty.
func (q *queue[K, V]) removeOldest() (K, V) {
	k := q.entries.at(q.head).key
	v, _ := q.remove(k)
	return k, v
}

// freeze makes the queue copy on write for a schema that saves.
func (q *queue[K, V]) freeze(s *snapshot.Schema) { s.Freeze(&q.frozen, q.entries.len()) }

// walk returns a function that returns the next entry at each call, with its slot: the
// entries at the time of freeze, which is now, the oldest first. An entry is valid until
// the queue changes.
func (q *queue[K, V]) walk() func() (slot int32, e *entry[K, V]) { return q.walkFrom(q.head) }

// walkFrom is walk from an entry on, given its slot.
func (q *queue[K, V]) walkFrom(next int32) func() (slot int32, e *entry[K, V]) {
	now := q.entries.slice
	return func() (int32, *entry[K, V]) {
		slot := next
		e := &q.frozen.At(slot, now)[0]
		next = e.next
		return slot, e
	}
}

// declareNodes freezes a queue of nodes and declares its keys, the oldest first. When
// restoring, there may be at most limit, all below n; their values are zero, and the
// i-th has slot i.
func declareNodes[V any](s *snapshot.Schema, name string, q *queue[int32, V], limit, n int) {
	q.freeze(s)
	next := q.walk()
	keys := snapshot.Column(s, name, func() int32 { _, e := next(); return e.key }, s.Len(name, q.len(), limit))
	s.Check(func() error {
		for _, v := range keys {
			if uint(v) >= uint(n) || q.get(v) != nil {
				return snapshot.Damaged("%s: node %d of %d, or twice", name, v, n)
			}
			var zero V
			q.put(v, zero)
		}
		return nil
	})
}

// walkSlots returns a function that returns the slot of the next entry at each call, in the
// order of walk.
func (q *queue[K, V]) walkSlots() func() (slot int32) {
	next := q.walk()
	return func() int32 {
		slot, _ := next()
		return slot
	}
}

// declareField declares one field of all values of a queue. The keys must have been
// declared before.
func declareField[T safetensors.Element, K comparable, V any](s *snapshot.Schema, name string, q *queue[K, V], field func(*V) *T) {
	next := q.walk()
	values := snapshot.Column(s, name, func() T { _, e := next(); return *field(&e.value) }, q.len())
	for i, x := range values {
		*field(&q.entries.at(int32(i)).value) = x
	}
}

// declareKeys declares the keys of a frozen queue. When restoring, put is called with
// each, the oldest first.
func declareKeys[V any](s *snapshot.Schema, name string, q *queue[event.ID, V], put func(i int, id event.ID) error) {
	strings, bytes := 0, 0
	for i := range int32(q.entries.len()) {
		if id := q.entries.at(i).key.Str; id != "" { // there is none in an empty slot
			strings++
			bytes += len(id)
		}
	}
	declareIDs(s, name, q.len(), strings, bytes, func() func() event.ID {
		next := q.walk()
		return func() event.ID {
			_, e := next()
			return e.key
		}
	}, put)
}
