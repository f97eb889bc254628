package gnn

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// Graph is a growing, simple, undirected graph that embeds its nodes with a
// frozen [Encoder]. Nodes are numbered from 0 as they are added.
//
// The graph keeps per node what the encoder's first layer makes of its
// features, and of its neighbours as far as that can be kept up: for [SAGE]
// and [GIN] a sum, for [GAT] the numerators and denominators of attention. An
// edge adds one term to either end, and a first-layer state costs little
// whatever the degree. For [GCN] it takes a term a neighbour.
//
// What is kept of the neighbours takes its terms in the order of the node's
// adjacency, which is the order in which its edges came. Hence the same calls
// give the same bits, and so does what is made anew after features were
// replaced.
//
// A Graph may not be used by two goroutines at once, not even to read: Embed
// brings sums up to date.
type Graph struct {
	enc        Encoder
	selfLen    int // length of a row's part made of the node's features alone
	rowLen     int // length of a row
	nodes      *kernel.Table[node]
	rows       rowTable
	edges      int
	adj        arena
	epoch      uint32 // of the marks, see mark
	staleCount int    // how many nodes are
	projector  projection
	embed      embedder
	work       []workspace // one a worker
	helpers    helperPool
	window     window
	reserve    int       // nodes to take the memory of at the start
	linked     []int32   // the neighbours that LinkAll adds
	listEnds   []uintptr // of their adjacency lists
	newSelf    []float32 // for Replace: the own part to come
	frozen     *Frozen   // nil unless the graph is
	freezer    Frozen    // with room from the last time
}

// node is what the graph keeps of a node beside its row. It is half a cache
// line long.
type node struct {
	adj   block
	mark  uint32 // the node is marked when this is the graph's epoch
	slot  int32  // of a node that is marked by plan, its place in order; in a window of Arrive, the last arrival that changes it
	stale bool   // what was heard is not of the neighbours, or the node itself, as they are
	_     [4]byte
}

// Option is what a graph may be told when it is made.
type Option func(*Graph)

// Workers lets so many goroutines at once, at least 1, which it is without,
// share what a window of arrivals takes: the products of [Graph.Add], and all
// of [Graph.Embed]. Every bit is the same.
func Workers(n int) Option {
	return func(g *Graph) { g.work = make([]workspace, max(n, 1)) }
}

// BFloat16 keeps what is made of a node's features alone as bfloat16, for
// graphs that would not fit otherwise: a node of [SAGE] takes two thirds of the
// memory, and more time. Each number is rounded to the nearest, so that
// embeddings are off by some thousandths of their size, see
// BenchmarkBFloat16. The same calls give the same bits here too.
func BFloat16() Option {
	return func(g *Graph) { g.rows.useBFloat16() }
}

// Reserve takes the memory of so many nodes when the graph is made, and not as they
// come. For their edges it takes none.
func Reserve(nodes int) Option {
	return func(g *Graph) { g.reserve = nodes }
}

// NewGraph returns an empty graph.
func NewGraph(encoder Encoder, options ...Option) *Graph {
	self, aggregate := encoder.rowLayout()
	g := &Graph{
		enc: encoder, selfLen: self, rowLen: self + aggregate,
		nodes: kernel.NewTable[node](1), rows: rowTable{selfLen: self, aggregateLen: aggregate, whole: kernel.NewTable[float32](self + aggregate)},
		projector: encoder.projection(),
		newSelf:   make([]float32, self),
		work:      make([]workspace, 1),
	}
	for _, option := range options {
		option(g)
	}
	g.nodes.Reserve(g.reserve)
	g.rows.reserve(g.reserve)
	g.helpers.awake = make([]atomic.Bool, len(g.work))
	return g
}

// Len is the number of nodes, those that were removed among them.
func (g *Graph) Len() int { return g.nodes.Len() }

// Edges is the number of edges.
func (g *Graph) Edges() int { return g.edges }

// Degree is the number of v's neighbours.
func (g *Graph) Degree(v int32) int { return int(g.node(v).adj.len) }

// Neighbours returns v's neighbours in the order in which the edges came. The
// slice is the graph's own: it may not be written to, and holds until the
// graph is next changed.
func (g *Graph) Neighbours(v int32) []int32 { return g.adj.view(g.node(v).adj) }

// node panics when v is no node.
func (g *Graph) node(v int32) *node {
	if uint(v) >= uint(g.nodes.Len()) {
		panic(fmt.Sprintf("gnn: node %d of a graph of %d", v, g.nodes.Len()))
	}
	return g.nodes.At(v)
}

// hears reports whether anything of the neighbours is kept.
func (g *Graph) aggregates() bool { return g.rowLen > g.selfLen }

// heard returns v's row with all of it as it should be. Without that, a row's
// own part is as it should be, and the heard part unless the node is stale.
func (g *Graph) freshRow(v int32) []float32 {
	n := g.node(v)
	w := &g.work[0]
	row := g.rows.row(v, &w.row)
	if n.stale {
		g.keep(v)
		g.enc.resetAggregate(row)
		for _, u := range g.adj.view(n.adj) {
			g.enc.addMessage(row, g.rows.row(u, &w.other))
		}
		g.rows.putAggregate(v, row)
		n.stale = false
		g.staleCount--
	}
	return row
}

// keep has a row that is about to be changed be kept as it is, if the graph is
// frozen.
func (g *Graph) keep(v int32) {
	if g.frozen != nil {
		g.frozen.keep(v)
	}
}

// expire notes that what n's node has heard is no longer as it should be.
func (g *Graph) markStale(n *node) {
	if !n.stale {
		n.stale = true
		g.staleCount++
	}
}

// Add adds a node without edges for each vector and returns the number of the
// first; the others follow. It panics when a vector does not fit the encoder
// or the nodes are more than an int32 numbers. The vectors are not kept.
func (g *Graph) Add(x []Vector) (first int32) {
	for i := range x {
		checkFeatures(x[i], g.enc.In())
	}
	if len(x) > math.MaxInt32-g.Len() {
		panic(fmt.Sprintf("gnn: %d nodes more than %d, want at most %d", len(x), g.Len(), math.MaxInt32))
	}
	v := int32(g.Len())
	g.nodes.Grow(len(x))
	g.rows.grow(len(x))
	if g.serial(len(x)) {
		g.addRows(&g.work[0], v, x)
	} else {
		g.parallel(len(x), chunkRows, func(w *workspace, from, to int) { g.addRows(w, v+int32(from), x[from:to]) })
	}
	return v
}

// addRows makes the rows of nodes without edges from v on.
func (g *Graph) addRows(w *workspace, v int32, x []Vector) {
	for len(x) > 0 {
		n := min(len(x), blockRows)
		var rows []float32
		if g.rows.whole != nil {
			rows = g.rows.whole.From(v)
			n = min(len(rows)/g.rowLen, n)
		} else {
			rows = kernel.Resize(w.rows, n*g.rowLen)
			w.rows = rows
			clear(rows)
		}
		w.dense = g.projector.rows(rows, g.rowLen, x[:n], w.dense)
		for i := range n {
			row := rows[i*g.rowLen:][:g.rowLen]
			g.enc.finishSelf(row[:g.selfLen])
			g.rows.round(row[:g.selfLen], &w.half)
			if g.aggregates() {
				g.enc.resetAggregate(row)
			}
			if g.rows.whole == nil {
				g.rows.putSelf(v+int32(i), row[:g.selfLen])
				g.rows.putAggregate(v+int32(i), row)
			}
		}
		x, v = x[n:], v+int32(n)
	}
}

// Link adds the edge between u and v and reports whether it did: not if it is
// there, nor if u is v. It takes time in proportion to the smaller degree.
func (g *Graph) Link(u, v int32) bool {
	few, many := u, v
	if g.node(few).adj.len > g.node(many).adj.len {
		few, many = many, few
	}
	if u == v || slices.Contains(g.Neighbours(few), many) {
		return false
	}
	g.link(u, v)
	return true
}

// LinkAll calls [Graph.Link] for v and each of the neighbours in order, and
// returns how many edges it added, in time proportional to v's degree plus
// their number.
func (g *Graph) LinkAll(v int32, neighbours []int32) (added int) {
	g.prefetch(neighbours)
	return len(g.linkAll(v, neighbours))
}

// linkAll is LinkAll of neighbours that were approached, and returns those that
// are new, until its next call.
func (g *Graph) linkAll(v int32, neighbours []int32) (added []int32) {
	added, stale := g.unlinked(v, neighbours)
	if (stale || g.rows.whole == nil) && g.aggregates() {
		for _, u := range added {
			g.link(v, u)
		}
		return added
	}
	g.prefetchListEnds(added) // they come nearer during the exchange
	if g.aggregates() {
		g.keepAll(v, added)
		g.enc.exchangeMessages(g.rows.whole, v, added, 0, g.enc.messageColumns())
	}
	g.appendEdges(v, added)
	return added
}

// meet returns those of some nodes that are not v nor its neighbours, each once,
// until its next call, and whether any of them or v is stale.
func (g *Graph) unlinked(v int32, nodes []int32) (added []int32, stale bool) {
	n := g.node(v)
	g.clearMarks()
	g.mark(n)
	for _, u := range g.adj.view(n.adj) {
		g.mark(g.node(u))
	}
	g.linked = g.linked[:0]
	stale = n.stale
	for _, u := range nodes {
		if m := g.node(u); g.mark(m) {
			g.linked = append(g.linked, u)
			stale = stale || m.stale
		}
	}
	return g.linked, stale
}

// prefetchListEnds has the ends of the nodes' lists brought nearer, which go on there.
func (g *Graph) prefetchListEnds(nodes []int32) {
	g.listEnds = g.listEnds[:0]
	for _, u := range nodes {
		g.listEnds = g.adj.end(g.listEnds, g.node(u).adj)
	}
	kernel.PrefetchLines(g.listEnds)
}

// keepAll has the rows that v's exchange with the nodes is about to change be kept
// as they are, if the graph is frozen.
func (g *Graph) keepAll(v int32, nodes []int32) {
	if g.frozen == nil {
		return
	}
	g.keep(v)
	for _, u := range nodes {
		g.keep(u)
	}
}

// join enters the edges between v and the nodes, which are new.
func (g *Graph) appendEdges(v int32, nodes []int32) {
	n := g.node(v)
	g.adj.reserve(&n.adj, len(nodes))
	for _, u := range nodes {
		g.adj.append(&n.adj, u)
		g.adj.append(&g.node(u).adj, v)
	}
	g.edges += len(nodes)
}

// approach has what LinkAll will read of the neighbours brought nearer.
func (g *Graph) prefetch(neighbours []int32) {
	kernel.Prefetch(g.nodes, neighbours, 0, 1)
	if g.aggregates() && g.rows.whole != nil {
		g.enc.prefetchMessages(g.rows.whole, neighbours, 0, g.enc.messageColumns())
	}
}

func (g *Graph) link(u, v int32) {
	g.edges++
	a, b := g.node(u), g.node(v)
	g.adj.append(&a.adj, v)
	g.adj.append(&b.adj, u)
	if !g.aggregates() {
		return
	}
	// A stale node will hear the new neighbour in its turn.
	w := &g.work[0]
	ru, rv := g.rows.row(u, &w.row), g.rows.row(v, &w.other)
	if !a.stale {
		g.keep(u)
		g.enc.addMessage(ru, rv)
		g.rows.putAggregate(u, ru)
	}
	if !b.stale {
		g.keep(v)
		g.enc.addMessage(rv, ru)
		g.rows.putAggregate(v, rv)
	}
}

// Replace gives v new features. What v and its neighbours have heard is made
// anew when it is next needed, so a hub pays once for however many neighbours
// change between two embeddings; when the features come again as they were,
// nothing is made anew.
func (g *Graph) Replace(v int32, x Vector) {
	n := g.node(v)
	w := &g.work[0]
	self := g.rows.row(v, &w.row)[:g.selfLen]
	project(g.enc, g.newSelf, x)
	g.rows.round(g.newSelf, &w.half)
	if slices.Equal(self, g.newSelf) {
		return
	}
	g.keep(v)
	g.rows.putSelf(v, g.newSelf)
	if !g.aggregates() {
		return
	}
	g.markStale(n)
	for _, u := range g.adj.view(n.adj) {
		g.markStale(g.node(u))
	}
}

// unmark takes the mark off all nodes.
func (g *Graph) clearMarks() {
	g.epoch++
	if g.epoch == 0 { // the counter came round: old marks would count
		for v := range int32(g.Len()) {
			g.nodes.At(v).mark = 0
		}
		g.epoch = 1
	}
}

// mark reports whether n was not marked.
func (g *Graph) mark(n *node) bool {
	if n.mark == g.epoch {
		return false
	}
	n.mark = g.epoch
	return true
}
