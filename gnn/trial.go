package gnn

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// EmbedArrival sets dst, of length Out, to the embedding that a node with
// features x and edges to the neighbours would have if it arrived now.
// Neighbours may be listed twice. For an encoder that tells kinds of edges apart, weighed
// says what the edges are, see [Graph.Weigh]; the node has the number [Graph.Len]. The graph is
// unchanged when it returns, to the bit. It takes about twice the time of the arrival. It panics as [Graph.Add],
// [Graph.LinkAll] and [Graph.Embed] do.
func (g *Graph) EmbedArrival(x Vector, neighbours []int32, weighed []WeighedEdge, dst []float32) {
	checkFeatures(x, g.enc.In())
	for _, u := range neighbours {
		g.links.node(u)
	}
	distinct := slices.Clone(neighbours)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	before := saveAggregates(g, distinct...)

	v := g.Add([]Vector{x})
	added := g.LinkAll(v, neighbours)
	if g.kinds != nil {
		g.Weigh(weighed...)
		g.kinds.trial = true
		defer func() { g.kinds.trial = false }()
	}
	g.Embed([]int32{v}, dst)
	g.kinds.dropLast(distinct)

	for _, u := range distinct {
		g.links.adj.RemoveLast(&g.links.node(u).adj) // v
	}
	g.links.edges -= added
	g.links.adj.Clear(&g.links.node(v).adj)
	g.links.nodes.Shrink(1)
	g.rows.shrink(1)
	delete(g.hubs, v)
	before.restore()
}

// trialDegree is the largest degree of a neighbour that hears of features on trial: one of more hears next to nothing of
// one node.
const trialDegree = 64

// EmbedTrial sets dst, of length Out, to the embedding that v would have with features x, if any are given, and without
// the edges to some neighbours. Neighbours of more than trialDegree neighbours are not told of x. The graph is unchanged when it
// returns, to the bit. It takes the time of an embedding plus a message for each neighbour of v. It panics when there is no
// such edge, and as [Graph.Add] does.
func (g *Graph) EmbedTrial(v int32, x *Vector, without []int32, dst []float32) {
	adds := addsMessages(g.enc)
	changed := append(g.scratch.changed[:0], v)
	if g.enc.Depth() > 2 { // else nobody who is read hears them
		changed = append(changed, without...)
	}
	told := len(changed)
	if x != nil {
		checkFeatures(*x, g.enc.In())
		for _, u := range g.links.near(v) {
			switch {
			case slices.Contains(without, u):
			case g.Degree(u) <= trialDegree:
				changed = append(changed, u)
			case g.rows.aggregates():
				g.freshRow(u) // now, and not from x
			}
		}
	}
	g.scratch.changed = changed
	before := saveAggregates(g, changed...)
	places := make([][2]int, len(without)) // of each edge in the lists of both ends
	for k, u := range without {
		places[k] = g.links.cut(v, u)
	}
	self := slices.Clone(g.rows.row(v, &g.workers.space[0].row)[:g.selfLen])
	if adds {
		for _, u := range without {
			g.addDifference(v, nil, g.rows.row(u, &g.workers.space[0].other)[:g.selfLen])
			if told > 1 {
				g.addDifference(u, nil, self)
			}
		}
	} else if g.rows.aggregates() {
		for _, u := range changed {
			g.links.markStale(g.links.node(u))
		}
	}
	if g.kinds != nil {
		g.kinds.hidden, g.kinds.trial = hidden{v, without}, true
	}
	if x != nil {
		project(g.enc, g.scratch.newSelf, *x)
		g.rows.round(g.scratch.newSelf, &g.workers.space[0].half)
		if adds {
			for _, u := range changed[told:] {
				g.addDifference(u, g.scratch.newSelf, self)
			}
		}
		g.rows.putSelf(v, g.scratch.newSelf)
		g.kinds.forget(changed[1:])
	}

	g.Embed([]int32{v}, dst)

	if x != nil {
		g.rows.putSelf(v, self)
		g.kinds.forget(changed[1:])
	}
	if g.kinds != nil {
		g.kinds.hidden, g.kinds.trial = hidden{of: -1}, false
	}
	for k, u := range slices.Backward(without) {
		g.links.adj.Insert(&g.links.node(v).adj, places[k][0], u)
		g.links.adj.Insert(&g.links.node(u).adj, places[k][1], v)
	}
	before.restore()
}

// addsMessages reports whether an encoder's aggregates are sums of messages that are linear in self terms.
func addsMessages(e Encoder) bool {
	switch e.(type) {
	case *SAGE, *GIN:
		return true
	}
	return false
}

// addDifference adds to v's aggregate what a neighbour's message changes by if its self term becomes another, nil for none.
func (g *Graph) addDifference(v int32, is, was []float32) {
	w := &g.workers.space[0]
	w.share = kernel.Resize(w.share, len(was))
	for j, x := range was {
		w.share[j] = -x
	}
	if is != nil {
		kernel.Add(w.share, is)
	}
	row := g.rows.row(v, &w.row)
	g.enc.addMessage(row, w.share)
	g.rows.putAggregate(v, row)
}

// cut removes the edge between u and v from their lists, and returns its places there. It panics when there is none.
func (l *links) cut(v, u int32) (places [2]int) {
	a, b := &l.node(v).adj, &l.node(u).adj
	i, j := slices.Index(l.adj.View(*a), u), slices.Index(l.adj.View(*b), v)
	if i < 0 || j < 0 {
		panic(fmt.Sprintf("gnn: no edge between %d and %d", v, u))
	}
	l.adj.Remove(a, i)
	l.adj.Remove(b, j)
	return [2]int{i, j}
}

// savedAggregates are the aggregates of some nodes, to be restored.
type savedAggregates struct {
	g         *Graph
	nodes     []int32
	aggregate []float32 // one node's after the other
	hubs      []*hub    // by node, nil if it has none
}

// saveAggregates copies the nodes' aggregates, recomputing stale ones first.
func saveAggregates(g *Graph, nodes ...int32) savedAggregates {
	saved := savedAggregates{g: g, nodes: nodes}
	if g.rows.aggregates() {
		saved.aggregate = make([]float32, 0, len(nodes)*(g.rowLen-g.selfLen))
		for _, v := range nodes {
			saved.aggregate = append(saved.aggregate, g.freshRow(v)[g.selfLen:]...)
			h := g.hubs[v]
			if h != nil {
				h = &hub{slices.Clone(h.aggregate), h.summed}
			}
			saved.hubs = append(saved.hubs, h)
		}
	}
	return saved
}

func (s savedAggregates) restore() {
	g := s.g
	if !g.rows.aggregates() {
		return
	}
	length := g.rowLen - g.selfLen
	w := &g.workers.space[0]
	for i, v := range s.nodes {
		row := g.rows.row(v, &w.row)
		copy(row[g.selfLen:], s.aggregate[i*length:(i+1)*length])
		g.rows.putAggregate(v, row)
		g.links.clearStale(g.links.node(v))
		delete(g.hubs, v)
		if h := s.hubs[i]; h != nil {
			g.hubs[v] = h
		}
	}
}
