package structure

import (
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
)

// links adds and removes the edges of the current window. Edges to nodes that have not arrived wait.
type links struct {
	graph     *gnn.Graph
	numbers   *numbers
	followers *followers
	waiting   *waitingEdges
	kinds     *marks
	removals  removals

	events []edgesAt // the events of only edges
	named  []int32   // numbers of the neighbours that the accepted name, none for one that has not come
	list   []int32   // the lists of near, one after the other
	near   [][]int32 // by accepted node: its neighbours, repeated ones among them; of those resolved so far
}

// edgesAt is an event of only edges, with its index in the window.
type edgesAt struct {
	event *event.Node
	at    int32
}

// begin begins a window.
func (l *links) begin() { l.events = l.events[:0] }

// clear forgets what points into the window's memory.
func (l *links) clear() {
	clear(l.events)
	l.removals.clear()
}

// connect adds and removes the edges of a window whose nodes have arrived and left: those
// that its accepted nodes name and those of its events of only edges, as if it took them one by
// one in canonical order.
//
// One by one, the list of a hub would be filtered for every edge that it loses. Instead,
// all edges that an event removes are removed first, each list being filtered once; an
// edge is then added only by events that no removal of it follows.
func (l *links) connect(accepted []Accepted, out *event.Outcome) {
	l.events = slices.DeleteFunc(l.events, func(e edgesAt) bool {
		_, known := l.numbers.index.number(e.event.ID)
		if e.event.Featureless && !known {
			out.Refuse(e.event.Origin, event.BadFeatures, "there are no features, and the node is not in the graph")
		}
		return e.event.Featureless && !known
	})
	l.removals.note(l.events)
	l.disconnect(out)
	l.lookUp(accepted)
	rest := l.events
	for i := range accepted {
		x := &accepted[i]
		for len(rest) > 0 && rest[0].at < x.at {
			l.addEdges(rest[0], out)
			rest = rest[1:]
		}
		near := l.resolve(x, out)
		l.report(x.Number, near, l.link(x.Number, near), out)
	}
	for _, e := range rest {
		l.addEdges(e, out)
	}
	l.kinds.mark()
	out.Figures.Count(event.RemovalsUnknown, l.removals.unknown())
}

// lookUp sets named, in one tight loop so that the cache misses of the look-ups overlap.
// resolve then takes the accepted nodes in their order. Edges that waited for them are marked first.
func (l *links) lookUp(accepted []Accepted) {
	l.kinds.claim(accepted)
	l.named, l.list, l.near = l.named[:0], l.list[:0], l.near[:0]
	for _, x := range accepted {
		for _, id := range x.Node.Neighbours {
			l.named = append(l.named, l.numbers.index.numberOf(id))
		}
	}
}

// resolve appends to near the neighbours of the next accepted node, and returns them: those that waited for
// it, then those that it names. Edges to nodes that have not arrived wait.
func (l *links) resolve(x *Accepted, out *event.Outcome) []int32 {
	from := len(l.list)
	waited := l.waiting.claim(x.Node.ID)
	l.list = append(l.list, waited.numbers...)
	for _, id := range waited.ids {
		l.name(x.Number, l.numbers.index.numberOf(id), id, out)
	}
	named := l.named[:len(x.Node.Neighbours)]
	l.named = l.named[len(named):]
	removes, apart := !l.removals.none(), l.kinds.apart()
	for k, id := range x.Node.Neighbours {
		if named[k] == none && k >= len(x.Sent.Neighbours) { // it leaves in this window
			continue
		}
		if removes && l.removals.follow(x.at, 0, x.Node.ID, id) {
			continue
		}
		if apart {
			e := x.Node.To(k)
			l.kinds.note(&e, x.Number, named[k], out)
		}
		l.name(x.Number, named[k], id, out)
	}
	near := l.list[from:len(l.list):len(l.list)]
	l.near = append(l.near, near)
	return near
}

// name appends to list the node with the given id and the number u, which node v names.
// If u is none, the edge waits.
func (l *links) name(v, u int32, id event.ID, out *event.Outcome) {
	switch u {
	case v:
		out.Figures.Count(event.SelfLoops, 1)
	case none:
		out.Figures.Count(event.EdgesDropped, l.waiting.wait(id, v))
		l.numbers.states.At(v).hasWaitingEdges = true
	default:
		l.list = append(l.list, u)
	}
}

// link adds edges from v to neighbours, and returns the neighbours whose edge is new.
// LinkAll takes time proportional to v's degree; Link, for each edge, to the smaller of
// the two degrees, which is faster if a hub is sent again with few edges.
func (l *links) link(v int32, neighbours []int32) (added []int32) {
	count := 0
	if l.graph.Degree(v) <= 8*len(neighbours) {
		count = l.graph.LinkAll(v, neighbours)
	} else {
		for _, u := range neighbours {
			if l.graph.Link(v, u) {
				count++
			}
		}
	}
	near := l.graph.Neighbours(v)
	return near[len(near)-count:]
}

// report counts edges between v and near, of which those to added are new, and reports
// them to the followers.
func (l *links) report(v int32, near, added []int32, out *event.Outcome) {
	out.Figures.Count(event.EdgesAdded, len(added))
	out.Figures.Count(event.DuplicateEdges, len(near)-len(added))
	for _, f := range *l.followers {
		if f.Linked != nil {
			f.Linked(v, near, added)
		}
	}
}

// disconnect removes the edges that the window removes, from the graph and from the edges
// that wait.
func (l *links) disconnect(out *event.Outcome) {
	r := &l.removals
	if r.none() {
		return
	}
	r.numbers = r.numbers[:0]
	for _, p := range r.pairs {
		u, hasA := l.numbers.index.number(p.a)
		v, hasB := l.numbers.index.number(p.b)
		if hasA && hasB {
			r.numbers = append(r.numbers, [2]int32{u, v})
		}
	}
	removed := l.graph.Unlink(r.numbers)
	for _, e := range removed {
		r.find(endsOf(l.numbers.id(e[0]), l.numbers.id(e[1])))
	}
	for _, f := range *l.followers {
		if f.Unlinked != nil {
			f.Unlinked(removed)
		}
	}
	out.Figures.Count(event.EdgesRemoved, len(removed)+l.disconnectWaiting())
}

// disconnectWaiting removes the edges that the window removes from those that wait, each
// list being filtered once. It returns how many waited.
func (l *links) disconnectWaiting() (edges int) {
	r := &l.removals
	// The nodes for which edges wait may have arrived in this window.
	var missing []event.ID // each once
	others := make(map[event.ID]map[event.ID]bool)
	note := func(id, other event.ID) {
		if l.waiting.queue.Get(id) == nil && !l.kinds.waits(id) {
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
		l.kinds.drop(id, func(e event.Edge) bool { return others[id][e.Source] || others[id][e.Target] })
		edges += l.waiting.remove(id, func(v int32) bool { return removes(l.numbers.id(v)) }, removes)
	}
	return edges
}

// addEdges adds the edges of an event that are not removed after it. An edge waits for the
// ends that have not arrived.
func (l *links) addEdges(e edgesAt, out *event.Outcome) {
	// Edges of one source that follow each other are linked together.
	from, source := len(l.list), int32(none)
	flush := func() {
		if near := l.list[from:]; len(near) > 0 {
			l.report(source, near, l.link(source, near), out)
		}
		from = len(l.list)
	}
	for i, edge := range e.event.AllEdges() {
		if edge.Remove || l.removals.follow(e.at, int32(i), edge.Source, edge.Target) {
			continue
		}
		u, v := l.numbers.index.numberOf(edge.Source), l.numbers.index.numberOf(edge.Target)
		if l.kinds.apart() {
			l.kinds.note(&edge, u, v, out)
		}
		switch {
		case edge.Source == edge.Target:
			out.Figures.Count(event.SelfLoops, 1)
		case u != none && v != none:
			if u != source {
				flush()
				source = u
			}
			l.list = append(l.list, v)
		case u != none:
			l.name(u, none, edge.Target, out)
		case v != none:
			l.name(v, none, edge.Source, out)
		default:
			out.Figures.Count(event.EdgesDropped, l.waiting.hold(edge.Source, edge.Target))
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
