package structure

import (
	"math"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/store"
)

// waitingEdgeBytes bounds the memory of waiting edges: ids may be a kilobyte long, so
// their total length is limited to this average per edge of the bound.
const waitingEdgeBytes = 256

// waitingEdges keeps the edges to nodes that have not arrived, the oldest of which are
// dropped to make room.
type waitingEdges struct {
	queue *store.Queue[event.ID, waiters] // by the id of a node that has not arrived
	bound int
	edges int // number of all waiters, at most bound
	held  int // those of them that are ids
	bytes int // total length of the ids, keys included, at most waitingEdgeBytes*bound
}

// waiters are the other ends of the edges to a node that has not arrived. A list is not
// shortened in place but replaced, since an open snapshot may still read it.
type waiters struct {
	numbers []int32 // nodes that have arrived
	// ids are the targets of the edges whose source is this node and neither of whose
	// ends had arrived when they came. A target may have arrived since.
	ids []event.ID
}

func newWaitingEdges(bound int) *waitingEdges {
	return &waitingEdges{queue: store.NewQueue[event.ID, waiters](), bound: bound}
}

// wait keeps the edge from node v to id until id arrives. It returns how many older edges
// were dropped to make room.
func (w *waitingEdges) wait(id event.ID, v int32) (dropped int) {
	of := w.of(id)
	of.numbers = append(of.numbers, v)
	return w.added(0)
}

// hold keeps the edge between two nodes that have not arrived until the source arrives. It
// returns how many older edges were dropped to make room.
func (w *waitingEdges) hold(source, target event.ID) (dropped int) {
	of := w.of(source)
	of.ids = append(of.ids, target.Clone())
	w.held++
	return w.added(len(target.Str))
}

// of returns the waiters for id, to add one. They are new if there are none.
func (w *waitingEdges) of(id event.ID) *waiters {
	if of := w.queue.Edit(id); of != nil {
		return of
	}
	w.queue.Put(id.Clone(), waiters{})
	w.bytes += len(id.Str)
	return w.queue.Edit(id)
}

// added counts a waiter whose id has the given length, and makes room.
func (w *waitingEdges) added(bytes int) (dropped int) {
	w.edges++
	w.bytes += bytes
	for w.edges > w.bound || w.bytes > waitingEdgeBytes*w.bound {
		id, of := w.queue.RemoveOldest()
		w.bytes -= len(id.Str)
		dropped += w.forget(of)
	}
	return dropped
}

// forget counts waiters as gone, and returns their number.
func (w *waitingEdges) forget(of waiters) int {
	for _, id := range of.ids {
		w.bytes -= len(id.Str)
	}
	w.held -= len(of.ids)
	w.edges -= len(of.numbers) + len(of.ids)
	return len(of.numbers) + len(of.ids)
}

// claim removes and returns the waiters for id, in the order in which they came.
func (w *waitingEdges) claim(id event.ID) waiters {
	of, waited := w.queue.Remove(id)
	if waited {
		w.bytes -= len(id.Str)
		w.forget(of)
	}
	return of
}

// leave removes the edges of departed nodes, given by number and by id, and returns how
// many there were. It takes time proportional to all waiting edges.
func (w *waitingEdges) leave(number func(v int32) bool, id func(event.ID) bool) (edges int) {
	for slot := w.queue.Oldest(); slot != none; {
		entry := w.queue.At(slot)
		next := entry.Next
		edges += w.filter(slot, number, id)
		slot = next
	}
	return edges
}

// remove removes the waiters for id, given by number and by id, and returns how many there
// were.
func (w *waitingEdges) remove(id event.ID, number func(v int32) bool, target func(event.ID) bool) (edges int) {
	slot, waits := w.queue.SlotOf(id)
	if !waits {
		return 0
	}
	return w.filter(slot, number, target)
}

// filter removes some of the waiters in a slot.
func (w *waitingEdges) filter(slot int32, number func(v int32) bool, id func(event.ID) bool) (edges int) {
	entry := w.queue.At(slot)
	var gone waiters
	gone.numbers = having(entry.Value.numbers, number)
	gone.ids = having(entry.Value.ids, id)
	if len(gone.numbers)+len(gone.ids) == 0 {
		return 0
	}
	left := waiters{numbers: without(entry.Value.numbers, number), ids: without(entry.Value.ids, id)}
	if len(left.numbers)+len(left.ids) == 0 {
		w.bytes -= len(entry.Key.Str)
		w.queue.Remove(entry.Key)
	} else {
		w.queue.Change(slot).Value = left
	}
	return w.forget(gone)
}

// having returns the elements of list for which is is true.
func having[T any](list []T, is func(T) bool) (some []T) {
	for _, x := range list {
		if is(x) {
			some = append(some, x)
		}
	}
	return some
}

// without returns the other elements, in a new list.
func without[T any](list []T, is func(T) bool) []T {
	return having(list, func(x T) bool { return !is(x) })
}

// WaitingState declares the waiting edges, by the id of the missing node, the oldest
// first. It leaves out the tensors of edges that no end of has arrived if there are none.
func (n *Nodes) WaitingState(s *snapshot.Schema) {
	n.kinds.state(s)
	w, q := n.waiting, n.waiting.queue
	q.Freeze(s)
	length, list := q.Walk(), q.Walk()
	count := s.Len("waiting.edges", q.Len(), math.MaxInt)
	lengths := snapshot.Column(s, "waiting.edges", func() int32 { _, e := length(); return int32(len(e.Value.numbers)) }, count)
	named := snapshot.Lists(s, "waiting.nodes", func() []int32 { _, e := list(); return e.Value.numbers },
		s.Len("waiting.nodes", w.edges-w.held, w.bound))
	held, targets := w.heldState(s, count)
	store.DeclareKeys(s, "waiting", q, func(i int, id event.ID) error {
		if _, known := n.numbers.index.number(id); known || q.Get(id) != nil {
			return snapshot.Damaged("edges wait for node %q, which is there", id)
		}
		heldHere := 0 // of the edges that id is the source of
		if i < len(held) {
			heldHere = int(held[i])
		}
		if i >= len(lengths) || lengths[i] < 0 || heldHere < 0 || int(lengths[i])+heldHere < 1 ||
			int(lengths[i]) > len(named) || heldHere > len(targets) {
			return snapshot.Damaged("other edges than wait for node %q", id)
		}
		for _, v := range named[:lengths[i]] {
			if uint(v) >= uint(n.numbers.states.Len()) || n.numbers.states.At(v).gone {
				return snapshot.Damaged("an edge of node %d waits, which is not there", v)
			}
			n.numbers.states.At(v).hasWaitingEdges = true
			w.wait(id, v)
		}
		for _, target := range targets[:heldHere] {
			w.hold(id, target)
		}
		named, targets = named[lengths[i]:], targets[heldHere:]
		return nil
	})
	s.Check(func() error {
		if len(named)+len(targets) > 0 || q.Len() != len(lengths) {
			return snapshot.Damaged("%d edges wait for no node", len(named)+len(targets))
		}
		return nil
	})
	n.expiry.state(s)
}

// heldState declares the edges that no end of had arrived when they came: how many there
// are by missing node, and the ids of their targets. When restoring, it returns both.
func (w *waitingEdges) heldState(s *snapshot.Schema, count int) (lengths []int32, targets []event.ID) {
	q := w.queue
	if !s.Has("waiting.held", w.held > 0) {
		return nil, nil
	}
	length := q.Walk()
	lengths = snapshot.Column(s, "waiting.held", func() int32 { _, e := length(); return int32(len(e.Value.ids)) }, count)
	strings, bytes := 0, 0
	for i := range int32(q.Slots()) {
		for _, id := range q.At(i).Value.ids {
			if id.Str != "" {
				strings++
				bytes += len(id.Str)
			}
		}
	}
	store.DeclareIDs(s, "targets", w.held, strings, bytes, func() func() event.ID {
		next := q.Walk()
		var list []event.ID
		return func() event.ID {
			for len(list) == 0 {
				_, e := next()
				list = e.Value.ids
			}
			id := list[0]
			list = list[1:]
			return id
		}
	}, func(i int, id event.ID) error {
		if i >= w.bound {
			return snapshot.Damaged("more than %d edges wait", w.bound)
		}
		targets = append(targets, id)
		return nil
	})
	return lengths, targets
}
