package gnn

import (
	"fmt"
	"slices"
)

// EmbedArrival sets dst, of length Out, to the embedding that a node with
// features x and edges to the neighbours would have, if it came now. Neighbours
// may stand there twice. The graph is as before when it returns: whatever is
// called next gives the same bits as without it. It costs what the arrival
// would, and as much again. It panics as [Graph.Add], [Graph.LinkAll] and
// [Graph.Embed] do.
func (g *Graph) EmbedArrival(x Vector, neighbours []int32, dst []float32) {
	checkFeatures(x, g.enc.In())
	for _, u := range neighbours {
		g.node(u)
	}
	linked := slices.Clone(neighbours)
	slices.Sort(linked)
	linked = slices.Compact(linked)
	before := g.note(linked...)

	v := g.Add([]Vector{x})
	added := g.LinkAll(v, neighbours)
	g.Embed([]int32{v}, dst)

	for _, u := range linked {
		g.node(u).adj.len-- // v is the last
	}
	g.edges -= added
	g.adj.release(&g.node(v).adj)
	g.nodes.Shrink(1)
	g.rows.shrink(1)
	before.restore()
}

// EmbedWithout sets dst, of length Out, to the embedding that v would have if
// there were no edge between v and u. The graph is as before when it returns:
// whatever is called next gives the same bits as without it. It costs what an
// embedding does, and a term for each of v's neighbours. It panics when there is
// no such edge.
func (g *Graph) EmbedWithout(v, u int32, dst []float32) {
	a, b := &g.node(v).adj, &g.node(u).adj
	i, j := slices.Index(g.adj.view(*a), u), slices.Index(g.adj.view(*b), v)
	if i < 0 || j < 0 {
		panic(fmt.Sprintf("gnn: no edge between %d and %d", v, u))
	}
	before := g.note(v, u)
	g.adj.cut(a, i)
	g.adj.cut(b, j)
	if g.aggregates() {
		g.markStale(g.node(v))
		g.markStale(g.node(u))
	}

	g.Embed([]int32{v}, dst)

	g.adj.insert(a, i, u)
	g.adj.insert(b, j, v)
	before.restore()
}

// noted is what some nodes have heard, to be restored.
type noted struct {
	g         *Graph
	nodes     []int32
	aggregate []float32
}

// note notes what the nodes have heard, which it brings up to date.
func (g *Graph) note(nodes ...int32) noted {
	before := noted{g: g, nodes: nodes}
	if g.aggregates() {
		for _, v := range nodes {
			before.aggregate = append(before.aggregate, g.freshRow(v)[g.selfLen:]...)
		}
	}
	return before
}

func (n noted) restore() {
	g := n.g
	if !g.aggregates() {
		return
	}
	length := g.rowLen - g.selfLen
	w := &g.work[0]
	for i, v := range n.nodes {
		row := g.rows.row(v, &w.row)
		copy(row[g.selfLen:], n.aggregate[i*length:(i+1)*length])
		g.rows.putAggregate(v, row)
		if m := g.node(v); m.stale {
			m.stale = false
			g.staleCount--
		}
	}
}
