package gnn

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
)

// SAGELayer holds the weights of one GraphSAGE layer with mean aggregation
// (Hamilton, Ying, Leskovec: Inductive Representation Learning on Large Graphs,
// 2017), which maps the states h to
//
//	h'_i = Neigh · mean_{j ∈ N(i)} h_j + Bias + Self · h_i
//
// where the mean over no neighbours is zero. Out is len(Bias).
type SAGELayer struct {
	Neigh []float32 // Out×In, row-major; PyTorch Geometric's lin_l.weight
	Bias  []float32 // Out; lin_l.bias
	Self  []float32 // Out×In, row-major; lin_r.weight. Nil is zero (root_weight=False)
}

// SAGE is a frozen GraphSAGE encoder: layers of mean aggregation with an
// activation after each but the last. It is immutable and safe for concurrent
// use.
type SAGE struct {
	shape
	layers []SAGELayer
}

// NewSAGE returns an encoder of features of dimension in with the given layers,
// at least one, first to last, and the activation between them. It copies the
// weights. It returns an error when shapes do not fit, a weight is not finite, or
// the activation is unknown.
func NewSAGE(in int, activation Activation, layers ...SAGELayer) (*SAGE, error) {
	return named("graphsage", newSAGE, in, activation, layers)
}

func newSAGE(in int, activation Activation, layers []SAGELayer) (*SAGE, error) {
	shape, err := newShape(KindSAGE, in, activation, len(layers))
	if err != nil {
		return nil, err
	}
	s := &SAGE{shape: shape}
	for l, layer := range layers {
		in, out := s.width[l], len(layer.Bias)
		if out == 0 {
			return nil, fmt.Errorf("layer %d has no outputs", l)
		}
		if layer.Self == nil {
			layer.Self = make([]float32, len(layer.Neigh))
		}
		if err := inLayer(l,
			checkWeights("neighbour", layer.Neigh, out, in),
			checkWeights("self", layer.Self, out, in),
			checkWeights("bias", layer.Bias, out, 1),
		); err != nil {
			return nil, err
		}
		layer = SAGELayer{slices.Clone(layer.Neigh), slices.Clone(layer.Bias), slices.Clone(layer.Self)}
		s.layers = append(s.layers, layer)
		s.width = append(s.width, out)
		if l == 0 {
			// The first layer projects features before it aggregates them: then the sums can be maintained, and
			// sparse features are cheap.
			s.first = projection{weight: transpose(slices.Concat(layer.Neigh, layer.Self), 2*out, in), in: in, out: 2 * out}
			continue
		}
		// These layers aggregate first, then project [mean of the neighbours' states | own state].
		s.maps[l] = []linear{{
			groups: 1, in: 2 * in, out: out, bias: layer.Bias,
			weight: slices.Concat(transpose(layer.Neigh, out, in), transpose(layer.Self, out, in)),
		}}
	}
	// A row is
	//
	//	Neigh·x              what neighbours receive    ┐ self term
	//	Self·x + Bias        what the node itself adds  ┘
	//	Σ_{j ∈ N} Neigh·x_j  the aggregate
	//
	// each of the first layer's width. As Neigh is linear, Neigh · mean x_j = mean
	// (Neigh · x_j): an edge adds one vector at either end, and a first-layer state is
	// a multiply-add per unit, whatever the degree.
	s.self, s.aggregate = 2*s.width[1], s.width[1]
	// With two layers or more and ReLU, recomputing a neighbour's first-layer state, one
	// multiply-add and a maximum per unit of its row, is as fast as loading it from where
	// it was stored.
	if len(layers) > 1 && s.activation == ReLU {
		s.base = 1
	}
	return s, nil
}

// Layers returns the weights, first layer to last. They must not be modified.
func (s *SAGE) Layers() []SAGELayer { return slices.Clone(s.layers) }

// Tensors returns the weights under the names that PyTorch Geometric gives them
// in a state dict: convs.N.lin_l.weight, convs.N.lin_l.bias and
// convs.N.lin_r.weight. [Load] also takes layers without lin_r
// (root_weight=False).
func (s *SAGE) Tensors() map[string]safetensors.Tensor {
	tensors := make(map[string]safetensors.Tensor, 3*len(s.layers))
	for l, layer := range s.layers {
		in, out := s.width[l], s.width[l+1]
		prefix := fmt.Sprintf("convs.%d.", l)
		tensors[prefix+"lin_l.weight"] = safetensors.Of(layer.Neigh, out, in)
		tensors[prefix+"lin_l.bias"] = safetensors.Of(layer.Bias, out)
		tensors[prefix+"lin_r.weight"] = safetensors.Of(layer.Self, out, in)
	}
	return tensors
}

// Encode returns the embeddings of all nodes of a graph, see [Encoder]. N(i) is
// the multiset of the sources of the edges into i; a loop makes i a neighbour of
// itself.
func (s *SAGE) Encode(x []Vector, src, dst []int32) []float32 {
	n := len(x)
	checkEdges(n, src, dst)
	inverse := make([]float32, n)
	for _, i := range dst {
		inverse[i]++
	}
	for i, degree := range inverse {
		inverse[i] = inverseDegree(int(degree))
	}

	out := s.width[1]
	projected := newRows(n, 2*out)
	h := newRows(n, out)
	for i := range x {
		project(s, projected.at(int32(i)), x[i])
	}
	for e, i := range dst {
		kernel.Add(h.at(i), projected.at(src[e])[:out])
	}
	for i := range int32(n) {
		kernel.Combine(h.at(i), projected.at(i)[out:], h.at(i), inverse[i])
	}

	for l := 1; l < len(s.layers); l++ {
		s.activation.apply(h.x)
		in := s.width[l]
		both := newRows(n, 2*in) // per node: mean of its neighbours' states, its own
		for e, i := range dst {
			kernel.Add(both.at(i)[:in], h.at(src[e]))
		}
		for i := range int32(n) {
			kernel.Scale(both.at(i)[:in], inverse[i])
			copy(both.at(i)[in:], h.at(i))
		}
		h = newRows(n, s.width[l+1])
		s.maps[l][0].apply(h.x, both.x)
	}
	return h.x
}

// inverseDegree is 1/degree, the factor that makes a sum over neighbours their
// mean; 0 for degree 0.
func inverseDegree(degree int) float32 {
	if degree == 0 {
		return 0
	}
	return 1 / float32(degree)
}

func (s *SAGE) finishSelf(self []float32) { kernel.Add(self[s.width[1]:], s.layers[0].Bias) }

func (s *SAGE) baseInput(dst []float32, g *Graph, v int32, w *workspace) {
	if s.base == 0 {
		s.firstState(dst, g, v, w)
		return
	}
	out := s.width[1]
	mean, self := dst[:out], dst[out:]
	near := g.Neighbours(v)
	w.sumRectified(g, mean, near, out, 2*out)
	kernel.Scale(mean, inverseDegree(len(near)))
	s.firstState(self, g, v, w)
	kernel.Rectify(self, self)
}

// firstState sets dst to v's output of the first layer, before the activation.
func (s *SAGE) firstState(dst []float32, g *Graph, v int32, w *workspace) {
	out := s.width[1]
	row := g.rows.row(v, &w.row)
	kernel.Combine(dst, row[out:2*out], row[2*out:], inverseDegree(g.Degree(v)))
}

func (s *SAGE) gather(_ int, dst []float32, st *states, at []int32, w *workspace) {
	mean, self := dst[:st.width], dst[st.width:]
	w.gatherSum(mean, st, at[1:])
	kernel.Scale(mean, inverseDegree(len(at)-1))
	copy(self, st.h[int(at[0])*st.width:])
}

func loadSAGE(d *stateDict, activation Activation) (Encoder, error) {
	return loadLayers(d, activation, newSAGE, func(prefix string) (SAGELayer, int) {
		l, in := d.linear(prefix + "lin_l.")
		layer := SAGELayer{Neigh: l.Weight, Bias: l.Bias}
		if name := prefix + "lin_r.weight"; d.has(name) {
			self, shape := d.tensor(name, 2)
			d.want(name, shape, len(l.Bias), in)
			layer.Self = self
		}
		return layer, in
	})
}
