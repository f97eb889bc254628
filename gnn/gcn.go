package gnn

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
)

// GCNLayer holds the weights of one graph convolution (Kipf, Welling:
// Semi-Supervised Classification with Graph Convolutional Networks, 2017), which
// maps the states h to
//
//	h'_i = Σ_{j ∈ N(i) ∪ {i}} Weight · h_j / √(d_i d_j) + Bias
//
// where d_i is the number of terms in i's sum. With weights on edges, see [GCN.Weighed], j's term
// is multiplied by w_ij, and d_i is 1 + Σ_{j ∈ N(i)} w_ij. Out is len(Bias).
type GCNLayer struct {
	Weight []float32 // Out×In, row-major; PyTorch Geometric's lin.weight
	Bias   []float32 // Out; bias
}

// GCN is a frozen graph convolutional network, with an activation after each
// layer but the last. It is immutable and safe for concurrent use.
type GCN struct {
	shape
	layers []GCNLayer
	weighs bool // see Weighed
}

// NewGCN returns an encoder of features of dimension in with the given layers, at
// least one, first to last, and the activation between them. It copies the
// weights. It returns an error when shapes do not fit, a weight is not finite, or
// the activation is unknown.
func NewGCN(in int, activation Activation, layers ...GCNLayer) (*GCN, error) {
	return named("gcn", newGCN, in, activation, layers)
}

func newGCN(in int, activation Activation, layers []GCNLayer) (*GCN, error) {
	shape, err := newShape(KindGCN, in, activation, len(layers))
	if err != nil {
		return nil, err
	}
	c := &GCN{shape: shape}
	for l, layer := range layers {
		out := len(layer.Bias)
		if out == 0 {
			return nil, fmt.Errorf("layer %d has no outputs", l)
		}
		if err := inLayer(l,
			checkWeights("linear", layer.Weight, out, c.width[l]),
			checkWeights("bias", layer.Bias, out, 1),
		); err != nil {
			return nil, err
		}
		layer = GCNLayer{slices.Clone(layer.Weight), slices.Clone(layer.Bias)}
		c.layers = append(c.layers, layer)
		c.width = append(c.width, out)
		if m := newLinear(layer.Weight, layer.Bias); l == 0 {
			c.first = projection{weight: m.weight, in: in, out: out}
			// A row is Weight·x, the self term alone. An edge changes d at both ends, and with it a factor of
			// every term in the sums of all their neighbours: no sum could be maintained in constant time, so
			// they are computed on demand.
			c.self = out
		} else {
			c.maps[l] = []linear{m}
		}
	}
	return c, nil
}

// Weighed returns the encoder with the same layers for edges with weights, which are positive:
// PyTorch Geometric's edge_weight.
func (c *GCN) Weighed() *GCN {
	w := *c
	w.weighs = true
	return &w
}

// Means is 1 if edges have weights, else 0.
func (c *GCN) Means() int {
	if c.weighs {
		return 1
	}
	return 0
}

// Tensors returns the weights under the names that PyTorch Geometric gives them
// in a state dict: convs.N.lin.weight and convs.N.bias.
func (c *GCN) Tensors() map[string]safetensors.Tensor {
	tensors := make(map[string]safetensors.Tensor, 2*len(c.layers))
	for l, layer := range c.layers {
		prefix := fmt.Sprintf("convs.%d.", l)
		tensors[prefix+"lin.weight"] = safetensors.Of(layer.Weight, c.width[l+1], c.width[l])
		tensors[prefix+"bias"] = safetensors.Of(layer.Bias, c.width[l+1])
	}
	return tensors
}

// Encode returns the embeddings of all nodes of a graph, see [Encoder]. N(i) is
// the multiset of the sources of the edges into i, without i: i itself is one term
// in any case, so loops count for nothing.
func (c *GCN) Encode(x []Vector, src, dst []int32) []float32 {
	return c.EncodeKinds(x, src, dst, nil, nil)
}

// EncodeKinds is Encode of edges with weights, nil for 1. There are no kinds: mean is ignored.
func (c *GCN) EncodeKinds(x []Vector, src, dst []int32, _ []uint8, weight []float32) []float32 {
	n := len(x)
	checkEdges(n, src, dst)
	of := func(e int) float32 {
		if weight == nil {
			return 1
		}
		return weight[e]
	}
	degree := make([]float64, n)
	for e, i := range dst {
		if src[e] != i {
			degree[i] += float64(of(e))
		}
	}
	norm := make([]float32, n)
	for i := range norm {
		norm[i] = inverseRoot(degree[i])
	}

	var h rows
	for l, layer := range c.layers {
		projected := newRows(n, c.width[l+1])
		for i := range int32(n) {
			if l == 0 {
				project(c, projected.at(i), x[i])
			} else {
				kernel.Product(projected.at(i), h.at(i), c.maps[l][0].weight)
			}
		}
		h = newRows(n, c.width[l+1])
		for e, i := range dst {
			if j := src[e]; j != i {
				kernel.Axpy(h.at(i), norm[i]*norm[j]*of(e), projected.at(j))
			}
		}
		for i := range int32(n) {
			kernel.Axpy(h.at(i), norm[i]*norm[i], projected.at(i))
			kernel.Add(h.at(i), layer.Bias)
		}
		if l+1 < len(c.layers) {
			c.activation.apply(h.x)
		}
	}
	return h.x
}

// inverseRoot is 1/√d of a node whose edges to others have these weights in all.
func inverseRoot(weights float64) float32 { return float32(1 / math.Sqrt(weights+1)) }

func (c *GCN) baseInput(dst []float32, g *Graph, v int32, w *workspace) {
	if c.weighs {
		c.weighedInput(dst, g, v, w)
		return
	}
	norm, near := inverseRoot(float64(g.Degree(v))), g.Neighbours(v)
	w.sum(dst, len(near), func(dst []float32, from, to int) {
		if from == 0 {
			copy(dst, c.layers[0].Bias)
			kernel.Axpy(dst, norm*norm, g.rows.row(v, &w.row))
		}
		for _, u := range near[from:to] {
			kernel.Axpy(dst, norm*inverseRoot(float64(g.Degree(u))), g.rows.row(u, &w.row))
		}
	})
}

// weighedInput is baseInput of edges with weights.
func (c *GCN) weighedInput(dst []float32, g *Graph, v int32, w *workspace) {
	norm, near := g.kinds.inverseRoot(v), g.kinds.near(v)
	w.sum(dst, len(near), func(dst []float32, from, to int) {
		if from == 0 {
			copy(dst, c.layers[0].Bias)
			kernel.Axpy(dst, norm*norm, g.rows.row(v, &w.row))
		}
		for _, x := range near[from:to] {
			kernel.Axpy(dst, norm*g.kinds.inverseRoot(x.node())*x.weight, g.rows.row(x.node(), &w.row))
		}
	})
}

// precompute stores 1/√d of each state's node, unless edges have weights.
func (c *GCN) precompute(_ int, s *states) {
	if c.weighs {
		return
	}
	s.cached = kernel.Resize(s.cached, len(s.degree))
	for i, d := range s.degree {
		s.cached[i] = inverseRoot(float64(d))
	}
}

func (c *GCN) gather(_ int, dst []float32, s *states, at []int32, w *workspace) {
	w.share = kernel.Resize(w.share, len(at))
	norm := s.cached[at[0]]
	for t, j := range at {
		w.share[t] = norm * s.cached[j]
	}
	w.gatherShares(dst, s, at)
}

func (c *GCN) gatherKinds(dst []float32, g *Graph, v int32, w *workspace) {
	norm, slot := g.kinds.inverseRoot(v), func(u int32) int32 { return g.links.nodes.At(u).slot }
	w.at, w.share = append(w.at[:0], slot(v)), append(w.share[:0], norm*norm)
	for _, x := range g.kinds.near(v) {
		w.at, w.share = append(w.at, slot(x.node())), append(w.share, norm*g.kinds.inverseRoot(x.node())*x.weight)
	}
	w.gatherShares(dst, &g.embed.below, w.at)
}

func loadGCN(d *stateDict, activation Activation) (Encoder, error) {
	return loadLayers(d, activation, newGCN, func(prefix string) (GCNLayer, int) {
		w, shape := d.tensor(prefix+"lin.weight", 2)
		b, out := d.tensor(prefix+"bias", 1)
		d.want(prefix+"lin.weight", shape, out[0], shape[1])
		return GCNLayer{w, b}, shape[1]
	})
}
