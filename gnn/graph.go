package gnn

import (
	"fmt"
	"math"
	"slices"
)

// Graph is a growing, simple, undirected graph that embeds its nodes with a
// frozen [SAGE] encoder. Nodes are numbered from 0 as they are added.
//
// By linearity of the first layer, Neigh · mean x_j = mean (Neigh · x_j). So
// the graph keeps per node both projections of its features and the running
// sum of its neighbours' projections: an edge adds one vector to either end,
// and a first-layer state is a few operations per unit, whatever the degree.
//
// A sum takes its terms in the order of the node's adjacency, which is the
// order in which its edges came. Hence the same calls give the same bits, and
// so does a sum that is made anew after features were replaced.
//
// A Graph may not be used by two goroutines at once, not even to read: Embed
// brings sums up to date.
type Graph struct {
	enc    *SAGE
	chunks []*chunk
	n      int
	edges  int
	adj    arena
	marks  marks
	embed  embedder
	row    []float32 // for Replace: the projections to come
}

// chunkNodes is the number of nodes whose numbers stand in one allocation.
// Growing never copies them, and the collector sees two pointers a chunk.
const chunkNodes = 1024

type chunk struct {
	nodes [chunkNodes]node
	// rows holds three vectors of the first layer's width a node:
	// Neigh·x, Self·x + Bias, and the sum of its neighbours' Neigh·x.
	// The last two, which make the state, lie side by side.
	rows []float32
}

// node is what the graph keeps of a node beside its row.
type node struct {
	adj   block
	stale bool // the sum is not that of the neighbours as they are
}

// NewGraph returns an empty graph.
func NewGraph(encoder Encoder) *Graph {
	enc := encoder.(*SAGE)
	return &Graph{enc: enc, row: make([]float32, 2*enc.width[1])}
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

// vectors returns v's projection for its neighbours, its own with the bias,
// and the sum over its neighbours.
func (g *Graph) vectors(v int32) (neigh, self, sum []float32) {
	h := g.enc.width[1]
	row := g.chunks[v/chunkNodes].rows[int(v%chunkNodes)*3*h:][:3*h]
	return row[:h], row[h : 2*h], row[2*h:]
}

// Add adds a node without edges for each vector and returns the number of the
// first; the others follow. It panics when a vector does not fit the encoder
// or the nodes are more than an int32 numbers. The vectors are not kept.
func (g *Graph) Add(x []Vector) (first int32) {
	if len(x) > math.MaxInt32-g.n {
		panic(fmt.Sprintf("gnn: %d nodes more than %d, want at most %d", len(x), g.n, math.MaxInt32))
	}
	first = int32(g.n)
	h := g.enc.width[1]
	for _, x := range x {
		if g.n == len(g.chunks)*chunkNodes {
			g.chunks = append(g.chunks, &chunk{rows: make([]float32, chunkNodes*3*h)})
		}
		v := int32(g.n)
		row := g.chunks[v/chunkNodes].rows[int(v%chunkNodes)*3*h:][:2*h]
		g.enc.project(row, x)
		add(row[h:], g.enc.layers[0].Bias)
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
	nu, _, su := g.vectors(u)
	nv, _, sv := g.vectors(v)
	a, b := g.node(u), g.node(v)
	g.adj.append(&a.adj, v)
	g.adj.append(&b.adj, u)
	// A stale sum will be made with the new neighbour in its turn.
	if !a.stale {
		add(su, nv)
	}
	if !b.stale {
		add(sv, nu)
	}
}

// Replace gives v new features. Its neighbours' sums are made anew when they
// are next needed, so a hub pays once for however many neighbours change
// between two embeddings; when the features come again as they were, nothing
// is made anew.
func (g *Graph) Replace(v int32, x Vector) {
	n := g.node(v)
	h := g.enc.width[1]
	g.enc.project(g.row, x)
	neigh, self, _ := g.vectors(v)
	copy(self, g.row[h:])
	add(self, g.enc.layers[0].Bias)
	if slices.Equal(neigh, g.row[:h]) {
		return
	}
	copy(neigh, g.row[:h])
	for _, u := range g.adj.view(n.adj) {
		g.node(u).stale = true
	}
}

// inputs returns what makes v's first-layer state, self + inverse·sum, with
// the sum up to date.
func (g *Graph) inputs(v int32) (self, sum []float32, inverse float32) {
	n := g.node(v)
	_, self, sum = g.vectors(v)
	if n.stale {
		clear(sum)
		for _, u := range g.adj.view(n.adj) {
			neigh, _, _ := g.vectors(u)
			add(sum, neigh)
		}
		n.stale = false
	}
	return self, sum, inverseDegree(int(n.adj.len))
}

// inverseDegree is the factor that makes a sum over neighbours their mean.
func inverseDegree(degree int) float32 {
	if degree == 0 {
		return 0
	}
	return 1 / float32(degree)
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
