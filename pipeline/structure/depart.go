package structure

import (
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/store"
)

// departures has nodes leave the graph, and keeps the numbers that they free.
//
// A node that leaves is removed with its edges, including waiting ones, before anything
// of its window is encoded. If it comes again it is a new arrival. Its number is reused,
// from the next window on, so that memory is bounded by the size of the graph.
//
// If its prediction is pending, it stays pending, and the number stays in use, until the
// label comes: the prediction can still be scored and learned from. If the node comes
// again before its label, the prediction expires, since there is a newer one.
//
// Invariant: every number belongs to a node of the graph or of served, or is in free.
type departures struct {
	graph     *gnn.Graph
	numbers   *numbers
	followers *followers
	pending   pending
	waiting   *waitingEdges
	kinds     *marks

	free    []int32                      // numbers without a node, a stack
	served  *store.Queue[event.ID, Left] // nodes that left while their prediction was pending
	leaving []int32                      // nodes that leave in this window
}

// Left is a node that left while its prediction was pending.
type Left struct {
	Number        int32
	Degree, Fresh int32 // see [Nodes.Surroundings]
}

// len returns how many numbers have no node in the graph.
func (d *departures) len() int { return len(d.free) + d.served.Len() }

// any reports whether nodes leave in this window.
func (d *departures) any() bool { return len(d.leaving) > 0 }

// vacancy removes and returns a free number for a new node, if there is one.
func (d *departures) vacancy() (v int32, vacant bool) {
	last := len(d.free) - 1
	if last < 0 {
		return 0, false
	}
	v, d.free = d.free[last], d.free[:last]
	d.numbers.change(v)
	return v, true
}

// depart makes the node of a departure leave. A departure by key may mean two nodes, the
// ids "7" and 7, since keys do not distinguish them; then both leave.
func (d *departures) depart(node *event.Node, out *event.Outcome) {
	left := d.leave(node.ID, out)
	if node.ByKey && node.ID.Str == "" {
		left = d.leave(event.ID{Str: node.ID.String()}, out) || left
	}
	if !left {
		out.Figures.Count(event.DeparturesUnknown, 1)
	}
}

func (d *departures) leave(id event.ID, out *event.Outcome) bool {
	v, known := d.numbers.index.number(id)
	if !known {
		return false
	}
	out.Figures.Count(event.Departures, 1)
	d.letGo(id, v)
	return true
}

// letGo makes node v, whose id this is, leave when the window's departures do.
func (d *departures) letGo(id event.ID, v int32) {
	d.numbers.leave(id, v)
	d.leaving = append(d.leaving, v)
}

// supersede expires the prediction of a node that left while it was pending, because the
// node comes again.
func (d *departures) supersede(id event.ID, out *event.Outcome) {
	if left, waits := d.served.Remove(id); waits {
		d.pending.Drop(left.Number)
		out.Figures.Count(event.PredictionsExpired, 1)
		d.vacate(left.Number)
	}
}

// expired frees number v, whose node has left and whose prediction waits no longer.
func (d *departures) expired(v int32) {
	d.served.Remove(d.numbers.id(v))
	d.vacate(v)
}

// vacate frees number v, whose node has left.
func (d *departures) vacate(v int32) {
	d.numbers.vacate(v)
	for _, f := range *d.followers {
		if f.Vacated != nil {
			f.Vacated(v)
		}
	}
	d.free = append(d.free, v)
}

// surroundings is [Nodes.Surroundings].
func (d *departures) surroundings(v int32) (degree, fresh int) {
	for _, u := range d.graph.Neighbours(v) {
		before := 0 // branch-free, since the branches would be mispredicted
		if d.numbers.order.before(u, v) {
			before = 1
		}
		degree += before
		fresh += before &^ d.numbers.context.at(u)
	}
	return degree, fresh
}

// withdraw removes the nodes that leave in this window from the graph, with their edges
// and the edges that they wait for.
func (d *departures) withdraw(out *event.Outcome) {
	waits := false
	for _, v := range d.leaving {
		waits = d.keep(v, out) || waits
	}
	for _, f := range *d.followers {
		if f.Leaving != nil {
			f.Leaving(d.leaving)
		}
	}
	out.Figures.Count(event.EdgesRemoved, d.graph.Remove(d.leaving))
	for _, f := range *d.followers {
		if f.Left != nil {
			f.Left()
		}
	}
	if waits || d.waiting.held > 0 {
		ids := make(map[event.ID]bool, len(d.leaving))
		for _, v := range d.leaving {
			ids[d.numbers.id(v)] = true
		}
		gone := func(id event.ID) bool { return ids[id] }
		out.Figures.Count(event.EdgesRemoved, d.waiting.leave(d.numbers.gone, gone))
		d.kinds.leave(gone)
	}
	for _, v := range d.leaving {
		if l := d.served.Get(d.numbers.id(v)); l == nil || l.Number != v {
			d.vacate(v)
		}
	}
	d.leaving = d.leaving[:0]
}

// keep keeps node v, which is leaving, if its prediction waits for the label. It expires if the node has
// come again. keep reports whether edges of the node may be waiting.
func (d *departures) keep(v int32, out *event.Outcome) (hasWaitingEdges bool) {
	hasWaitingEdges = d.numbers.states.At(v).hasWaitingEdges
	if !d.pending.Waits(v) {
		return hasWaitingEdges
	}
	id := d.numbers.id(v)
	if _, back := d.numbers.index.number(id); back {
		d.pending.Drop(v)
		out.Figures.Count(event.PredictionsExpired, 1)
		return hasWaitingEdges
	}
	degree, fresh := d.surroundings(v)
	d.served.Put(id, Left{Number: v, Degree: int32(degree), Fresh: int32(fresh)})
	return hasWaitingEdges
}
