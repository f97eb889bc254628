package gnn

import "slices"

// Remove takes nodes out of the graph: their edges go, and of what was made of
// their features nothing is kept. Their numbers stay, as those of nodes without
// features or edges, until [Graph.Replace] and new edges make other nodes of
// them; [Graph.Len] counts them. It returns how many edges went. A node may
// stand there twice.
//
// Nothing is subtracted: what a neighbour has heard is made anew of those that
// it still has, in the order in which their edges came. So embeddings are, bit
// for bit, those of a graph that had the nodes and edges that are left and no
// others, whatever came, left and came again in between.
//
// It takes time in proportion to the degrees of the nodes and of their distinct
// neighbours, of which it reads the lists; and where something is heard at all,
// each of these neighbours is made anew, at one term a neighbour of its own,
// when it is next needed. A hub thus pays for its degree once between two
// embeddings, however many of its neighbours leave.
func (g *Graph) Remove(nodes []int32) (edges int) {
	g.clearMarks()
	for _, v := range nodes {
		g.mark(g.node(v))
	}
	g.linked = g.linked[:0]
	within := 0 // ends of edges between two that leave
	for _, v := range nodes {
		n := g.node(v)
		for _, u := range g.adj.view(n.adj) {
			if g.node(u).mark == g.epoch {
				within++
			} else {
				edges++
				g.linked = append(g.linked, u)
			}
		}
		g.clearNode(v, n)
	}
	edges += within / 2
	g.edges -= edges
	slices.Sort(g.linked)
	g.linked = slices.Compact(g.linked)
	for _, u := range g.linked {
		g.dropMarked(u)
	}
	return edges
}

// part takes the neighbours that are marked from u's list.
func (g *Graph) dropMarked(u int32) {
	n := g.node(u)
	g.keepList(u)
	g.adj.retain(&n.adj, func(v int32) bool { return g.nodes.At(v).mark != g.epoch })
	if g.aggregates() {
		g.markStale(n)
	}
}

// blank makes v a node without features or edges. Its neighbours are not told.
func (g *Graph) clearNode(v int32, n *node) {
	g.keepList(v)
	g.adj.release(&n.adj)
	n.adj = block{}

	w := &g.work[0]
	project(g.enc, g.newSelf, Vector{})
	g.rows.round(g.newSelf, &w.half)
	g.keep(v)
	g.rows.putSelf(v, g.newSelf)
	if !g.aggregates() {
		return
	}
	row := g.rows.row(v, &w.row)
	g.enc.resetAggregate(row)
	g.rows.putAggregate(v, row)
	if n.stale {
		n.stale = false
		g.staleCount--
	}
}

// keepList has an adjacency list that is about to lose neighbours be kept as it
// is, if the graph is frozen.
func (g *Graph) keepList(v int32) {
	if g.frozen != nil {
		g.frozen.keepList(v)
	}
}
