package gnn

import (
	"fmt"
	"slices"
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

// EmbedWithout sets dst, of length Out, to the embedding that v would have if
// the edge between v and u were absent. The graph is unchanged when it returns,
// to the bit. It takes the time of an embedding plus one message for each of v's
// neighbours. It panics when there is no such edge.
func (g *Graph) EmbedWithout(v, u int32, dst []float32) {
	a, b := &g.links.node(v).adj, &g.links.node(u).adj
	i, j := slices.Index(g.links.adj.View(*a), u), slices.Index(g.links.adj.View(*b), v)
	if i < 0 || j < 0 {
		panic(fmt.Sprintf("gnn: no edge between %d and %d", v, u))
	}
	before := saveAggregates(g, v, u)
	g.links.adj.Remove(a, i)
	g.links.adj.Remove(b, j)
	if g.rows.aggregates() {
		g.links.markStale(g.links.node(v))
		g.links.markStale(g.links.node(u))
	}

	if g.kinds != nil {
		g.kinds.hidden = [2]int32{v, u}
		defer func() { g.kinds.hidden = noEdge }()
	}
	g.Embed([]int32{v}, dst)

	g.links.adj.Insert(a, i, u)
	g.links.adj.Insert(b, j, v)
	before.restore()
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
