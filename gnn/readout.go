package gnn

import (
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
	edges := make([]uint64, 0, len(ends)/2) // the lower end, then the higher one
	for i := 0; i < len(ends); i += 2 {
		if u, v := ends[i], ends[i+1]; u != v {
			edges = append(edges, uint64(min(u, v))<<32|uint64(max(u, v)))
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	first := int32(len(g.X))
	g.Src, g.Dst = slices.Grow(g.Src, 2*len(edges)), slices.Grow(g.Dst, 2*len(edges))
	for _, e := range edges {
		u, v := first+int32(e>>32), first+int32(uint32(e))
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
	// Some graphs at a time, so that what is in between stays in the cache.
	const together = 256 // nodes
	width := r.Encoder.Out()
	z := make([]float32, g.Len()*2*width)
	room := rooms.Get().(*room)
	defer rooms.Put(room)
	for from := 0; from < g.Len(); {
		first, to := g.Start[from], from+1
		for to < g.Len() && g.Start[to+1]-first <= together {
			to++
		}
		nodes := g.X[first:g.Start[to]]
		room.x = kernel.Resize(room.x, len(nodes))
		for v := range nodes {
			room.x[v] = r.Normalizer.Apply(room.x[v], nodes[v])
		}
		room.src, room.dst = room.src[:0], room.dst[:0]
		for e := g.EdgeStart[from]; e < g.EdgeStart[to]; e++ {
			room.src, room.dst = append(room.src, g.Src[e]-first), append(room.dst, g.Dst[e]-first)
		}
		h := r.Encoder.Encode(room.x, room.src, room.dst)
		for i := from; i < to; i++ {
			r.read(z[2*i*width:][:2*width], h[int(g.Start[i]-first)*width:int(g.Start[i+1]-first)*width])
		}
		from = to
	}
	return z
}

// read sets z to the embedding of a graph of nodes with states h.
func (r *Readout) read(z, h []float32) {
	width := len(z) / 2
	mean, sum := z[:width], z[width:]
	n := float32(max(len(h)/width, 1))
	for ; len(h) > 0; h = h[width:] {
		kernel.Add(sum, h[:width])
	}
	for k, s := range sum {
		mean[k], sum[k] = s/n, s/r.Size
	}
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
