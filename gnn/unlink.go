package gnn

import (
	"cmp"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// Unlink removes edges, each given by its two ends, in either order and perhaps
// more than once. It returns those that were there, once each and the lower
// number first; the slice is valid until the next call.
//
// Nothing is subtracted: both ends become stale, as in [Graph.Remove]. So
// embeddings have the bits of a graph that never had the edges.
//
// It takes time proportional to the number of edges given and the degrees of
// their distinct ends, whose lists are filtered once each, however many of their
// edges are removed.
func (g *Graph) Unlink(edges [][2]int32) (removed [][2]int32) {
	g.scratch.halves, g.scratch.removed = g.scratch.halves[:0], g.scratch.removed[:0]
	for _, e := range edges {
		if e[0] != e[1] {
			g.scratch.halves = append(g.scratch.halves, e, [2]int32{e[1], e[0]})
		}
	}
	slices.SortFunc(g.scratch.halves, func(a, b [2]int32) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	for rest := g.scratch.halves; len(rest) > 0; {
		v, n := rest[0][0], 1
		for n < len(rest) && rest[n][0] == v {
			n++
		}
		g.dropNeighbours(v, rest[:n])
		rest = rest[n:]
	}
	g.links.edges -= len(g.scratch.removed)
	return g.scratch.removed
}

// dropNeighbours removes from v's adjacency list the second nodes of halves, and
// adds the edges to g.removed at their lower end.
func (g *Graph) dropNeighbours(v int32, halves [][2]int32) {
	n := g.links.node(v)
	before := n.adj.Len()
	if before == 0 {
		return
	}
	g.links.clearMarks()
	for _, h := range halves {
		g.links.mark(g.links.node(h[1]))
	}
	g.links.keepList(v)
	kernel.Prefetch(g.links.nodes, g.links.adj.View(n.adj), 0, 1)
	g.links.adj.Retain(&n.adj, func(u int32) bool {
		stays := g.links.nodes.At(u).mark != g.links.epoch
		if !stays && v < u {
			g.scratch.removed = append(g.scratch.removed, [2]int32{v, u})
		}
		return stays
	})
	g.kinds.drop(v, func(u int32) bool { return g.links.nodes.At(u).mark == g.links.epoch })
	if n.adj.Len() < before && g.rows.aggregates() {
		g.links.markStale(n)
	}
}
