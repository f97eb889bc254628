package structure

import (
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/store"
)

// departed keeps nodes that have left, and the numbers that they free.
//
// A node that leaves is removed with its edges, including waiting ones, before anything
// of its window is encoded. If it comes again it is a new arrival. Its number is reused,
// from the next window on, so that memory is bounded by the size of the graph.
//
// If its prediction is pending, it stays pending, and the number stays in use, until the
// label comes: the prediction can still be scored and learned from. If the node comes
// again before its label, the prediction expires, since there is a newer one.
//
// Invariant: every number belongs to a node of the graph or of waiting, or is in free.
type departed struct {
	free    []int32                      // numbers without a node, a stack
	waiting *store.Queue[event.ID, Left] // nodes that left while their prediction was pending
	leaving []int32                      // nodes that leave in this window
	// order has, by number, how many nodes arrived before this one. It is nil until a
	// number is used twice: up to then it is the number itself.
	order []int64
	next  int64 // the next value in order
}

// Left is a node that left while its prediction was pending.
type Left struct {
	Number        int32
	Degree, Fresh int32 // see [Nodes.Surroundings]
}

func newDeparted() departed { return departed{waiting: store.NewQueue[event.ID, Left]()} }

// len returns how many numbers have no node in the graph.
func (d *departed) len() int { return len(d.free) + d.waiting.Len() }

// before reports whether node u arrived before node v.
func (d *departed) before(u, v int32) bool {
	if d.order == nil {
		return u < v
	}
	return d.order[u] < d.order[v]
}

// number records that a node arrives as number v.
func (d *departed) number(v int32) {
	d.order[v] = d.next
	d.next++
}

// vacancy removes and returns a free number for a new node, if there is one.
func (n *Nodes) vacancy() (v int32, vacant bool) {
	d := &n.departed
	last := len(d.free) - 1
	if last < 0 {
		if d.order != nil {
			d.order = append(d.order, int64(len(d.order)))
			d.number(int32(len(d.order) - 1))
		}
		return 0, false
	}
	v = d.free[last]
	n.change(v)
	if d.order == nil {
		d.order = make([]int64, n.states.Len())
		for u := range d.order {
			d.order[u] = int64(u)
		}
		d.next = int64(len(d.order))
	}
	d.free = d.free[:last]
	d.number(v)
	return v, true
}

// Before reports whether node u arrived before node v.
func (n *Nodes) Before(u, v int32) bool { return n.departed.before(u, v) }

// TakeLeft returns the node that left under an id while its prediction waited, and forgets it:
// the caller joins its label, and then vacates its number.
func (n *Nodes) TakeLeft(id event.ID) (Left, bool) { return n.departed.waiting.Remove(id) }

// depart makes the node of a departure leave. A departure by key may mean two nodes, the
// ids "7" and 7, since keys do not distinguish them; then both leave.
func (n *Nodes) depart(node *event.Node, out *event.Outcome) {
	left := n.leave(node.ID, out)
	if node.ByKey && node.ID.Str == "" {
		left = n.leave(event.ID{Str: node.ID.String()}, out) || left
	}
	if !left {
		out.Figures.Count(event.DeparturesUnknown, 1)
	}
}

func (n *Nodes) leave(id event.ID, out *event.Outcome) bool {
	v, known := n.index.number(id)
	if !known {
		return false
	}
	out.Figures.Count(event.Departures, 1)
	n.letGo(id, v)
	return true
}

// letGo makes node v, whose id this is, leave when the window's departures do.
func (n *Nodes) letGo(id event.ID, v int32) {
	n.index.leave(id)
	n.change(v).gone = true
	n.kept.set(v, "")
	n.departed.leaving = append(n.departed.leaving, v)
}

// supersede expires the prediction of a node that left while it was pending, because the
// node comes again.
func (n *Nodes) supersede(id event.ID, out *event.Outcome) {
	if left, waits := n.departed.waiting.Remove(id); waits {
		n.pending.Drop(left.Number)
		out.Figures.Count(event.PredictionsExpired, 1)
		n.Vacate(left.Number)
	}
}

// Expired is called when the prediction of v waits no longer, without [Nodes.SetLabel]. If v has
// left, its number becomes free.
func (n *Nodes) Expired(v int32) {
	if n.states.At(v).gone {
		n.departed.waiting.Remove(n.index.ids.at(v))
		n.Vacate(v)
		return
	}
	n.expiry.answered(v)
}

// Vacate frees number v, whose node has left.
func (n *Nodes) Vacate(v int32) {
	*n.change(v) = nodeState{label: none, gone: true}
	n.context.set(v, false)
	n.index.ids.clear(v)
	for _, vacated := range n.followers.vacated {
		vacated(v)
	}
	n.departed.free = append(n.departed.free, v)
}

// withdraw removes the nodes that leave in this window from the graph, with their edges
// and the edges that they wait for.
func (n *Nodes) withdraw(out *event.Outcome) {
	d := &n.departed
	if len(d.leaving) == 0 {
		return
	}
	gone := func(v int32) bool { return n.states.At(v).gone }
	n.arrivals.accepted = slices.DeleteFunc(n.arrivals.accepted, func(a Accepted) bool { return gone(a.Number) })
	waits := false
	for _, v := range d.leaving {
		waits = waits || n.states.At(v).hasWaitingEdges
		if !n.pending.Waits(v) {
			continue
		}
		id := n.index.ids.at(v)
		if _, back := n.index.number(id); back {
			n.pending.Drop(v)
			out.Figures.Count(event.PredictionsExpired, 1)
			continue
		}
		degree, fresh := n.Surroundings(v)
		d.waiting.Put(id, Left{Number: v, Degree: int32(degree), Fresh: int32(fresh)})
	}
	for _, leaving := range n.followers.leaving {
		leaving(d.leaving)
	}
	out.Figures.Count(event.EdgesRemoved, n.Graph.Remove(d.leaving))
	for _, left := range n.followers.left {
		left()
	}
	if waits || n.waiting.held > 0 {
		ids := make(map[event.ID]bool, len(d.leaving))
		for _, v := range d.leaving {
			ids[n.index.ids.at(v)] = true
		}
		out.Figures.Count(event.EdgesRemoved, n.waiting.leave(gone, func(id event.ID) bool { return ids[id] }))
		n.kinds.leave(func(id event.ID) bool { return ids[id] })
	}
	for _, v := range d.leaving {
		if l := d.waiting.Get(n.index.ids.at(v)); l == nil || l.Number != v {
			n.Vacate(v)
		}
	}
	d.leaving = d.leaving[:0]
}
