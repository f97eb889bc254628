package structure

import (
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline/event"
)

// arrivals are the node events of the current window that the model accepts, and the
// embeddings of the nodes to predict. The next window reuses the memory.
type arrivals struct {
	graph      *gnn.Graph
	numbers    *numbers
	inputs     *inputs
	departures *departures
	links      *links
	keyed      *Keyed

	accepted []Accepted
	features []gnn.Vector          // of the nodes with numbers past the graph's, normalised
	replaced map[int32]*event.Node // by number that has a row: the event with its new features
	scratch  gnn.Vector            // normalised features of one of replaced
	asked    []Asked               // those of the events that ask for a prediction of a node of the graph

	toPredict []int32   // numbers of the nodes to be predicted, in canonical order
	z         []float32 // their embeddings
}

// Asked is an event that asks for a prediction of a node of the graph.
type Asked struct {
	Node   *event.Node
	Number int32
}

// Accepted is a node event that fits the model, with the node's number.
type Accepted struct {
	Node      *event.Node
	Number    int32
	at        int32       // index of the event in the window
	Sent      *event.Node // the event as it was sent: attributes and neighbours that Node has beside come from keys
	ToPredict bool        // first arrival, to be predicted
}

// features returns the features of an event as they came.
func features(n *event.Node) gnn.Vector {
	return gnn.Vector{Dense: n.Dense, Index: n.Index, Value: n.Value}
}

// accept assigns a node number to every event that fits the model, and lists the nodes
// that leave. Other events are refused.
func (a *arrivals) accept(events []event.Node, out *event.Outcome) {
	a.accepted, a.features, a.asked = a.accepted[:0], a.features[:0], a.asked[:0]
	a.links.begin()
	a.inputs.begin()
	if p := a.inputs.passing; p != nil {
		p.leave(a.numbers, a.departures)
	}
	for i := range events {
		node := &events[i]
		if node.Predict && (node.OnlyAsks() || node.OnlyEdges()) {
			a.asked = append(a.asked, Asked{Node: node})
		}
		switch {
		case node.Departed:
			a.departures.depart(node, out)
		case node.OnlyAsks():
		case node.OnlyEdges() && a.inputs.passing != nil:
			out.Refuse(node.Origin, event.BadFeatures, "an edge between nodes, and the model classifies graphs")
		case node.OnlyEdges():
			a.links.events = append(a.links.events, edgesAt{node, int32(i)})
		case a.acceptNode(node, i, out):
			if node.Dropped != nil {
				a.links.events = append(a.links.events, edgesAt{dropped(node), int32(i)})
			}
			a.acceptImplicit(node, i, out)
		}
	}
}

// dropped returns the event of only edges that removes those that a node event drops.
func dropped(node *event.Node) *event.Node {
	e := &event.Node{Origin: node.Origin, ID: node.ID}
	for _, id := range node.Dropped {
		e.Edges = append(e.Edges, event.Edge{Source: node.ID, Target: id, Remove: true})
	}
	return e
}

// acceptNode assigns a number to the node of the i-th event, or refuses it.
func (a *arrivals) acceptNode(node *event.Node, i int, out *event.Outcome) (accepted bool) {
	v, known := a.numbers.index.number(node.ID)
	sent := node
	node, enters := a.keyed.Derive(node, v, known)
	x, reason, detail := a.inputs.encode(node)
	if reason != "" {
		if known && x.Dense != nil && len(x.Dense) < a.inputs.width {
			reason, detail = event.PartialFeatures, detail+": an update replaces all features"
		}
		out.Refuse(node.Origin, reason, detail)
		return false
	}
	if known {
		a.update(v, node, x, out)
	} else {
		v = a.arrive(node, x, out)
	}
	a.keyed.Enter(v, enters)
	a.inputs.keep(v, node)
	a.accepted = append(a.accepted, Accepted{Node: node, Number: v, at: int32(i), Sent: sent, ToPredict: !known && !node.Context})
	return true
}

// acceptImplicit has the nodes arrive that the i-th event implies, as context without features.
func (a *arrivals) acceptImplicit(node *event.Node, i int, out *event.Outcome) {
	for _, id := range node.Implicit {
		if _, known := a.numbers.index.number(id); !known {
			a.acceptNode(&event.Node{Origin: node.Origin, ID: id, Index: []uint32{}, Context: true}, i, out)
		}
	}
}

// update has an event replace the features of node v, which is in the graph or arrived in this window.
func (a *arrivals) update(v int32, node *event.Node, x gnn.Vector, out *event.Outcome) {
	out.Figures.Count(event.Updates, 1)
	if a.numbers.states.At(v).label != none {
		a.numbers.change(v).past |= Replaced
	}
	if node.Predict {
		a.asked = append(a.asked, Asked{Node: node})
	}
	if x.Dense == nil && len(x.Index) == 0 {
		out.Figures.Count(event.Cleared, 1)
	}
	if i := int(v) - a.graph.Len(); i >= 0 {
		a.features[i] = a.inputs.normalised(a.features[i], x)
	} else {
		a.replaced[v] = node
	}
}

// arrive has a new node arrive, and returns its number.
func (a *arrivals) arrive(node *event.Node, x gnn.Vector, out *event.Outcome) int32 {
	a.departures.supersede(node.ID, out)
	v, vacant := a.departures.vacancy()
	if vacant {
		a.replaced[v] = node
	} else {
		v = int32(a.numbers.len())
		a.features = extend(a.features)
		last := &a.features[len(a.features)-1]
		*last = a.inputs.normalised(*last, x)
	}
	a.numbers.order.arrive(v, a.numbers.len())
	a.numbers.enter(v, node)
	if node.Context {
		out.Figures.Count(event.ContextNodes, 1)
	} else {
		out.Figures.Count(event.Arrivals, 1)
	}
	return v
}

// only reports whether all events of the window are new nodes to predict, as in
// most windows: the graph can then add and encode them in one pass.
func (a *arrivals) only() bool {
	for _, x := range a.accepted {
		if !x.ToPredict {
			return false
		}
	}
	return len(a.features) == len(a.accepted) && len(a.replaced) == 0 && !a.departures.any() && len(a.links.events) == 0
}

// withdraw forgets the nodes that leave in this window.
func (a *arrivals) withdraw() {
	a.accepted = slices.DeleteFunc(a.accepted, func(x Accepted) bool { return a.numbers.gone(x.Number) })
}

// replace replaces features in the graph. It takes time proportional to the node's degree. A node that is
// sent many times in a window is replaced once, by its last event.
func (a *arrivals) replace() {
	for _, x := range a.accepted {
		if a.replaced[x.Number] == x.Node {
			a.scratch = a.inputs.normalised(a.scratch, features(x.Node))
			a.graph.Replace(x.Number, a.scratch)
		}
	}
}

// listToPredict sets toPredict to the nodes that are to be predicted, and makes room for embeddings of dim
// numbers. It is called after those that left in the window were withdrawn.
func (a *arrivals) listToPredict(dim int) {
	a.toPredict = a.toPredict[:0]
	for _, x := range a.accepted {
		if x.ToPredict {
			a.toPredict = append(a.toPredict, x.Number)
		}
	}
	if p := a.inputs.passing; p != nil {
		p.present = append(p.present, a.toPredict...)
	}
	a.z = kernel.Room(a.z, len(a.toPredict)*dim)
}

// ask finds the nodes of which a prediction is asked for, in the graph as the window leaves it. Others
// are refused, unless their event is already.
func (a *arrivals) ask(out *event.Outcome) {
	found := a.asked[:0]
	for _, x := range a.asked {
		var known bool
		if x.Number, known = a.numbers.index.number(x.Node.ID); known {
			found = append(found, x)
		} else if x.Node.OnlyAsks() {
			out.Refuse(x.Node.Origin, event.UnknownNode, "a prediction is asked for, and the node is not in the graph")
		}
	}
	a.asked = found
}

// clear forgets what points into the window's memory.
func (a *arrivals) clear() {
	clear(a.accepted)
	clear(a.asked)
	clear(a.replaced)
	if a.inputs.unnormalised() {
		clear(a.features)
		a.scratch = gnn.Vector{}
	}
}

// extend returns s with one more element. Within the capacity, that element keeps its
// former value, so that the memory it refers to can be reused.
func extend[T any](s []T) []T {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	var zero T
	return append(s, zero)
}
