package gnn

import (
	"cmp"
	"slices"
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
		g.links.clearMarks()
		for _, h := range rest[:n] {
			g.links.mark(g.links.node(h[1]))
		}
		g.dropMarked(v, func(u int32) {
			if v < u {
				g.scratch.removed = append(g.scratch.removed, [2]int32{v, u})
			}
		})
		rest = rest[n:]
	}
	g.links.edges -= len(g.scratch.removed)
	return g.scratch.removed
}
