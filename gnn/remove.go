package gnn

import (
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// Remove removes nodes from the graph: their edges and all values computed from
// their features. Their numbers remain, as nodes without features or edges, and
// may be reused with [Graph.Replace] and new edges; [Graph.Len] counts them. It
// returns the number of edges removed. A node may be listed twice.
//
// Nothing is subtracted: a former neighbour becomes stale, and its aggregate is
// recomputed from the neighbours that it still has, in the order of their edges.
// So embeddings have the bits of a graph that only ever had the remaining nodes
// and edges.
//
// It takes time proportional to the degrees of the nodes and of their distinct
// neighbours, whose lists are filtered. Each of these neighbours is recomputed
// when it is next needed, which takes one message for each of its own neighbours:
// a hub is recomputed once between two embeddings, however many of its neighbours
// leave.
func (g *Graph) Remove(nodes []int32) (edges int) {
	g.links.clearMarks()
	for _, v := range nodes {
		g.links.mark(g.links.node(v))
	}
	g.scratch.added = g.scratch.added[:0] // the neighbours that stay
	within := 0                           // edges between two nodes that leave, counted at both ends
	for _, v := range nodes {
		n := g.links.node(v)
		for _, u := range g.links.adj.View(n.adj) {
			if g.links.node(u).mark == g.links.epoch {
				within++
			} else {
				edges++
				g.scratch.added = append(g.scratch.added, u)
			}
		}
		g.clearNode(v, n)
	}
	edges += within / 2
	g.links.edges -= edges
	slices.Sort(g.scratch.added)
	g.scratch.added = slices.Compact(g.scratch.added)
	for _, u := range g.scratch.added {
		g.dropMarked(u, func(int32) {})
	}
	return edges
}

// dropMarked removes the marked nodes from v's adjacency list, and calls lost for each.
func (g *Graph) dropMarked(v int32, lost func(u int32)) {
	n := g.links.node(v)
	before := n.adj.Len()
	if before == 0 {
		return
	}
	marked := func(u int32) bool { return g.links.nodes.At(u).mark == g.links.epoch }
	g.links.keepList(v)
	kernel.Prefetch(g.links.nodes, g.links.adj.View(n.adj), 0, 1)
	g.links.adj.Retain(&n.adj, func(u int32) bool {
		if marked(u) {
			lost(u)
			return false
		}
		return true
	})
	g.kinds.drop(v, marked)
	if n.adj.Len() < before && g.rows.aggregates() {
		g.links.markStale(n)
	}
}

// clearNode makes v a node without features or edges. It leaves v in its
// neighbours' lists.
func (g *Graph) clearNode(v int32, n *node) {
	g.links.keepList(v)
	g.links.adj.Clear(&n.adj)
	g.kinds.drop(v, func(int32) bool { return true })

	w := &g.workers.space[0]
	project(g.enc, g.scratch.newSelf, Vector{})
	g.rows.round(g.scratch.newSelf, &w.half)
	g.keep(v)
	g.rows.putSelf(v, g.scratch.newSelf)
	if !g.rows.aggregates() {
		return
	}
	row := g.rows.row(v, &w.row)
	g.enc.resetAggregate(row)
	g.rows.putAggregate(v, row)
	g.links.clearStale(n)
	delete(g.hubs, v)
}
