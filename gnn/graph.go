package gnn

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// Graph is a growing, simple, undirected graph that embeds its nodes with a
// frozen [Encoder]. Nodes are numbered from 0 in the order in which they are
// added. See the package comment for what it keeps of each node.
//
// A Graph is not safe for concurrent use, reads included: Embed recomputes
// stale rows.
type Graph struct {
	enc       Encoder
	projector projection // enc.projection()
	selfLen   int        // length of a row's self term
	rowLen    int        // length of a row: self term, then aggregate

	// nodes and rows have one entry per node, Len() of each. A row's self term
	// is exact at all times. Its aggregate is exact unless the node is stale.
	nodes *kernel.Table[node]
	rows  *rowTable

	// adj holds an adjacency list per node, in the order in which its edges
	// came: u is in v's list exactly if v is in u's, once, and never v in its
	// own.
	adj   kernel.Arena[int32]
	edges int // half of the sum of the lists' lengths

	kinds *kindMeans // nil unless edges are told apart
	apart *SAGEKinds // of a single mean: the encoder once they are, see TellApart

	hubs map[int32]*hub // of hubs that got edges and have not been stale since; see settle

	epoch      uint32 // a node is marked if its mark is epoch; see mark
	staleCount int    // number of nodes with stale set; 0 allows shortcuts

	frozen frozenGraph // for State

	work    []workspace // one for each worker; work[0] is the caller's
	helpers helperPool
	reserve int // nodes to preallocate, see Reserve

	// Storage reused from call to call.
	embed   embedder
	window  window
	scratch scratch
}

// scratch is the storage of one change of a [Graph], reused by the next.
type scratch struct {
	added    []int32    // the neighbours that linkAll or Remove found
	listEnds []uintptr  // addresses at which their adjacency lists go on
	newSelf  []float32  // the self term that Replace compares with the old one
	halves   [][2]int32 // in Unlink: the edges to remove, from each of their ends
	removed  [][2]int32 // in Unlink: the edges that were there
}

// node is what the graph keeps of a node besides its row: 32 bytes, so that two
// share a cache line.
type node struct {
	adj  kernel.List // the adjacency list
	mark uint32      // see Graph.epoch
	slot int32       // in Embed, if the node is marked: its place in embedder.order
	// stale: the aggregate may differ from that of the current neighbours and
	// self terms. It is set by markStale (in Replace, Remove, Unlink, EmbedWithout, and in
	// State for a node that was saved stale) and cleared where the aggregate is
	// recomputed (freshRow, clearNode, savedAggregates.restore). No message is
	// added to a stale aggregate.
	stale bool
	_     [4]byte
}

// Option configures a [Graph].
type Option func(*Graph)

// Workers sets how many goroutines share the work of a window of arrivals,
// products and embeddings; at least 1, the default. It does not change a bit of
// any result.
func Workers(n int) Option {
	return func(g *Graph) { g.work = make([]workspace, max(n, 1)) }
}

// BFloat16 keeps self terms as bfloat16, for graphs that would not fit in memory
// otherwise: a node of [SAGE] takes two thirds of the memory, and more time.
// Rounding to the nearest has a relative error of at most 2⁻⁹, so embeddings are
// off by some thousandths of their size, see BenchmarkBFloat16. Equal calls give
// equal bits here too.
func BFloat16() Option {
	return func(g *Graph) { g.rows.useBFloat16() }
}

// Reserve preallocates memory for a number of nodes when the graph is made. It
// does not preallocate memory for their edges.
func Reserve(nodes int) Option {
	return func(g *Graph) { g.reserve = nodes }
}

// NewGraph returns an empty graph.
func NewGraph(encoder Encoder, options ...Option) *Graph {
	g := &Graph{nodes: kernel.NewTable[node](1), work: make([]workspace, 1)}
	if s, ok := encoder.(*SAGEKinds); ok && s.single != nil {
		g.apart, encoder = s, s.single
	}
	g.use(encoder)
	for _, option := range options {
		option(g)
	}
	g.nodes.Reserve(g.reserve)
	g.rows.reserve(g.reserve)
	g.helpers.awake = make([]atomic.Bool, len(g.work))
	return g
}

// use has a graph without rows encode with e.
func (g *Graph) use(e Encoder) {
	self, aggregate := e.rowLayout()
	g.enc, g.selfLen, g.rowLen = e, self, self+aggregate
	g.rows, g.projector, g.kinds = newRowTable(self, aggregate), e.projection(), newKindMeans(e)
	g.scratch.newSelf, g.hubs = make([]float32, self), make(map[int32]*hub)
}

// Len is the number of nodes, removed ones included.
func (g *Graph) Len() int { return g.nodes.Len() }

// Edges is the number of edges.
func (g *Graph) Edges() int { return g.edges }

// Degree is the number of v's neighbours.
func (g *Graph) Degree(v int32) int { return g.node(v).adj.Len() }

// Neighbours returns v's neighbours in the order in which the edges came. The
// slice is the graph's own: it may not be written to, and is valid until the
// graph next changes.
func (g *Graph) Neighbours(v int32) []int32 { return g.adj.View(g.node(v).adj) }

// Add adds a node without edges for each vector and returns the number of the
// first; the others follow. It does not keep the vectors. It panics when a
// vector does not fit the encoder or node numbers would exceed an int32.
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
	g.kinds.grow(len(x))
	if g.serial(len(x)) {
		g.addRows(&g.work[0], v, x)
	} else {
		g.parallel(len(x), chunkRows, func(w *workspace, from, to int) { g.addRows(w, v+int32(from), x[from:to]) })
	}
	return v
}

// Link adds the edge between u and v and reports whether it did: false if the
// edge is there already or u is v. It takes time proportional to the smaller
// degree.
func (g *Graph) Link(u, v int32) bool {
	few, many := u, v
	if g.node(few).adj.Len() > g.node(many).adj.Len() {
		few, many = many, few
	}
	if u == v || slices.Contains(g.Neighbours(few), many) {
		return false
	}
	g.exchange(u, v)
	g.settleAll(u, []int32{v})
	return true
}

// LinkAll calls [Graph.Link] for v and each of the neighbours in order, and
// returns how many edges it added. It takes time proportional to v's degree plus
// the number of neighbours.
func (g *Graph) LinkAll(v int32, neighbours []int32) (added int) {
	g.prefetch(neighbours)
	return len(g.linkAll(v, neighbours))
}

// Replace gives v new features. v and its neighbours become stale, so a hub is
// recomputed once, however many of its neighbours change between two embeddings.
// Features that give the same self term change nothing.
func (g *Graph) Replace(v int32, x Vector) {
	n := g.node(v)
	w := &g.work[0]
	self := g.rows.row(v, &w.row)[:g.selfLen]
	project(g.enc, g.scratch.newSelf, x)
	g.rows.round(g.scratch.newSelf, &w.half)
	if slices.Equal(self, g.scratch.newSelf) {
		return
	}
	g.keep(v)
	g.rows.putSelf(v, g.scratch.newSelf)
	g.kinds.forget(g.adj.View(n.adj))
	if !g.aggregates() {
		return
	}
	g.markStale(n) // GAT's aggregate depends on v's own self term
	for _, u := range g.adj.View(n.adj) {
		g.markStale(g.node(u))
	}
}

// node returns v's node. It panics when there is none.
func (g *Graph) node(v int32) *node {
	if uint(v) >= uint(g.nodes.Len()) {
		panic(fmt.Sprintf("gnn: node %d of a graph of %d", v, g.nodes.Len()))
	}
	return g.nodes.At(v)
}

// aggregates reports whether rows have an aggregate; those of [GCN] have none.
func (g *Graph) aggregates() bool { return g.rowLen > g.selfLen }

// freshRow returns v's row, first recomputing its aggregate if it is stale. With
// bfloat16 it is a copy in the caller's workspace, until that is next used.
func (g *Graph) freshRow(v int32) []float32 {
	n := g.node(v)
	w := &g.work[0]
	row := g.rows.row(v, &w.row)
	if n.stale {
		g.keep(v)
		g.clearStale(n)
		delete(g.hubs, v)
		if n.adj.Len() > hubDegree {
			g.settle(v)
			return g.rows.row(v, &w.row)
		}
		g.enc.resetAggregate(row)
		for near := range slices.Chunk(g.adj.View(n.adj), prefetchedRows) {
			if g.rows.whole != nil {
				kernel.Prefetch(g.rows.whole, near, 0, g.rows.aggregateLen)
			}
			for _, u := range near {
				g.enc.addMessage(row, g.rows.row(u, &w.other))
			}
		}
		g.rows.putAggregate(v, row)
	}
	return row
}

// prefetchedRows is how many neighbours' rows are prefetched before their messages are
// added: the rows are far apart in memory, and those of a chunk fit into the first-level
// cache. A row begins with its message, which is not longer than the aggregate that it
// is added to.
const prefetchedRows = 32

func (g *Graph) markStale(n *node) {
	if !n.stale {
		n.stale = true
		g.staleCount++
	}
}

func (g *Graph) clearStale(n *node) {
	if n.stale {
		n.stale = false
		g.staleCount--
	}
}

// keepAll lets a snapshot copy the rows of v and the nodes before messages between
// them are added.
func (g *Graph) keepAll(v int32, nodes []int32) {
	if !g.frozen.lists.On() {
		return
	}
	g.keep(v)
	for _, u := range nodes {
		g.keep(u)
	}
}

// addRows sets the rows of nodes without edges, numbered from v on.
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

// linkAll is LinkAll of neighbours that were prefetched. It returns the new
// ones, valid until the next call.
func (g *Graph) linkAll(v int32, neighbours []int32) (added []int32) {
	added, stale := g.unlinked(v, neighbours)
	if (stale || g.rows.whole == nil) && g.aggregates() {
		for _, u := range added {
			g.exchange(v, u)
		}
		g.settleAll(v, added)
		return added
	}
	if g.aggregates() {
		g.keepAll(v, added)
		g.enc.exchangeMessages(g.rows.whole, v, added, 0, g.enc.messageColumns())
	}
	g.appendEdges(v, added)
	g.settleAll(v, added)
	return added
}

// exchange adds an edge that is not there, with the messages over it. A stale end
// gets no message: it will read the new neighbour when it is recomputed. The caller
// settles both ends.
func (g *Graph) exchange(u, v int32) {
	g.edges++
	a, b := g.node(u), g.node(v)
	g.adj.Append(&a.adj, v)
	g.adj.Append(&b.adj, u)
	if !g.aggregates() {
		return
	}
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

// unlinked returns those of the nodes that are neither v nor its neighbours,
// each once, valid until the next call, and whether any of them or v is stale.
func (g *Graph) unlinked(v int32, nodes []int32) (fresh []int32, stale bool) {
	n := g.node(v)
	g.clearMarks()
	g.mark(n)
	for _, u := range g.adj.View(n.adj) {
		g.mark(g.node(u))
	}
	g.scratch.added = g.scratch.added[:0]
	stale = n.stale
	for _, u := range nodes {
		if m := g.node(u); g.mark(m) {
			g.scratch.added = append(g.scratch.added, u)
			stale = stale || m.stale
		}
	}
	return g.scratch.added, stale
}

// appendEdges adds edges between v and the nodes, which must not be neighbours of
// v yet, to the adjacency lists. It exchanges no messages.
func (g *Graph) appendEdges(v int32, nodes []int32) {
	n := g.node(v)
	g.adj.Grow(&n.adj, len(nodes))
	for _, u := range nodes {
		g.adj.Append(&n.adj, u)
		g.adj.Append(&g.node(u).adj, v)
	}
	g.edges += len(nodes)
}

// prefetch loads the memory of the neighbours that linkAll reads into the cache.
func (g *Graph) prefetch(neighbours []int32) {
	kernel.Prefetch(g.nodes, neighbours, 0, 1)
	if g.aggregates() && g.rows.whole != nil {
		g.enc.prefetchMessages(g.rows.whole, neighbours, 0, g.enc.messageColumns())
	}
	g.prefetchListEnds(neighbours)
}

// prefetchAhead loads the memory of the next arrivals into the cache while one is
// linked, given the neighbours of each: rows and ends of lists of the first, nodes of
// the second, which say where its lists end. The first is embedded early if embed is set:
// then all of the rows are read.
func (g *Graph) prefetchAhead(near [][]int32, embed bool) {
	if len(near) > 1 {
		kernel.Prefetch(g.nodes, near[1], 0, 1)
	}
	if len(near) > 0 {
		g.prefetchListEnds(near[0])
		if embed {
			kernel.Prefetch(g.rows.whole, near[0], 0, g.rowLen)
		} else if g.aggregates() && g.rows.whole != nil {
			g.enc.prefetchMessages(g.rows.whole, near[0], 0, g.enc.messageColumns())
		}
	}
}

// prefetchListEnds brings the ends of the nodes' adjacency lists into the cache.
func (g *Graph) prefetchListEnds(nodes []int32) {
	g.scratch.listEnds = g.scratch.listEnds[:0]
	for _, u := range nodes {
		g.scratch.listEnds = g.adj.AppendEnd(g.scratch.listEnds, g.node(u).adj)
	}
	kernel.PrefetchLines(g.scratch.listEnds)
}

// clearMarks unmarks all nodes, in constant time but for one call in 2³².
func (g *Graph) clearMarks() {
	g.epoch++
	if g.epoch == 0 { // the counter wrapped: old marks would be valid again
		for v := range int32(g.Len()) {
			g.nodes.At(v).mark = 0
		}
		g.epoch = 1
	}
}

// mark marks n and reports whether it was not marked before.
func (g *Graph) mark(n *node) bool {
	if n.mark == g.epoch {
		return false
	}
	n.mark = g.epoch
	return true
}
