package gnn

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// node is what the graph keeps of a node besides its row: 32 bytes, so that two
// share a cache line.
type node struct {
	adj  kernel.List // the adjacency list
	mark uint32      // see links.epoch
	slot int32       // in Embed, if the node is marked: its place in embedder.order
	// stale: the aggregate may differ from that of the current neighbours and
	// self terms. It is set by markStale (in Replace, Remove, Unlink, EmbedTrial, and in
	// State for a node that was saved stale) and cleared where the aggregate is
	// recomputed (freshRow, clearNode, savedAggregates.restore). No message is
	// added to a stale aggregate.
	stale bool
	_     [4]byte
}

// links are the nodes of a graph and their edges.
type links struct {
	nodes *kernel.Table[node]

	// adj holds an adjacency list per node, in the order in which its edges
	// came: u is in v's list exactly if v is in u's, once, and never v in its
	// own.
	adj   kernel.Arena[int32]
	edges int // half of the sum of the lists' lengths

	epoch      uint32 // a node is marked if its mark is epoch; see mark
	staleCount int    // number of nodes with stale set; 0 allows shortcuts

	frozen frozenLinks // for Graph.State

	// Storage reused from call to call.
	found []int32   // by unlinked
	ends  []uintptr // addresses at which adjacency lists go on
}

// node returns v's node. It panics when there is none.
func (l *links) node(v int32) *node {
	if uint(v) >= uint(l.nodes.Len()) {
		panic(fmt.Sprintf("gnn: node %d of a graph of %d", v, l.nodes.Len()))
	}
	return l.nodes.At(v)
}

// near returns v's neighbours, see [Graph.Neighbours].
func (l *links) near(v int32) []int32 { return l.adj.View(l.node(v).adj) }

func (l *links) markStale(n *node) {
	if !n.stale {
		n.stale = true
		l.staleCount++
	}
}

func (l *links) clearStale(n *node) {
	if n.stale {
		n.stale = false
		l.staleCount--
	}
}

// clearMarks unmarks all nodes, in constant time but for one call in 2³².
func (l *links) clearMarks() {
	l.epoch++
	if l.epoch == 0 { // the counter wrapped: old marks would be valid again
		for v := range int32(l.nodes.Len()) {
			l.nodes.At(v).mark = 0
		}
		l.epoch = 1
	}
}

// mark marks n and reports whether it was not marked before.
func (l *links) mark(n *node) bool {
	if n.mark == l.epoch {
		return false
	}
	n.mark = l.epoch
	return true
}

// unlinked returns those of the nodes that are neither v nor its neighbours,
// each once, valid until the next call, and whether any of them or v is stale.
func (l *links) unlinked(v int32, nodes []int32) (fresh []int32, stale bool) {
	n := l.node(v)
	l.clearMarks()
	l.mark(n)
	for _, u := range l.adj.View(n.adj) {
		l.mark(l.node(u))
	}
	l.found = l.found[:0]
	stale = n.stale
	for _, u := range nodes {
		if m := l.node(u); l.mark(m) {
			l.found = append(l.found, u)
			stale = stale || m.stale
		}
	}
	return l.found, stale
}

// appendEdges adds edges between v and the nodes, which must not be neighbours of
// v yet, to the adjacency lists. It exchanges no messages.
func (l *links) appendEdges(v int32, nodes []int32) {
	n := l.node(v)
	l.adj.Grow(&n.adj, len(nodes))
	for _, u := range nodes {
		l.adj.Append(&n.adj, u)
		l.adj.Append(&l.node(u).adj, v)
	}
	l.edges += len(nodes)
}

// prefetchEnds brings the ends of the nodes' adjacency lists into the cache.
func (l *links) prefetchEnds(nodes []int32) {
	l.ends = l.ends[:0]
	for _, u := range nodes {
		l.ends = l.adj.AppendEnd(l.ends, l.node(u).adj)
	}
	kernel.PrefetchLines(l.ends)
}

// slots lists v's slot, then its neighbours', valid until w's next call.
func (l *links) slots(v int32, w *workspace) []int32 {
	w.at = append(w.at[:0], l.node(v).slot)
	for _, u := range l.near(v) {
		w.at = append(w.at, l.nodes.At(u).slot)
	}
	return w.at
}

// inverseDegrees returns each node's inverseDegree, valid until w's next call.
func (l *links) inverseDegrees(nodes []int32, w *workspace) []float32 {
	w.scale = kernel.Resize(w.scale, len(nodes))
	for i, v := range nodes {
		w.scale[i] = inverseDegree(l.nodes.At(v).adj.Len())
	}
	return w.scale
}
