package gnn

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// Graphs are small graphs, each with nodes and edges of its own, one after the other: graph g
// has the nodes Start[g] to Start[g+1] and the edges EdgeStart[g] to EdgeStart[g+1].
type Graphs struct {
	X         []Vector // features by node
	Dim       int      // of each
	Start     []int32  // one more than there are graphs, from 0
	Src, Dst  []int32  // nodes by edge; an undirected edge is given in both directions
	EdgeStart []int32
}

// Len is the number of graphs.
func (g *Graphs) Len() int { return len(g.Start) - 1 }

// NewGraphs returns no graphs yet, of nodes with dim features.
func NewGraphs(dim int) *Graphs { return &Graphs{Dim: dim, Start: []int32{0}, EdgeStart: []int32{0}} }

// Add adds a graph of nodes with features x. Its undirected edges are given by two ends each,
// places in x; repeated edges and loops do not count.
func (g *Graphs) Add(x []Vector, ends []uint32) {
	edges := make([][2]uint32, 0, len(ends)/2)
	for i := 0; i < len(ends); i += 2 {
		if u, v := ends[i], ends[i+1]; u != v {
			edges = append(edges, [2]uint32{min(u, v), max(u, v)})
		}
	}
	slices.SortFunc(edges, func(a, b [2]uint32) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	first := int32(len(g.X))
	for _, e := range slices.Compact(edges) {
		u, v := first+int32(e[0]), first+int32(e[1])
		g.Src, g.Dst = append(g.Src, u, v), append(g.Dst, v, u)
	}
	g.X = append(g.X, x...)
	g.Start, g.EdgeStart = append(g.Start, int32(len(g.X))), append(g.EdgeStart, int32(len(g.Src)))
}

// At returns the nodes of a graph, and its edges as Add takes them.
func (g *Graphs) At(i int32) (x []Vector, ends []uint32) {
	first := uint32(g.Start[i])
	for e := g.EdgeStart[i]; e < g.EdgeStart[i+1]; e += 2 {
		ends = append(ends, uint32(g.Src[e])-first, uint32(g.Dst[e])-first)
	}
	return g.X[g.Start[i]:g.Start[i+1]], ends
}

// Part returns some of the graphs, in the given order.
func (g *Graphs) Part(which []int32) *Graphs {
	p := NewGraphs(g.Dim)
	for _, i := range which {
		p.Add(g.At(i))
	}
	return p
}

// MeanSize is the mean number of nodes of the graphs.
func (g *Graphs) MeanSize() float32 { return float32(len(g.X)) / float32(max(g.Len(), 1)) }

// Readout embeds whole graphs by the states h_v that an encoder gives their nodes:
//
//	z_G = [Σ_v h_v / n | Σ_v h_v / Size]
//
// for a graph of n nodes: the mean, and the sum with which GIN tells graphs apart that the mean
// cannot (Xu et al.: How powerful are graph neural networks?, 2019), in the same scale. Both do
// not depend on the order of nodes, but for rounding.
type Readout struct {
	Encoder    Encoder
	Normalizer *Normalizer // of the features of nodes
	Size       float32     // the mean number of nodes of the graphs that trained
}

// Out is the dimension of z_G.
func (r *Readout) Out() int { return 2 * r.Encoder.Out() }

// Check returns an error unless r can embed graphs.
func (r *Readout) Check() error {
	if !(r.Size > 0) || math.IsInf(float64(r.Size), 0) {
		return fmt.Errorf("graphs of %v nodes on average", r.Size)
	}
	return r.Normalizer.Validate(r.Encoder.In())
}

// Encode returns the embeddings of all graphs, Len×Out row-major. It panics as [Encoder]'s Encode.
// A graph's embedding does not depend on the graphs beside it.
func (r *Readout) Encode(g *Graphs) []float32 {
	x := make([]Vector, len(g.X))
	for v := range x {
		x[v] = r.Normalizer.Apply(Vector{}, g.X[v])
	}
	h, width := r.Encoder.Encode(x, g.Src, g.Dst), r.Encoder.Out()
	z := make([]float32, g.Len()*2*width)
	for i := range g.Len() {
		mean, sum := z[2*i*width:][:width], z[(2*i+1)*width:][:width]
		for v := g.Start[i]; v < g.Start[i+1]; v++ {
			kernel.Add(sum, h[int(v)*width:][:width])
		}
		n := float32(max(g.Start[i+1]-g.Start[i], 1))
		for k, s := range sum {
			mean[k], sum[k] = s/n, s/r.Size
		}
	}
	return z
}

// NewIdentity returns the encoder that embeds a node without neighbours as its features: a
// graph's, which are its embedding already.
func NewIdentity(dim int) (Encoder, error) {
	self := make([]float32, dim*dim)
	for i := range dim {
		self[i*dim+i] = 1
	}
	return NewSAGE(dim, ReLU, SAGELayer{Neigh: make([]float32, dim*dim), Bias: make([]float32, dim), Self: self})
}
