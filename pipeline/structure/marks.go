package structure

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/store"
)

// marks gives edges their kinds and weights, for a model that tells kinds apart. An edge
// itself comes, waits and leaves as in any graph; when all edges of a window are there, those
// that it named are marked, after those whose missing node has come. Methods do nothing on
// nil.
type marks struct {
	kinds  gnn.EdgeKinds
	window []event.Edge // of the current window, in canonical order
	// waiting has the edges to mark by a node that has not come, the source if neither end
	// has. There are at most bound; the oldest are dropped to make room.
	waiting *store.Queue[event.ID, []event.Edge]
	edges   int
	bound   int
}

func newMarks(kinds gnn.EdgeKinds, bound int) *marks {
	if len(kinds) == 0 {
		return nil
	}
	return &marks{kinds: kinds, waiting: store.NewQueue[event.ID, []event.Edge](), bound: bound}
}

// note notes the edge of an event to its k-th neighbour.
func (m *marks) note(node *event.Node, k int) {
	if m != nil {
		m.noteEdge(node.To(k))
	}
}

func (m *marks) noteEdge(e event.Edge) {
	if m == nil || e.Source == e.Target {
		return
	}
	if e.In {
		e.Source, e.Target, e.In = e.Target, e.Source, false
	}
	if e.Weight == 0 {
		e.Weight = 1
	}
	m.window = append(m.window, e)
}

// mark marks the edges of the window.
func (n *Nodes) mark(out *event.Outcome) {
	m := n.kinds
	if m == nil {
		return
	}
	for _, x := range n.arrivals.accepted {
		waited, _ := m.waiting.Remove(x.Node.ID)
		m.edges -= len(waited)
		for _, e := range waited {
			n.markEdge(e)
		}
	}
	for _, e := range m.window {
		if _, _, known := m.kinds.Of(e.Kind); !known {
			out.Counts.KindsUnknown++
			e.Kind = ""
		}
		n.markEdge(e)
	}
	clear(m.window)
	m.window = m.window[:0]
}

// markEdge marks an edge, or has it wait for an end. An edge of no kind that the model has
// is left unmarked: it is in the graph, and no encoder hears it.
func (n *Nodes) markEdge(e event.Edge) {
	m := n.kinds
	atSource, atTarget, known := m.kinds.Of(e.Kind)
	if !known {
		return
	}
	u, hasSource := n.index.number(e.Source)
	v, hasTarget := n.index.number(e.Target)
	switch {
	case hasSource && hasTarget:
		n.Graph.Weigh(u, v, atSource, atTarget, e.Weight)
	case hasSource:
		m.wait(e.Target, e)
	default:
		m.wait(e.Source, e)
	}
}

func (m *marks) wait(id event.ID, e event.Edge) {
	if m.waiting.Get(id) == nil {
		m.waiting.Put(id.Clone(), nil)
	}
	// Kinds are few and live with the model; ids may be parts of a window's memory.
	for _, kind := range m.kinds {
		if kind.Name == e.Kind {
			e.Kind = kind.Name
		}
	}
	e.Source, e.Target = e.Source.Clone(), e.Target.Clone()
	list := m.waiting.Edit(id)
	*list = append((*list)[:len(*list):len(*list)], e)
	for m.edges++; m.edges > m.bound; {
		_, dropped := m.waiting.RemoveOldest()
		m.edges -= len(dropped)
	}
}

// drop drops waiting edges. It takes time proportional to all of them.
func (m *marks) drop(goes func(event.Edge) bool) {
	if m == nil {
		return
	}
	for slot := m.waiting.Oldest(); slot != none; {
		entry := m.waiting.At(slot)
		next := entry.Next
		if left := without(entry.Value, goes); len(left) < len(entry.Value) {
			m.edges -= len(entry.Value) - len(left)
			if len(left) == 0 {
				m.waiting.Remove(entry.Key)
			} else {
				m.waiting.Change(slot).Value = left
			}
		}
		slot = next
	}
}

// leave drops the waiting edges of nodes that leave.
func (m *marks) leave(n *Nodes, nodes []int32) {
	if m == nil {
		return
	}
	ids := make(map[event.ID]bool, len(nodes))
	for _, v := range nodes {
		ids[n.index.ids.at(v)] = true
	}
	m.drop(func(e event.Edge) bool { return ids[e.Source] || ids[e.Target] })
}

// savedMark is an edge that waits, in a snapshot.
type savedMark struct {
	Missing, Source, Target savedID
	Kind                    string
	Weight                  float32
}

type savedID struct {
	Str string
	Num int64
}

// state declares the waiting edges, as JSON: they are few.
func (m *marks) state(s *snapshot.Schema) {
	if m == nil || !s.Has("waiting.marks", m.edges > 0) {
		return
	}
	var text []byte
	if s.Saving() {
		var list []savedMark
		for slot := m.waiting.Oldest(); slot != none; slot = m.waiting.At(slot).Next {
			entry := m.waiting.At(slot)
			for _, e := range entry.Value {
				list = append(list, savedMark{savedID(entry.Key), savedID(e.Source), savedID(e.Target), e.Kind, e.Weight})
			}
		}
		text, _ = json.Marshal(list) // strings and finite numbers
	}
	text = snapshot.Array(s, "waiting.marks", text, s.Len("waiting.marks", len(text), math.MaxInt))
	s.Check(func() error {
		var list []savedMark
		if err := json.Unmarshal(text, &list); err != nil || len(list) > m.bound {
			return snapshot.Damaged("the kinds of %d edges that wait: %v", len(list), err)
		}
		for _, e := range list {
			ids := []savedID{e.Source, e.Target}
			if _, _, known := m.kinds.Of(e.Kind); !known || !(e.Weight > 0) || !slices.Contains(ids, e.Missing) {
				return snapshot.Damaged("an edge of kind %q and weight %v waits for %q", e.Kind, e.Weight, e.Missing.Str)
			}
			m.wait(event.ID(e.Missing), event.Edge{Source: event.ID(e.Source), Target: event.ID(e.Target), Mark: event.Mark{Kind: e.Kind, Weight: e.Weight}})
		}
		return nil
	})
}
