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
// where d_i is the number of terms in i's sum. Out is len(Bias).
type GCNLayer struct {
	Weight []float32 // Out×In, row-major; PyTorch Geometric's lin.weight
	Bias   []float32 // Out; bias
}

// GCN is a frozen graph convolutional network, with an activation after each
// layer but the last. It is immutable and safe for concurrent use.
type GCN struct {
	shape
	layers []GCNLayer
	maps   []linear // by layer: Weight and Bias
}

// NewGCN returns an encoder of features of dimension in with the given layers, at
// least one, first to last, and the activation between them. It copies the
// weights. It returns an error when shapes do not fit, a weight is not finite, or
// the activation is unknown.
func NewGCN(in int, activation Activation, layers ...GCNLayer) (*GCN, error) {
	c, err := newGCN(in, activation, layers)
	if err != nil {
		return nil, fmt.Errorf("gcn: %w", err)
	}
	return c, nil
}

func newGCN(in int, activation Activation, layers []GCNLayer) (*GCN, error) {
	shape, err := newShape(in, activation, len(layers))
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
		c.maps = append(c.maps, newLinear(layer.Weight, layer.Bias))
	}
	return c, nil
}

// Kind is gcn.
func (c *GCN) Kind() Kind { return KindGCN }

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
	n := len(x)
	checkEdges(n, src, dst)
	degree := make([]int, n)
	for e, i := range dst {
		if src[e] != i {
			degree[i]++
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
				kernel.Product(projected.at(i), h.at(i), c.maps[l].weight)
			}
		}
		h = newRows(n, c.width[l+1])
		for e, i := range dst {
			if j := src[e]; j != i {
				kernel.Axpy(h.at(i), norm[i]*norm[j], projected.at(j))
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

// inverseRoot is 1/√d of a node with that many neighbours other than itself.
func inverseRoot(neighbours int) float32 {
	return float32(1 / math.Sqrt(float64(neighbours+1)))
}

// A row is Weight·x, the self term alone. An edge changes d at both ends, and
// with it a factor of every term in the sums of all their neighbours: no sum could
// be maintained in constant time, so they are computed on demand.
func (c *GCN) rowLayout() (self, aggregate int) { return c.width[1], 0 }

func (c *GCN) projection() projection {
	return projection{weight: c.maps[0].weight, in: c.In(), out: c.width[1]}
}

func (c *GCN) finishSelf([]float32) {}

func (c *GCN) resetAggregate([]float32) {}

func (c *GCN) addMessage(_, _ []float32) {}

func (c *GCN) addToHub([]float64, []float32, []float32) {}

func (c *GCN) messageColumns() int { return 0 }

func (c *GCN) prefetchMessages(*kernel.Table[float32], []int32, int, int) {}

func (c *GCN) exchangeMessages(*kernel.Table[float32], int32, []int32, int, int) {}

func (c *GCN) baseLayer() int { return 0 }

func (c *GCN) baseInput(dst []float32, g *Graph, v int32, w *workspace) {
	norm, near := inverseRoot(g.Degree(v)), g.Neighbours(v)
	w.sum(dst, len(near), func(dst []float32, from, to int) {
		if from == 0 {
			copy(dst, c.layers[0].Bias)
			kernel.Axpy(dst, norm*norm, g.rows.row(v, &w.row))
		}
		for _, u := range near[from:to] {
			kernel.Axpy(dst, norm*inverseRoot(g.Degree(u)), g.rows.row(u, &w.row))
		}
	})
}

// precompute stores 1/√d of each state's node.
func (c *GCN) precompute(_ int, s *states) {
	s.cached = kernel.Resize(s.cached, len(s.degree))
	for i, d := range s.degree {
		s.cached[i] = inverseRoot(int(d))
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

func (c *GCN) linearMaps(l int) []linear {
	if l == 0 {
		return nil
	}
	return c.maps[l : l+1]
}

func loadGCN(d *stateDict, activation Activation) (Encoder, error) {
	in := 0
	var layers []GCNLayer
	err := d.layers(func(prefix string) {
		w, shape := d.tensor(prefix+"lin.weight", 2)
		b, out := d.tensor(prefix+"bias", 1)
		d.want(prefix+"lin.weight", shape, out[0], shape[1])
		if len(layers) == 0 {
			in = shape[1]
		}
		layers = append(layers, GCNLayer{w, b})
	})
	if err != nil {
		return nil, err
	}
	return newGCN(in, activation, layers)
}
