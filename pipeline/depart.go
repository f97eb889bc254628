package pipeline

import (
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
)

// departed is what is known of nodes that have left, and of numbers that none
// has.
//
// A node that leaves takes its edges with it, those that wait for a node among
// them. It is out of the graph before anything of its window is encoded. When it
// comes again it is a new arrival. Its number is used again by another node,
// later than in its own window, so that memory is bounded by the nodes that are
// there.
//
// What was served for it waits for its label as before, under its id, and keeps
// its number as long: it left, but what was said of it can be held against the
// truth, and learned from. When it comes again there is a newer prediction, and
// the older one is forgotten.
type departed struct {
	free    []int32 // numbers that no node has, the last one the next to be used
	waiting *queue[event.ID, left]
	leaving []int32 // in this window
	// born has, by number, how many nodes had come before; nil while no number
	// was used twice, and it is the number itself.
	born []int64
	next int64 // in born
}

// left is a node that left, and whose label is waited for.
type left struct {
	number        int32
	degree, fresh int32 // see Engine.surroundings
}

func newDeparted() departed { return departed{waiting: newQueue[event.ID, left]()} }

// len is how many numbers are of no node of the graph.
func (d *departed) len() int { return len(d.free) + d.waiting.len() }

// before tells whether node u came before node v.
func (d *departed) before(u, v int32) bool {
	if d.born == nil {
		return u < v
	}
	return d.born[u] < d.born[v]
}

// vacancy returns a number to be used again, if there is one.
func (e *Engine) vacancy() (v int32, vacant bool) {
	d := &e.gone
	last := len(d.free) - 1
	if last < 0 {
		if d.born != nil {
			d.born = append(d.born, int64(len(d.born)))
			d.bear(int32(len(d.born) - 1))
		}
		return 0, false
	}
	v = d.free[last]
	e.noteFate(v)
	if d.born == nil {
		d.born = make([]int64, e.fate.len())
		for u := range d.born {
			d.born[u] = int64(u)
		}
		d.next = int64(len(d.born))
	}
	d.free = d.free[:last]
	d.bear(v)
	return v, true
}

// bear notes that a node comes as number v.
func (d *departed) bear(v int32) {
	d.born[v] = d.next
	d.next++
}

// depart takes the event of a node that leaves.
func (e *Engine) depart(n *event.Node, out *event.Outcome) {
	left := e.leave(n.ID, out)
	if n.ByKey && n.ID.Str == "" {
		left = e.leave(event.ID{Str: n.ID.String()}, out) || left
	}
	if !left {
		out.Counts.DeparturesUnknown++
	}
}

func (e *Engine) leave(id event.ID, out *event.Outcome) bool {
	v, known := e.roster.number(id)
	if !known {
		return false
	}
	out.Counts.Departures++
	e.roster.leave(id)
	e.noteFate(v)
	e.fate.at(v).gone = true
	e.gone.leaving = append(e.gone.leaving, v)
	return true
}

// superseded forgets what was served for a node that left, for it is a new
// arrival now.
func (e *Engine) superseded(id event.ID, out *event.Outcome) {
	if left, waits := e.gone.waiting.take(id); waits {
		e.pending.take(left.number)
		out.Counts.Expired++
		e.vacate(left.number)
	}
}

// expired is told that what was served for v waits no longer.
func (e *Engine) expired(v int32) {
	if e.fate.at(v).gone {
		e.gone.waiting.take(e.roster.came.at(v))
		e.vacate(v)
	}
}

// vacate lets the number of a node that left be used again.
func (e *Engine) vacate(v int32) {
	e.noteFate(v)
	*e.fate.at(v) = fate{label: none, gone: true}
	e.context.set(v, false)
	e.roster.came.clear(v)
	if e.pooled != nil {
		e.pooled.around.Clear(v)
	}
	e.gone.free = append(e.gone.free, v)
}

// withdraw takes the window's departures out of the graph and out of what waits.
func (e *Engine) withdraw(out *event.Outcome) {
	d := &e.gone
	if len(d.leaving) == 0 {
		return
	}
	gone := func(v int32) bool { return e.fate.at(v).gone }
	e.accepted = slices.DeleteFunc(e.accepted, func(a accepted) bool { return gone(a.number) })
	waits := false
	for _, v := range d.leaving {
		waits = waits || e.fate.at(v).waits
		if e.pending.nodes.get(v) == nil {
			continue
		}
		id := e.roster.came.at(v)
		if _, back := e.roster.number(id); back {
			e.pending.take(v)
			out.Counts.Expired++
			continue
		}
		degree, fresh := e.surroundings(v)
		d.waiting.put(id, left{number: v, degree: int32(degree), fresh: int32(fresh)})
	}
	if e.pooled != nil {
		e.pooled.around.Leave(d.leaving)
	}
	var near []int32 // whose neighbourhoods change
	if e.rescoring != nil {
		for _, v := range d.leaving {
			near = append(near, e.graph.Neighbours(v)...)
		}
	}
	out.Counts.EdgesRemoved += e.graph.Remove(d.leaving)
	if e.rescoring != nil {
		e.rescoring.changed(e, near...)
	}
	if waits {
		out.Counts.EdgesRemoved += e.roster.withdraw(gone, e.taken.keepList)
	}
	for _, v := range d.leaving {
		if l := d.waiting.get(e.roster.came.at(v)); l == nil || l.number != v {
			e.vacate(v)
		}
	}
	d.leaving = d.leaving[:0]
}
