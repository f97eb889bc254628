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

	// links and rows have one entry per node, Len() of each. A row's self term
	// is exact at all times. Its aggregate is exact unless the node is stale.
	links links
	rows  *rowTable

	kinds *kindMeans // nil unless edges are told apart
	apart *SAGEKinds // of a single mean: the encoder once they are, see TellApart

	hubs hubs // that got edges and have not been stale since

	workers workers
	reserve int // nodes to preallocate, see Reserve

	// Storage reused from call to call.
	embed   embedder
	window  window
	scratch scratch
}

// scratch is the storage of one change of a [Graph], reused by the next.
type scratch struct {
	added   []int32    // the neighbours that Remove found
	newSelf []float32  // the self term that Replace compares with the old one
	changed []int32    // in EmbedTrial: the nodes whose aggregates change
	halves  [][2]int32 // in Unlink: the edges to remove, from each of their ends
	removed [][2]int32 // in Unlink: the edges that were there
}

// Option configures a [Graph].
type Option func(*Graph)

// Workers sets how many goroutines share the work of a window of arrivals,
// products and embeddings; at least 1, the default. It does not change a bit of
// any result.
func Workers(n int) Option {
	return func(g *Graph) { g.workers.space = make([]workspace, max(n, 1)) }
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

// RowBytes is the memory of a node's row.
func RowBytes(e Encoder, bfloat16 bool) int {
	self, aggregate := e.rowLayout()
	if bfloat16 {
		return 2*self + 4*aggregate
	}
	return 4 * (self + aggregate)
}

// NewGraph returns an empty graph.
func NewGraph(encoder Encoder, options ...Option) *Graph {
	g := &Graph{links: links{nodes: kernel.NewTable[node](1)}, workers: workers{space: make([]workspace, 1)}}
	if s, ok := encoder.(*SAGEKinds); ok && s.single != nil {
		g.apart, encoder = s, s.single
	}
	g.use(encoder)
	for _, option := range options {
		option(g)
	}
	g.links.nodes.Reserve(g.reserve)
	g.rows.reserve(g.reserve)
	g.workers.awake = make([]atomic.Bool, len(g.workers.space))
	return g
}

// use has a graph without rows encode with e.
func (g *Graph) use(e Encoder) {
	self, aggregate := e.rowLayout()
	g.enc, g.selfLen, g.rowLen = e, self, self+aggregate
	g.rows, g.projector, g.kinds = newRowTable(self, aggregate), e.projection(), newKindMeans(e)
	g.scratch.newSelf, g.hubs = make([]float32, self), make(hubs)
}

// Len is the number of nodes, removed ones included.
func (g *Graph) Len() int { return g.links.nodes.Len() }

// Edges is the number of edges.
func (g *Graph) Edges() int { return g.links.edges }

// Degree is the number of v's neighbours.
func (g *Graph) Degree(v int32) int { return g.links.node(v).adj.Len() }

// Neighbours returns v's neighbours in the order in which the edges came. The
// slice is the graph's own: it may not be written to, and is valid until the
// graph next changes.
func (g *Graph) Neighbours(v int32) []int32 { return g.links.adj.View(g.links.node(v).adj) }

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
	g.links.nodes.Grow(len(x))
	g.rows.grow(len(x))
	g.kinds.grow(len(x))
	if g.workers.serial(len(x)) {
		g.rows.fill(g.enc, g.projector, &g.workers.space[0], v, x)
	} else {
		g.workers.parallel(len(x), chunkRows, func(w *workspace, from, to int) {
			g.rows.fill(g.enc, g.projector, w, v+int32(from), x[from:to])
		})
	}
	return v
}

// Link adds the edge between u and v and reports whether it did: false if the
// edge is there already or u is v. It takes time proportional to the smaller
// degree.
func (g *Graph) Link(u, v int32) bool {
	few, many := u, v
	if g.links.node(few).adj.Len() > g.links.node(many).adj.Len() {
		few, many = many, few
	}
	if u == v || slices.Contains(g.Neighbours(few), many) {
		return false
	}
	g.exchange(u, v)
	g.hubs.settleAll(g, u, []int32{v})
	return true
}

// LinkAll calls [Graph.Link] for v and each of the neighbours in order, and
// returns how many edges it added. It takes time proportional to v's degree plus
// the number of neighbours.
func (g *Graph) LinkAll(v int32, neighbours []int32) (added int) {
	kernel.Prefetch(g.links.nodes, neighbours, 0, 1)
	if g.rows.aggregates() && g.rows.whole != nil {
		g.enc.prefetchMessages(g.rows.whole, neighbours, 0, g.enc.messageColumns())
	}
	g.links.prefetchEnds(neighbours)
	return len(g.linkAll(v, neighbours))
}

// Replace gives v new features. v and its neighbours become stale, so a hub is
// recomputed once, however many of its neighbours change between two embeddings.
// Features that give the same self term change nothing.
func (g *Graph) Replace(v int32, x Vector) {
	n := g.links.node(v)
	w := &g.workers.space[0]
	self := g.rows.row(v, &w.row)[:g.selfLen]
	project(g.enc, g.scratch.newSelf, x)
	g.rows.round(g.scratch.newSelf, &w.half)
	if slices.Equal(self, g.scratch.newSelf) {
		return
	}
	g.keep(v)
	g.rows.putSelf(v, g.scratch.newSelf)
	g.kinds.forget(g.links.adj.View(n.adj))
	if !g.rows.aggregates() {
		return
	}
	g.links.markStale(n) // GAT's aggregate depends on v's own self term
	for _, u := range g.links.adj.View(n.adj) {
		g.links.markStale(g.links.node(u))
	}
}

// freshRow returns v's row, first recomputing its aggregate if it is stale. With
// bfloat16 it is a copy in the caller's workspace, until that is next used.
func (g *Graph) freshRow(v int32) []float32 {
	n := g.links.node(v)
	w := &g.workers.space[0]
	row := g.rows.row(v, &w.row)
	if n.stale {
		g.keep(v)
		g.links.clearStale(n)
		delete(g.hubs, v)
		if n.adj.Len() > hubDegree {
			g.hubs.settle(g, v)
			return g.rows.row(v, &w.row)
		}
		g.enc.resetAggregate(row)
		g.rows.each(g.links.adj.View(n.adj), &w.other, func(message []float32) { g.enc.addMessage(row, message) })
		g.rows.putAggregate(v, row)
	}
	return row
}

// prefetchedRows is how many neighbours' rows are prefetched before their messages are
// added: the rows are far apart in memory, and those of a chunk fit into the first-level
// cache. A row begins with its message, which is not longer than the aggregate that it
// is added to.
const prefetchedRows = 32

// keepAll lets a snapshot copy the rows of v and the nodes before messages between
// them are added.
func (g *Graph) keepAll(v int32, nodes []int32) {
	if !g.links.frozen.lists.On() {
		return
	}
	g.keep(v)
	for _, u := range nodes {
		g.keep(u)
	}
}

// linkAll is LinkAll of neighbours that were prefetched. It returns the new
// ones, valid until the next call.
func (g *Graph) linkAll(v int32, neighbours []int32) (added []int32) {
	added, stale := g.links.unlinked(v, neighbours)
	if (stale || g.rows.whole == nil) && g.rows.aggregates() {
		for _, u := range added {
			g.exchange(v, u)
		}
		g.hubs.settleAll(g, v, added)
		return added
	}
	if g.rows.aggregates() {
		g.keepAll(v, added)
		g.enc.exchangeMessages(g.rows.whole, v, added, 0, g.enc.messageColumns())
	}
	g.links.appendEdges(v, added)
	g.hubs.settleAll(g, v, added)
	return added
}

// exchange adds an edge that is not there, with the messages over it. A stale end
// gets no message: it will read the new neighbour when it is recomputed. The caller
// settles both ends.
func (g *Graph) exchange(u, v int32) {
	g.links.edges++
	a, b := g.links.node(u), g.links.node(v)
	g.links.adj.Append(&a.adj, v)
	g.links.adj.Append(&b.adj, u)
	if !g.rows.aggregates() {
		return
	}
	w := &g.workers.space[0]
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
