package structure

import (
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline/event"
)

// arrivals are the node events of the current window that the model accepts, and the
// embeddings of the nodes to predict. The next window reuses the memory.
type arrivals struct {
	accepted []Accepted
	edges    []edgesAt             // the events of only edges
	features []gnn.Vector          // of the nodes with numbers past the graph's, normalised
	replaced map[int32]*event.Node // by number that has a row: the event with its new features
	scratch  gnn.Vector            // normalised features of one of replaced

	named []int32   // numbers of the neighbours that the accepted name, none for one that has not come
	links []int32   // the lists of near, one after the other
	near  [][]int32 // by accepted node: its neighbours, repeated ones among them; of those resolved so far

	asked     []Asked   // those of the events that ask for a prediction of a node of the graph
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
	at        int32 // index of the event in the window
	ToPredict bool  // first arrival, to be predicted
}

// Features returns the features of an event as they came.
func Features(n *event.Node) gnn.Vector {
	return gnn.Vector{Dense: n.Dense, Index: n.Index, Value: n.Value}
}

// Enter applies all node events of a window to the graph, and then encodes the
// arrivals to z. Nodes are added before edges, so that nodes of one window may name each
// other in any order.
func (n *Nodes) Enter(events []event.Node, out *event.Outcome) {
	a := &n.arrivals
	n.accept(n.expiry.enter(events, out), out)
	n.countAttributes(out)
	n.tellApart(events)
	for _, x := range a.accepted {
		for _, entered := range n.followers.entered {
			entered(x.Number, Features(x.Node))
		}
	}
	d := n.encoder.Out()
	if n.onlyArrivals() {
		n.noteWaited()
		n.lookUp()
		for i := range a.accepted {
			n.resolve(i, out)
		}
		n.listToPredict()
		a.z = kernel.Room(a.z, len(a.toPredict)*d)
		n.Graph.Arrive(a.features, a.near, func(i int, added []int32) {
			n.linked(i, added, out)
			if i == len(a.near)-1 {
				n.mark()
			}
		}, a.z)
	} else {
		n.rebuild(out)
		n.listToPredict()
		a.z = kernel.Room(a.z, len(a.toPredict)*d)
		n.Graph.Embed(a.toPredict, a.z)
	}
	n.ask(out)
}

// ask finds the nodes of which a prediction is asked for, in the graph as the window leaves it. Others
// are refused, unless their event is already.
func (n *Nodes) ask(out *event.Outcome) {
	a := &n.arrivals
	found := a.asked[:0]
	for _, x := range a.asked {
		var known bool
		if x.Number, known = n.index.number(x.Node.ID); known {
			found = append(found, x)
		} else if x.Node.OnlyAsks() {
			out.Refuse(x.Node.Origin, event.UnknownNode, "a prediction is asked for, and the node is not in the graph")
		}
	}
	a.asked = found
}

// Asked returns the events of the window that ask for a prediction of a node of the graph, in canonical
// order. That of an arrival asks for nothing: it is predicted.
func (n *Nodes) Asked() []Asked { return n.arrivals.asked }

// accept assigns a node number to every event that fits the model, and lists the nodes
// that leave. Other events are refused.
func (n *Nodes) accept(events []event.Node, out *event.Outcome) {
	a := &n.arrivals
	a.accepted, a.edges, a.features, a.asked = a.accepted[:0], a.edges[:0], a.features[:0], a.asked[:0]
	first := int32(n.Graph.Len())
	if n.passing != nil {
		n.pass()
	}
	if n.named != nil {
		n.named.Reset()
	}
	for i := range events {
		node := &events[i]
		if node.Predict && (node.OnlyAsks() || node.OnlyEdges()) {
			a.asked = append(a.asked, Asked{Node: node})
		}
		switch {
		case node.Departed:
			n.depart(node, out)
		case node.OnlyAsks():
		case node.OnlyEdges() && n.passing != nil:
			out.Refuse(node.Origin, event.BadFeatures, "an edge between nodes, and the model classifies graphs")
		case node.OnlyEdges():
			a.edges = append(a.edges, edgesAt{node, int32(i)})
		default:
			if !n.acceptNode(node, i, first, out) {
				continue
			}
			if node.Dropped != nil {
				a.edges = append(a.edges, edgesAt{dropped(node), int32(i)})
			}
			for _, id := range node.Implicit {
				if _, known := n.index.number(id); !known {
					n.acceptNode(&event.Node{Origin: node.Origin, ID: id, Index: []uint32{}, Context: true}, i, first, out)
				}
			}
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

// acceptNode assigns a number to the node of the i-th event, or refuses it. Numbers from first
// on are new in this window.
func (n *Nodes) acceptNode(node *event.Node, i int, first int32, out *event.Outcome) (accepted bool) {
	a := &n.arrivals
	v, known := n.index.number(node.ID)
	x, reason, detail := n.Encode(node)
	if reason != "" {
		if known && x.Dense != nil && len(x.Dense) < n.encoder.In() {
			reason, detail = event.PartialFeatures, detail+": an update replaces all features"
		}
		out.Refuse(node.Origin, reason, detail)
		return false
	}
	if known {
		out.Figures.Count(event.Updates, 1)
		if n.states.At(v).label != none {
			n.change(v).past |= Replaced
		}
		if node.Predict {
			a.asked = append(a.asked, Asked{Node: node})
		}
		if x.Dense == nil && len(x.Index) == 0 {
			out.Figures.Count(event.Cleared, 1)
		}
		if v >= first {
			a.features[v-first] = n.normalised(a.features[v-first], x)
		} else {
			a.replaced[v] = node
		}
		n.keep(v, node)
		a.accepted = append(a.accepted, Accepted{Node: node, Number: v, at: int32(i)})
		return true
	}
	n.supersede(node.ID, out)
	v, vacant := n.vacancy()
	if vacant {
		*n.states.At(v) = nodeState{}
		a.replaced[v] = node
	} else {
		v = first + int32(len(a.features))
		a.features = extend(a.features)
		a.features[v-first] = n.normalised(a.features[v-first], x)
		n.states.Add(nodeState{})
	}
	n.states.At(v).label = none
	n.keep(v, node)
	n.context.set(v, node.Context)
	n.index.enter(node.ID, v)
	if node.Context {
		out.Figures.Count(event.ContextNodes, 1)
	} else {
		out.Figures.Count(event.Arrivals, 1)
	}
	a.accepted = append(a.accepted, Accepted{Node: node, Number: v, at: int32(i), ToPredict: !node.Context})
	return true
}

// onlyArrivals reports whether all events of the window are new nodes to predict, as in
// most windows: the graph can then add and encode them in one pass.
func (n *Nodes) onlyArrivals() bool {
	a := &n.arrivals
	for _, x := range a.accepted {
		if !x.ToPredict {
			return false
		}
	}
	return len(a.features) == len(a.accepted) && len(a.replaced) == 0 && len(n.departed.leaving) == 0 && len(a.edges) == 0
}

// rebuild applies one kind of change after the other to the graph: new nodes,
// departures, replaced features, and then edges.
func (n *Nodes) rebuild(out *event.Outcome) {
	a := &n.arrivals
	n.Graph.Add(a.features)
	n.withdraw(out)
	// Replacing features takes time proportional to the node's degree. A node that is
	// sent many times in a window is replaced once, by its last event.
	for _, x := range a.accepted {
		if a.replaced[x.Number] == x.Node {
			a.scratch = n.normalised(a.scratch, Features(x.Node))
			n.Graph.Replace(x.Number, a.scratch)
		}
	}
	n.connect(out)
}

// lookUp sets named, in one tight loop so that the cache misses of the look-ups overlap.
// resolve then takes the accepted nodes in their order.
func (n *Nodes) lookUp() {
	a := &n.arrivals
	a.named, a.links, a.near = a.named[:0], a.links[:0], a.near[:0]
	for _, x := range a.accepted {
		for _, id := range x.Node.Neighbours {
			a.named = append(a.named, n.index.numberOf(id))
		}
	}
}

// resolve appends to near the neighbours of the i-th accepted node: those that waited for
// it, then those that it names. Edges to nodes that have not arrived wait.
func (n *Nodes) resolve(i int, out *event.Outcome) {
	a := &n.arrivals
	x, from := &a.accepted[i], len(a.links)
	waited := n.waiting.claim(x.Node.ID)
	a.links = append(a.links, waited.numbers...)
	for _, id := range waited.ids {
		n.name(x.Number, n.index.numberOf(id), id, out)
	}
	named := a.named[:len(x.Node.Neighbours)]
	a.named = a.named[len(named):]
	removes, apart := !n.removals.none(), n.tellsApart()
	for k, id := range x.Node.Neighbours {
		if removes && n.removals.follow(x.at, 0, x.Node.ID, id) {
			continue
		}
		if apart {
			e := x.Node.To(k)
			n.note(&e, x.Number, named[k], out)
		}
		n.name(x.Number, named[k], id, out)
	}
	a.near = append(a.near, a.links[from:len(a.links):len(a.links)])
}

// name appends to links the node with the given id and the number u, which node v names.
// If u is none, the edge waits.
func (n *Nodes) name(v, u int32, id event.ID, out *event.Outcome) {
	switch u {
	case v:
		out.Figures.Count(event.SelfLoops, 1)
	case none:
		out.Figures.Count(event.EdgesDropped, n.waiting.wait(id, v))
		n.states.At(v).hasWaitingEdges = true
	default:
		n.arrivals.links = append(n.arrivals.links, u)
	}
}

// link adds edges from v to neighbours, and returns the neighbours whose edge is new.
// LinkAll takes time proportional to v's degree; Link, for each edge, to the smaller of
// the two degrees, which is faster if a hub is sent again with few edges.
func (n *Nodes) link(v int32, neighbours []int32) (added []int32) {
	count := 0
	if n.Graph.Degree(v) <= 8*len(neighbours) {
		count = n.Graph.LinkAll(v, neighbours)
	} else {
		for _, u := range neighbours {
			if n.Graph.Link(v, u) {
				count++
			}
		}
	}
	near := n.Graph.Neighbours(v)
	return near[len(near)-count:]
}

// linked counts the edges of the i-th accepted node, of which those to added are new,
// and reports them to the followers.
func (n *Nodes) linked(i int, added []int32, out *event.Outcome) {
	n.report(n.arrivals.accepted[i].Number, n.arrivals.near[i], added, out)
}

// report counts edges between v and near, of which those to added are new, and reports
// them to the followers.
func (n *Nodes) report(v int32, near, added []int32, out *event.Outcome) {
	out.Figures.Count(event.EdgesAdded, len(added))
	out.Figures.Count(event.DuplicateEdges, len(near)-len(added))
	for _, linked := range n.followers.linked {
		linked(v, near, added)
	}
}

// listToPredict sets toPredict to the nodes that are to be predicted. It is called after
// withdraw, which removes nodes that arrived and left within the window.
func (n *Nodes) listToPredict() {
	a := &n.arrivals
	a.toPredict = a.toPredict[:0]
	for _, x := range a.accepted {
		if x.ToPredict {
			a.toPredict = append(a.toPredict, x.Number)
		}
	}
	if n.passing != nil {
		n.passing.present = append(n.passing.present, a.toPredict...)
	}
}

// DropWindow forgets what points into the window's memory.
func (n *Nodes) DropWindow() {
	a := &n.arrivals
	clear(a.accepted)
	clear(a.edges)
	clear(a.asked)
	clear(a.replaced)
	n.removals.clear()
	n.expiry.dropWindow()
	if n.unnormalised() {
		clear(a.features)
		a.scratch = gnn.Vector{}
	}
}

// normalised returns the encoder's input for features x: x itself if the model does not
// normalise, or else a vector in the memory of dst.
func (n *Nodes) normalised(dst, x gnn.Vector) gnn.Vector {
	if n.unnormalised() {
		return x
	}
	return n.normalizer.Apply(dst, x)
}

// unnormalised reports whether the model does not normalise features.
func (n *Nodes) unnormalised() bool { return n.normalizer.Kind == gnn.NormalizeNone }

// extend returns s with one more element. Within the capacity, that element keeps its
// former value, so that the memory it refers to can be reused.
func extend[T any](s []T) []T {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	var zero T
	return append(s, zero)
}
