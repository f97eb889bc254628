package gnn

import (
	"fmt"
	"math"
	"slices"
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
	enc    Encoder
	own    int // length of a row's part made of the node's features alone
	rowLen int // length of a row
	chunks []*chunk
	n      int
	edges  int
	adj    arena
	marks  marks
	embed  embedder
	fresh  []float32 // for Replace: the own part to come
}

// chunkNodes is the number of nodes whose numbers stand in one allocation.
// Growing never copies them, and the collector sees two pointers a chunk.
const chunkNodes = 1024

type chunk struct {
	nodes [chunkNodes]node
	rows  []float32 // rowLen numbers a node, see incremental
}

// node is what the graph keeps of a node beside its row.
type node struct {
	adj   block
	stale bool // what was heard is not of the neighbours, or the node itself, as they are
}

// NewGraph returns an empty graph.
func NewGraph(encoder Encoder) *Graph {
	own, heard := encoder.keeps()
	return &Graph{enc: encoder, own: own, rowLen: own + heard, fresh: make([]float32, own)}
}

// Len is the number of nodes.
func (g *Graph) Len() int { return g.n }

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
	if uint(v) >= uint(g.n) {
		panic(fmt.Sprintf("gnn: node %d of a graph of %d", v, g.n))
	}
	return &g.chunks[v/chunkNodes].nodes[v%chunkNodes]
}

// row returns what is kept of v. Of its parts, own is as it should be, and
// heard unless the node is stale.
func (g *Graph) row(v int32) []float32 {
	return g.chunks[v/chunkNodes].rows[int(v%chunkNodes)*g.rowLen:][:g.rowLen:g.rowLen]
}

// hears reports whether anything of the neighbours is kept.
func (g *Graph) hears() bool { return g.rowLen > g.own }

// heard returns v's row with all of it as it should be.
func (g *Graph) heard(v int32) []float32 {
	n := g.node(v)
	row := g.row(v)
	if n.stale {
		g.enc.start(row)
		for _, u := range g.adj.view(n.adj) {
			g.enc.hear(row, g.row(u))
		}
		n.stale = false
	}
	return row
}

// Add adds a node without edges for each vector and returns the number of the
// first; the others follow. It panics when a vector does not fit the encoder
// or the nodes are more than an int32 numbers. The vectors are not kept.
func (g *Graph) Add(x []Vector) (first int32) {
	if len(x) > math.MaxInt32-g.n {
		panic(fmt.Sprintf("gnn: %d nodes more than %d, want at most %d", len(x), g.n, math.MaxInt32))
	}
	first = int32(g.n)
	for _, x := range x {
		if g.n == len(g.chunks)*chunkNodes {
			g.chunks = append(g.chunks, &chunk{rows: make([]float32, chunkNodes*g.rowLen)})
		}
		row := g.row(int32(g.n))
		g.enc.project(row[:g.own], x)
		if g.hears() {
			g.enc.start(row)
		}
		g.n++
	}
	return first
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
	g.node(v)
	g.marks.reset(g.n)
	g.marks.add(v)
	for _, u := range g.Neighbours(v) {
		g.marks.add(u)
	}
	for _, u := range neighbours {
		g.node(u)
		if g.marks.add(u) {
			g.link(v, u)
			added++
		}
	}
	return added
}

func (g *Graph) link(u, v int32) {
	g.edges++
	a, b := g.node(u), g.node(v)
	g.adj.append(&a.adj, v)
	g.adj.append(&b.adj, u)
	if !g.hears() {
		return
	}
	// A stale node will hear the new neighbour in its turn.
	ru, rv := g.row(u), g.row(v)
	if !a.stale {
		g.enc.hear(ru, rv)
	}
	if !b.stale {
		g.enc.hear(rv, ru)
	}
}

// Replace gives v new features. What v and its neighbours have heard is made
// anew when it is next needed, so a hub pays once for however many neighbours
// change between two embeddings; when the features come again as they were,
// nothing is made anew.
func (g *Graph) Replace(v int32, x Vector) {
	n := g.node(v)
	own := g.row(v)[:g.own]
	g.enc.project(g.fresh, x)
	if slices.Equal(own, g.fresh) {
		return
	}
	copy(own, g.fresh)
	if !g.hears() {
		return
	}
	n.stale = true
	for _, u := range g.adj.view(n.adj) {
		g.node(u).stale = true
	}
}

// marks is a set of nodes that is emptied in constant time.
type marks struct {
	epoch uint32
	of    []uint32 // a node is in the set when its entry is epoch
}

// reset empties the set and makes room for the nodes below n.
func (m *marks) reset(n int) {
	if len(m.of) < n {
		m.of = append(m.of, make([]uint32, n-len(m.of))...)
	}
	m.epoch++
	if m.epoch == 0 { // the counter came round: old entries would match
		clear(m.of)
		m.epoch = 1
	}
}

// add reports whether v was not in the set.
func (m *marks) add(v int32) bool {
	if m.of[v] == m.epoch {
		return false
	}
	m.of[v] = m.epoch
	return true
}
