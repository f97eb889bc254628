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
	order   int64  // 0 while departed.order is nil
	kept    string // see kept
}

func (n *Nodes) record(v int32) nodeRecord {
	r := nodeRecord{nodeState: *n.states.At(v), context: uint8(n.context.at(v)) | uint8(n.states.At(v).past)<<1, id: n.index.ids.at(v)}
	if n.departed.order != nil {
		r.order = n.departed.order[v]
	}
	r.kept = n.kept.at(v)
	return r
}

// change returns the state of node v for writing. It must be called before any part of
// v's record changes, so that an open snapshot can copy the record first.
func (n *Nodes) change(v int32) *nodeState {
	if n.frozen.Wants(v) {
		n.frozen.Keep(v, []nodeRecord{n.record(v)})
	}
	return n.states.At(v)
}

// walk returns a function that returns the record of the next node at each call, as it
// is at the time of walk.
func (n *Nodes) walk() func() *nodeRecord {
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
	count := n.Graph.Len()
	s.Freeze(&n.frozen, count)
	left := n.departedState(s, count)
	label, context := n.walk(), n.walk()
	labels := snapshot.Column(s, "nodes.label", func() int32 { return label().label }, count)
	contexts := snapshot.Column(s, "nodes.context", func() uint8 { return context().context }, count)
	s.Check(func() error {
		for v := range int32(n.states.Len()) {
			state, y, c := n.states.At(v), labels[v], contexts[v]
			past := Past(c >> 1)
			if y < none || int(y) >= n.classes || past > Late|Replaced|Withdrawn || (y != none || past != 0) && (state.gone || (y == none) != (past&Withdrawn != 0)) {
				return snapshot.Damaged("node %d has class %d, is context %d", v, y, c)
			}
			state.label, state.past = y, past
			n.context.set(v, c&1 == 1)
		}
		return nil
	})
	names, entered := &n.index.ids, 0
	store.DeclareIDs(s, "nodes", count, names.texts(), names.bytes, func() func() event.ID {
		next := n.walk()
		return func() event.ID { return next().id }
	}, func(v int, id event.ID) error {
		if entered = v + 1; entered > count {
			return snapshot.Damaged("more ids than the %d nodes", count)
		}
		return n.enterRestored(int32(v), id)
	})
	n.keptState(s, count)
	s.Check(func() error {
		if entered < count {
			return snapshot.Damaged("%d ids of %d nodes", entered, count)
		}
		for _, v := range n.departed.free {
			if names.at(v) != (event.ID{}) {
				return snapshot.Damaged("number %d is of no node and has the id %q", v, names.at(v))
			}
		}
		for _, l := range left {
			id := names.at(l.Number)
			if _, known := n.index.number(id); known || n.departed.waiting.Get(id) != nil {
				return snapshot.Damaged("node %q has left and is there, or left twice", id)
			}
			n.departed.waiting.Put(id.Clone(), l)
		}
		for v, y := range labels {
			if y != none {
				for _, labelled := range n.followers.labelled {
					labelled(int32(v), y)
				}
			}
		}
		return nil
	})
}

// enterRestored sets the id of node v, whose state has been restored.
func (n *Nodes) enterRestored(v int32, id event.ID) error {
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

// departedState declares which of count numbers have no node in the graph, and the order
// of arrival. It leaves out tensors that would be empty. When restoring, it sets the
// nodes' field gone, and returns the nodes for departed.waiting: their ids are restored
// later.
func (n *Nodes) departedState(s *snapshot.Schema, count int) (restored []Left) {
	d := &n.departed
	if free := s.Len("departed.free", len(d.free), count); free > 0 {
		snapshot.Slice(s, "departed.free", &d.free, free)
	}
	if waits := s.Len("departed.node", d.waiting.Len(), count); waits > 0 {
		d.waiting.Freeze(s)
		number, near := d.waiting.Walk(), d.waiting.Walk()
		numbers := snapshot.Column(s, "departed.node", func() int32 { _, e := number(); return e.Value.Number }, waits)
		degrees := snapshot.Lists(s, "departed.near", func() []int32 { _, e := near(); return []int32{e.Value.Degree, e.Value.Fresh} }, waits, 2)
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
	if s.Has("departed.next", d.order != nil) {
		snapshot.Value(s, "departed.next", &d.next)
		records := n.walk()
		all := snapshot.Column(s, "departed.born", func() int64 { return records().order }, count)
		s.Check(func() error {
			for v, at := range all {
				if at < 0 || at >= d.next {
					return snapshot.Damaged("node %d came after %d others, of %d", v, at, d.next)
				}
			}
			d.order = all
			return nil
		})
	}
	s.Check(func() error {
		for range count {
			n.states.Add(nodeState{})
		}
		gone := slices.Clone(d.free)
		for _, l := range restored {
			gone = append(gone, l.Number)
		}
		for _, v := range gone {
			if uint(v) >= uint(count) || n.states.At(v).gone || n.Graph.Degree(v) > 0 {
				return snapshot.Damaged("node %d of %d has left and is there, or left twice", v, count)
			}
			n.states.At(v).gone = true
		}
		return nil
	})
	return restored
}

// CheckWaiting checks, given all restored nodes whose prediction waits for a label, that such a
// node has none and is not of the context; and that one that has left is in departed.waiting.
func (n *Nodes) CheckWaiting(nodes iter.Seq[int32]) error {
	left := 0 // the graph
	for v := range nodes {
		state := n.states.At(v)
		if n.context.has(v) || state.label != none || state.past != 0 {
			return snapshot.Damaged("node %d does not wait for a label", v)
		}
		if !state.gone {
			continue
		}
		left++
		if l := n.departed.waiting.Get(n.index.ids.at(v)); l == nil || l.Number != v {
			return snapshot.Damaged("number %d waits for a label and is of no node", v)
		}
	}
	if waits := n.departed.waiting.Len(); left != waits {
		return snapshot.Damaged("%d nodes that left wait for their label, %d of them were served", waits, left)
	}
	return nil
}
