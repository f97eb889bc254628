package structure

import (
	"cmp"
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
	graph   *gnn.Graph
	numbers *numbers
	kinds   gnn.EdgeKinds
	known   []gnn.WeighedEdge // to mark in the current window: those whose ends have come, in canonical order
	// waiting has the edges to mark by a node that has not come, the lower one if neither end
	// has: so those of one pair of nodes stay in order. There are at most bound, with ids of
	// waitingEdgeBytes on average; the oldest are dropped to make room.
	waiting *store.Queue[event.ID, []event.Edge]
	edges   int
	bytes   int
	bound   int
}

func newMarks(kinds gnn.EdgeKinds, bound int, graph *gnn.Graph, ids *numbers) *marks {
	if len(kinds) == 0 {
		return nil
	}
	return &marks{graph: graph, numbers: ids, kinds: kinds, waiting: store.NewQueue[event.ID, []event.Edge](), bound: bound}
}

// alike reports whether the edges of an event are of the model's kinds and have no weights.
func (m *marks) alike(node *event.Node) bool {
	is := func(e event.Mark) bool {
		_, _, known := m.kinds.Of(e.Kind)
		return known && (e.Weight == 0 || e.Weight == 1)
	}
	for _, e := range node.Edges {
		if !is(e.Mark) {
			return false
		}
	}
	if node.Marks == nil {
		return len(node.Neighbours) == 0 || is(event.Mark{})
	}
	return !slices.ContainsFunc(node.Marks, func(e event.Mark) bool { return !is(e) })
}

// tellApart has the graph tell edges apart if one of the events needs it. Edges that wait are
// marked as what they were taken for until now.
func (m *marks) tellApart(events []event.Node, edges *waitingEdges) {
	if m == nil || m.graph.TellsApart() || !slices.ContainsFunc(events, func(e event.Node) bool { return !m.alike(&e) }) {
		return
	}
	m.graph.TellApart()
	mark := event.Mark{Kind: m.kinds[0].Name, Weight: 1}
	for slot := edges.queue.Oldest(); slot != none; slot = edges.queue.At(slot).Next {
		entry := edges.queue.At(slot)
		for _, v := range entry.Value.numbers {
			m.markEdge(event.Edge{Source: m.numbers.id(v), Target: entry.Key, Mark: mark})
		}
		for _, id := range entry.Value.ids {
			m.markEdge(event.Edge{Source: entry.Key, Target: id, Mark: mark})
		}
	}
}

// note has the edge of an event marked, from node u to v, of which none is one that has not come.
func (m *marks) note(e *event.Edge, u, v int32, out *event.Outcome) {
	if e.Source == e.Target {
		return
	}
	edge, heard, known := m.heard(e.Mark)
	if !known {
		out.Figures.Count(event.KindsUnknown, 1)
	}
	if e.In {
		u, v = v, u
	}
	if heard {
		m.markBetween(edge, e, u, v)
	}
}

// apart reports whether the graph tells edges apart.
func (m *marks) apart() bool { return m != nil && m.graph.TellsApart() }

// written returns an edge with all that may be left out, from its source to its target.
func written(e event.Edge) event.Edge {
	if e.In {
		e.Source, e.Target, e.In = e.Target, e.Source, false
	}
	e.Weight = cmp.Or(e.Weight, 1)
	return e
}

// claim has the edges marked that waited for an accepted node.
func (m *marks) claim(accepted []Accepted) {
	if !m.apart() {
		return
	}
	for _, x := range accepted {
		waited, _ := m.waiting.Remove(x.Node.ID)
		m.count(waited, -1)
		for _, e := range waited {
			m.markEdge(e)
		}
	}
}

// mark marks the edges of the window.
func (m *marks) mark() {
	if m.apart() {
		m.graph.Weigh(m.known...)
		m.known = m.known[:0]
	}
}

// markEdge has an edge marked, or wait for an end.
func (m *marks) markEdge(e event.Edge) {
	if edge, heard, _ := m.heard(e.Mark); heard {
		m.markBetween(edge, &e, m.numbers.index.numberOf(e.Source), m.numbers.index.numberOf(e.Target))
	}
}

// markBetween has an edge marked from node u to v, or wait for one that is none.
func (m *marks) markBetween(edge gnn.WeighedEdge, e *event.Edge, u, v int32) {
	if u != none && v != none {
		edge.Source, edge.Target = u, v
		m.known = append(m.known, edge)
		return
	}
	switch e := written(*e); {
	case u != none:
		m.wait(e.Target, e)
	case v != none:
		m.wait(e.Source, e)
	default:
		m.wait(endsOf(e.Source, e.Target).a, e)
	}
}

// heard returns in which means an edge counts, and its weight, and whether its kind is known. One of
// a kind that the model does not have counts as one without a kind; if it has none of these
// either, the edge is in the graph, and no encoder hears it.
func (m *marks) heard(e event.Mark) (edge gnn.WeighedEdge, heard, known bool) {
	atSource, atTarget, known := m.kinds.Of(e.Kind)
	if heard = known; !known {
		atSource, atTarget, heard = m.kinds.Of("")
	}
	edge = gnn.WeighedEdge{AtSource: uint8(atSource), AtTarget: uint8(atTarget), Weight: e.Weight}
	if e.Weight == 0 {
		edge.Weight = 1
	}
	return edge, heard, known
}

func (m *marks) wait(id event.ID, e event.Edge) {
	if m.waiting.Get(id) == nil {
		m.waiting.Put(id.Clone(), nil)
	}
	// Kinds are few and live with the model; ids may be parts of a window's memory.
	name := ""
	for _, kind := range m.kinds {
		if kind.Name == e.Kind {
			name = kind.Name
		}
	}
	e.Kind = name
	e.Source, e.Target = e.Source.Clone(), e.Target.Clone()
	list := m.waiting.Edit(id)
	*list = append(*list, e)
	m.count((*list)[len(*list)-1:], 1)
	for m.edges > m.bound || m.bytes > waitingEdgeBytes*m.bound {
		_, dropped := m.waiting.RemoveOldest()
		m.count(dropped, -1)
	}
}

// count counts edges as waiting, or with sign -1 as gone.
func (m *marks) count(edges []event.Edge, sign int) {
	m.edges += sign * len(edges)
	for _, e := range edges {
		m.bytes += sign * (len(e.Source.Str) + len(e.Target.Str))
	}
}

// waits reports whether edges wait for a node.
func (m *marks) waits(id event.ID) bool { return m != nil && m.waiting.Get(id) != nil }

// drop drops edges that wait for a node.
func (m *marks) drop(id event.ID, goes func(event.Edge) bool) {
	if !m.waits(id) {
		return
	}
	list := *m.waiting.Edit(id)
	m.count(list, -1)
	if left := without(list, goes); len(left) > 0 {
		*m.waiting.Edit(id) = left
		m.count(left, 1)
	} else {
		m.waiting.Remove(id)
	}
}

// leave drops the waiting edges of nodes that leave. It takes time proportional to all waiting edges.
func (m *marks) leave(gone func(event.ID) bool) {
	if m == nil {
		return
	}
	for slot := m.waiting.Oldest(); slot != none; {
		entry := m.waiting.At(slot)
		slot = entry.Next
		m.drop(entry.Key, func(e event.Edge) bool { return gone(e.Source) || gone(e.Target) })
	}
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
			m.wait(event.ID(e.Missing), event.Edge{
				Source: event.ID(e.Source), Target: event.ID(e.Target),
				Mark: event.Mark{Kind: e.Kind, Weight: e.Weight},
			})
		}
		return nil
	})
}
