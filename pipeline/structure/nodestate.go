package structure

import (
	"iter"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/store"
)

// nodeRecord is the state of a node number apart from the graph, as snapshots store it.
type nodeRecord struct {
	nodeState
	context uint8 // 1 for a node of the context, and twice the node's past
	id      event.ID
	order   int64  // 0 while order.of is nil
	kept    string // see kept
}

func (n *numbers) record(v int32) nodeRecord {
	r := nodeRecord{nodeState: *n.states.At(v), context: uint8(n.context.at(v)) | uint8(n.states.At(v).past)<<1, id: n.index.ids.at(v)}
	if n.order.of != nil {
		r.order = n.order.of[v]
	}
	r.kept = n.kept.at(v)
	return r
}

// change returns the state of node v for writing. It must be called before any part of
// v's record changes, so that an open snapshot can copy the record first.
func (n *numbers) change(v int32) *nodeState {
	if n.frozen.Wants(v) {
		n.frozen.Keep(v, []nodeRecord{n.record(v)})
	}
	return n.states.At(v)
}

// walk returns a function that returns the record of the next node at each call, as it
// is at the time of walk.
func (n *numbers) walk() func() *nodeRecord {
	room := make([]nodeRecord, 1)
	next := n.frozen.Walk(func(v int32) []nodeRecord {
		room[0] = n.record(v)
		return room
	})
	return func() *nodeRecord { return &next()[0] }
}

// State declares the nodes. The graph must have been declared before. Restoring reports
// the labels to the followers.
func (n *Nodes) State(s *snapshot.Schema) {
	ids, count := n.numbers, n.Graph.Len()
	s.Freeze(&ids.frozen, count)
	left := n.departures.state(s, count)
	label, context := ids.walk(), ids.walk()
	labels := snapshot.Column(s, "nodes.label", func() int32 { return label().label }, count)
	contexts := snapshot.Column(s, "nodes.context", func() uint8 { return context().context }, count)
	s.Check(func() error {
		for v := range int32(ids.states.Len()) {
			state, y, c := ids.states.At(v), labels[v], contexts[v]
			past := past(c >> 1)
			if y < none || int(y) >= n.classes || past > Late|Replaced|Withdrawn || (y != none || past != 0) &&
				(state.gone || (y == none) != (past&Withdrawn != 0)) {
				return snapshot.Damaged("node %d has class %d, is context %d", v, y, c)
			}
			state.label, state.past = y, past
			ids.context.set(v, c&1 == 1)
		}
		return nil
	})
	names, entered := &ids.index.ids, 0
	store.DeclareIDs(s, "nodes", count, names.texts(), names.bytes, func() func() event.ID {
		next := ids.walk()
		return func() event.ID { return next().id }
	}, func(v int, id event.ID) error {
		if entered = v + 1; entered > count {
			return snapshot.Damaged("more ids than the %d nodes", count)
		}
		return ids.enterRestored(int32(v), id)
	})
	n.inputs.keptState(s, count)
	n.keyed.declare(s, count, n.numbers.gone)
	s.Check(func() error {
		if entered < count {
			return snapshot.Damaged("%d ids of %d nodes", entered, count)
		}
		for _, v := range n.departures.free {
			if names.at(v) != (event.ID{}) {
				return snapshot.Damaged("number %d is of no node and has the id %q", v, names.at(v))
			}
		}
		for _, l := range left {
			id := names.at(l.Number)
			if _, known := ids.index.number(id); known || n.departures.served.Get(id) != nil {
				return snapshot.Damaged("node %q has left and is there, or left twice", id)
			}
			n.departures.served.Put(id.Clone(), l)
		}
		for v, y := range labels {
			if y != none {
				for _, f := range *n.followers {
					if f.Labelled != nil {
						f.Labelled(int32(v), y)
					}
				}
			}
		}
		return nil
	})
}

// enterRestored sets the id of node v, whose state has been restored.
func (n *numbers) enterRestored(v int32, id event.ID) error {
	if n.states.At(v).gone {
		n.index.ids.set(v, id.Clone())
		return nil
	}
	if _, known := n.index.number(id); known {
		return snapshot.Damaged("two nodes have the id %q", id)
	}
	n.index.enter(id, v)
	return nil
}

// state declares which of count numbers have no node in the graph, and the order
// of arrival. It leaves out tensors that would be empty. When restoring, it sets the
// nodes' field gone, and returns the nodes for d.served: their ids are restored
// later.
func (d *departures) state(s *snapshot.Schema, count int) (restored []Left) {
	if free := s.Len("departed.free", len(d.free), count); free > 0 {
		snapshot.Slice(s, "departed.free", &d.free, free)
	}
	if waits := s.Len("departed.node", d.served.Len(), count); waits > 0 {
		d.served.Freeze(s)
		number, near := d.served.Walk(), d.served.Walk()
		numbers := snapshot.Column(s, "departed.node", func() int32 { _, e := number(); return e.Value.Number }, waits)
		degrees := snapshot.Lists(s, "departed.near", func() []int32 {
			_,
				e := near()
			return []int32{e.Value.Degree, e.Value.Fresh}
		}, waits, 2)
		s.Check(func() error {
			for i, v := range numbers {
				l := Left{Number: v, Degree: degrees[2*i], Fresh: degrees[2*i+1]}
				if l.Fresh < 0 || l.Fresh > l.Degree {
					return snapshot.Damaged("node %d had %d neighbours, %d of them fresh", v, l.Degree, l.Fresh)
				}
				restored = append(restored, l)
			}
			return nil
		})
	}
	if s.Has("departed.next", d.numbers.order.of != nil) {
		snapshot.Value(s, "departed.next", &d.numbers.order.next)
		records := d.numbers.walk()
		all := snapshot.Column(s, "departed.born", func() int64 { return records().order }, count)
		s.Check(func() error {
			for v, at := range all {
				if at < 0 || at >= d.numbers.order.next {
					return snapshot.Damaged("node %d came after %d others, of %d", v, at, d.numbers.order.next)
				}
			}
			d.numbers.order.of = all
			return nil
		})
	}
	s.Check(func() error {
		for range count {
			d.numbers.states.Add(nodeState{})
		}
		gone := slices.Clone(d.free)
		for _, l := range restored {
			gone = append(gone, l.Number)
		}
		for _, v := range gone {
			if uint(v) >= uint(count) || d.numbers.states.At(v).gone || d.graph.Degree(v) > 0 {
				return snapshot.Damaged("node %d of %d has left and is there, or left twice", v, count)
			}
			d.numbers.states.At(v).gone = true
		}
		return nil
	})
	return restored
}

// CheckWaiting checks, given all restored nodes whose prediction waits for a label, that such a
// node has none and is not of the context; and that one that has left is in departures.served.
func (n *Nodes) CheckWaiting(nodes iter.Seq[int32]) error {
	left := 0 // the graph
	for v := range nodes {
		state := n.numbers.states.At(v)
		if n.numbers.context.has(v) || state.label != none || state.past != 0 {
			return snapshot.Damaged("node %d does not wait for a label", v)
		}
		if !state.gone {
			continue
		}
		left++
		if l := n.departures.served.Get(n.numbers.id(v)); l == nil || l.Number != v {
			return snapshot.Damaged("number %d waits for a label and is of no node", v)
		}
	}
	if waits := n.departures.served.Len(); left != waits {
		return snapshot.Damaged("%d nodes that left wait for their label, %d of them were served", waits, left)
	}
	return nil
}
