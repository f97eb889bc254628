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
	g.unmark()
	for _, v := range nodes {
		g.mark(g.node(v))
	}
	g.met = g.met[:0]
	within := 0 // ends of edges between two that leave
	for _, v := range nodes {
		n := g.node(v)
		for _, u := range g.adj.view(n.adj) {
			if g.node(u).mark == g.epoch {
				within++
			} else {
				edges++
				g.met = append(g.met, u)
			}
		}
		g.blank(v, n)
	}
	edges += within / 2
	g.edges -= edges
	slices.Sort(g.met)
	g.met = slices.Compact(g.met)
	for _, u := range g.met {
		g.part(u)
	}
	return edges
}

// part takes the neighbours that are marked from u's list.
func (g *Graph) part(u int32) {
	n := g.node(u)
	g.keepList(u)
	g.adj.retain(&n.adj, func(v int32) bool { return g.nodes.At(v).mark != g.epoch })
	if g.hears() {
		g.expire(n)
	}
}

// blank makes v a node without features or edges. Its neighbours are not told.
func (g *Graph) blank(v int32, n *node) {
	g.keepList(v)
	g.adj.release(&n.adj)
	n.adj = block{}

	w := &g.work[0]
	project(g.enc, g.fresh, Vector{})
	g.rows.round(g.fresh, &w.half)
	g.keep(v)
	g.rows.putOwn(v, g.fresh)
	if !g.hears() {
		return
	}
	row := g.rows.row(v, &w.row)
	g.enc.start(row)
	g.rows.putHeard(v, row)
	if n.stale {
		n.stale = false
		g.stale--
	}
}

// keepList has an adjacency list that is about to lose neighbours be kept as it
// is, if the graph is frozen.
func (g *Graph) keepList(v int32) {
	if g.frozen != nil {
		g.frozen.keepList(v)
	}
}
