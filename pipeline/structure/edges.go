package structure

import (
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
)

// edgesAt is an event of only edges, with its index in the window.
type edgesAt struct {
	event *event.Node
	at    int32
}

// connect adds and removes the edges of a window whose nodes have arrived and left: those
// that its nodes name and those of its events of only edges, as if it took them one by one in
// canonical order.
//
// One by one, the list of a hub would be filtered for every edge that it loses. Instead,
// all edges that an event removes are removed first, each list being filtered once; an
// edge is then added only by events that no removal of it follows.
func (n *Nodes) connect(out *event.Outcome) {
	a := &n.arrivals
	a.edges = slices.DeleteFunc(a.edges, func(e edgesAt) bool {
		_, known := n.index.number(e.event.ID)
		if e.event.Featureless && !known {
			out.Refuse(e.event.Origin, event.BadFeatures, "there are no features, and the node is not in the graph")
		}
		return e.event.Featureless && !known
	})
	n.removals.note(a.edges)
	n.disconnect(out)
	n.noteWaited()
	n.lookUp()
	rest := a.edges
	for i := range a.accepted {
		for len(rest) > 0 && rest[0].at < a.accepted[i].at {
			n.addEdges(rest[0], out)
			rest = rest[1:]
		}
		n.resolve(i, out)
		n.linked(i, n.link(a.accepted[i].Number, a.near[i]), out)
	}
	for _, e := range rest {
		n.addEdges(e, out)
	}
	n.mark()
	out.Figures.Count(event.RemovalsUnknown, n.removals.unknown())
}

// disconnect removes the edges that the window removes, from the graph and from the edges
// that wait.
func (n *Nodes) disconnect(out *event.Outcome) {
	r := &n.removals
	if r.none() {
		return
	}
	r.numbers = r.numbers[:0]
	for _, p := range r.pairs {
		u, hasA := n.index.number(p.a)
		v, hasB := n.index.number(p.b)
		if hasA && hasB {
			r.numbers = append(r.numbers, [2]int32{u, v})
		}
	}
	removed := n.Graph.Unlink(r.numbers)
	for _, e := range removed {
		r.find(endsOf(n.index.ids.at(e[0]), n.index.ids.at(e[1])))
	}
	for _, unlinked := range n.followers.unlinked {
		unlinked(removed)
	}
	out.Figures.Count(event.EdgesRemoved, len(removed)+n.disconnectWaiting())
}

// disconnectWaiting removes the edges that the window removes from those that wait, each
// list being filtered once. It returns how many waited.
func (n *Nodes) disconnectWaiting() (edges int) {
	r := &n.removals
	// The nodes for which edges wait may have arrived in this window.
	var missing []event.ID // each once
	others := make(map[event.ID]map[event.ID]bool)
	note := func(id, other event.ID) {
		if n.waiting.queue.Get(id) == nil && !n.kinds.waits(id) {
			return
		}
		if others[id] == nil {
			missing, others[id] = append(missing, id), make(map[event.ID]bool)
		}
		others[id][other] = true
	}
	for _, p := range r.pairs {
		note(p.a, p.b)
		note(p.b, p.a)
	}
	for _, id := range missing {
		removes := func(other event.ID) bool {
			if others[id][other] {
				r.find(endsOf(id, other))
			}
			return others[id][other]
		}
		n.kinds.drop(id, func(e event.Edge) bool { return others[id][e.Source] || others[id][e.Target] })
		edges += n.waiting.remove(id, func(v int32) bool { return removes(n.index.ids.at(v)) }, removes)
	}
	return edges
}

// addEdges adds the edges of an event that are not removed after it. An edge waits for the
// ends that have not arrived.
func (n *Nodes) addEdges(e edgesAt, out *event.Outcome) {
	a := &n.arrivals
	// Edges of one source that follow each other are linked together.
	from, source := len(a.links), int32(none)
	flush := func() {
		if near := a.links[from:]; len(near) > 0 {
			n.report(source, near, n.link(source, near), out)
		}
		from = len(a.links)
	}
	for i, edge := range e.event.AllEdges() {
		if edge.Remove || n.removals.follow(e.at, int32(i), edge.Source, edge.Target) {
			continue
		}
		u, v := n.index.numberOf(edge.Source), n.index.numberOf(edge.Target)
		if n.tellsApart() {
			n.note(&edge, u, v, out)
		}
		switch {
		case edge.Source == edge.Target:
			out.Figures.Count(event.SelfLoops, 1)
		case u != none && v != none:
			if u != source {
				flush()
				source = u
			}
			a.links = append(a.links, v)
		case u != none:
			n.name(u, none, edge.Target, out)
		case v != none:
			n.name(v, none, edge.Source, out)
		default:
			out.Figures.Count(event.EdgesDropped, n.waiting.hold(edge.Source, edge.Target))
		}
	}
	flush()
}

// removals are the edges that the events of a window remove.
type removals struct {
	pairs   []ends // each once, in the order of their first removal
	last    map[ends]removal
	numbers [][2]int32 // scratch: those between nodes of the graph
}

// ends is an edge by its ends, of which a is the lower.
type ends struct{ a, b event.ID }

func endsOf(a, b event.ID) ends {
	if b.Compare(a) < 0 {
		a, b = b, a
	}
	return ends{a, b}
}

// removal is the last removal of an edge in a window.
type removal struct {
	event, edge int32 // index of the event in the window, and of the edge in the event
	found       bool  // there was such an edge
}

func (r *removals) none() bool { return len(r.pairs) == 0 }

// note notes the removals among the events.
func (r *removals) note(events []edgesAt) {
	for _, e := range events {
		for i, edge := range e.event.AllEdges() {
			if !edge.Remove {
				continue
			}
			p := endsOf(edge.Source, edge.Target)
			if _, again := r.last[p]; !again {
				r.pairs = append(r.pairs, p)
			}
			r.last[p] = removal{event: e.at, edge: int32(i)}
		}
	}
}

// follow reports whether the edge between two nodes, which the event at the given index
// adds as its i-th, is removed later in the window.
func (r *removals) follow(at, i int32, a, b event.ID) bool {
	if r.none() {
		return false
	}
	p := endsOf(a, b)
	last, removed := r.last[p]
	if !removed || last.event < at || last.event == at && last.edge < i {
		return false
	}
	r.find(p)
	return true
}

// find notes that there was an edge to remove.
func (r *removals) find(p ends) {
	last := r.last[p]
	last.found = true
	r.last[p] = last
}

// unknown returns the number of edges that were not there to be removed.
func (r *removals) unknown() (edges int) {
	for _, p := range r.pairs {
		if !r.last[p].found {
			edges++
		}
	}
	return edges
}

func (r *removals) clear() {
	clear(r.pairs)
	clear(r.last)
	r.pairs = r.pairs[:0]
}
