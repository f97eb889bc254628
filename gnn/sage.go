package gnn

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// SAGELayer holds the weights of one GraphSAGE layer with mean aggregation
// (Hamilton, Ying, Leskovec: Inductive Representation Learning on Large
// Graphs, 2017), which maps the state h to
//
//	h'_i = Neigh · mean over j in N(i) of h_j + Bias + Self · h_i
//
// with the mean over no neighbours zero. Out is len(Bias).
type SAGELayer struct {
	Neigh []float32 // Out×In, row-major; PyTorch Geometric's lin_l.weight
	Bias  []float32 // Out; lin_l.bias
	Self  []float32 // Out×In, row-major; lin_r.weight. Nil means zero (root_weight=False)
}

// SAGE is a frozen GraphSAGE encoder: layers of mean aggregation with a ReLU
// after each but the last. It does not change and may be shared.
type SAGE struct {
	layers []SAGELayer
	width  []int // depth+1 of them: the features' dimension, then each layer's output

	// first is the first layer's [Neighᵀ | Selfᵀ], In×2·Out. Features are
	// projected before they are aggregated: that is where sums can be kept up,
	// and where sparse features pay.
	first []float32
	// stacked[l] is, for l >= 1, layer l's Neighᵀ above Selfᵀ, 2·In×Out:
	// states are aggregated, then projected.
	stacked [][]float32
}

// NewSAGE returns the encoder of features of dimension in with the given
// layers, at least one, from the first to the last. It copies the weights. It
// returns an error when shapes do not fit or a weight is not finite.
func NewSAGE(in int, layers ...SAGELayer) (*SAGE, error) {
	if in < 1 {
		return nil, fmt.Errorf("sage: input dimension %d, want at least 1", in)
	}
	if len(layers) == 0 {
		return nil, fmt.Errorf("sage: no layers, want at least 1")
	}
	s := &SAGE{width: []int{in}, stacked: make([][]float32, len(layers))}
	for l, layer := range layers {
		in, out := s.width[l], len(layer.Bias)
		if out == 0 {
			return nil, fmt.Errorf("sage: layer %d has no outputs", l)
		}
		if layer.Self == nil {
			layer.Self = make([]float32, len(layer.Neigh))
		}
		for _, part := range []struct {
			name string
			w    []float32
			want int
		}{{"neighbour", layer.Neigh, out * in}, {"self", layer.Self, out * in}, {"bias", layer.Bias, out}} {
			if len(part.w) != part.want {
				return nil, fmt.Errorf("sage: layer %d has %d %s weights, want %d (%d to %d)", l, len(part.w), part.name, part.want, in, out)
			}
			for i, w := range part.w {
				if math.IsNaN(float64(w)) || math.IsInf(float64(w), 0) {
					return nil, fmt.Errorf("sage: layer %d: %s weight %d is %v, want a finite number", l, part.name, i, w)
				}
			}
		}
		s.layers = append(s.layers, SAGELayer{
			Neigh: slices.Clone(layer.Neigh),
			Bias:  slices.Clone(layer.Bias),
			Self:  slices.Clone(layer.Self),
		})
		s.width = append(s.width, out)

		both := make([]float32, 2*in*out)
		for j := range out {
			for k := range in {
				if l == 0 {
					both[k*2*out+j] = layer.Neigh[j*in+k]
					both[k*2*out+out+j] = layer.Self[j*in+k]
				} else {
					both[k*out+j] = layer.Neigh[j*in+k]
					both[(in+k)*out+j] = layer.Self[j*in+k]
				}
			}
		}
		if l == 0 {
			s.first = both
		} else {
			s.stacked[l] = both
		}
	}
	return s, nil
}

// Kind is graphsage.
func (s *SAGE) Kind() Kind { return KindSAGE }

// Activation is ReLU.
func (s *SAGE) Activation() Activation { return ReLU }

// In is the dimension of the features.
func (s *SAGE) In() int { return s.width[0] }

// Out is d_e, the dimension of the embeddings.
func (s *SAGE) Out() int { return s.width[len(s.layers)] }

// Depth is the number of layers: how many hops away a node is seen.
func (s *SAGE) Depth() int { return len(s.layers) }

// Encode returns the embeddings of all nodes of a graph, len(x)×Out row-major.
// Edge e goes from node src[e] to node dst[e] and carries a message that way:
// i's neighbours are the sources of the edges into i, as often as they stand
// there, i itself included if it does. That is what PyTorch Geometric makes of
// an edge_index. For an undirected graph give each edge in both directions.
// Encode panics when an edge names no node or features do not fit.
func (s *SAGE) Encode(x []Vector, src, dst []int32) []float32 {
	n := len(x)
	if len(src) != len(dst) {
		panic(fmt.Sprintf("gnn: %d sources of edges, %d targets", len(src), len(dst)))
	}
	inverseDegree := make([]float32, n)
	for _, i := range dst {
		inverseDegree[i]++
	}
	for i, degree := range inverseDegree {
		if degree > 0 {
			inverseDegree[i] = 1 / degree
		}
	}

	out := s.width[1]
	projected := make([]float32, n*2*out)
	for i := range x {
		s.project(projected[i*2*out:(i+1)*2*out], x[i])
	}
	h := make([]float32, n*out)
	for e, i := range dst {
		j := int(src[e])
		add(h[int(i)*out:(int(i)+1)*out], projected[j*2*out:])
	}
	for i := range n {
		row := h[i*out : (i+1)*out]
		combine(row, projected[i*2*out+out:(i+1)*2*out], row, inverseDegree[i])
		add(row, s.layers[0].Bias)
	}

	for l := 1; l < len(s.layers); l++ {
		rectify(h, h)
		in, out := s.width[l], s.width[l+1]
		both := make([]float32, n*2*in) // per node: mean of its neighbours' states, its own
		for e, i := range dst {
			j := int(src[e])
			add(both[int(i)*2*in:int(i)*2*in+in], h[j*in:])
		}
		next := make([]float32, n*out)
		for i := range n {
			row := both[i*2*in : (i+1)*2*in]
			scale(row[:in], inverseDegree[i])
			copy(row[in:], h[i*in:(i+1)*in])
			copy(next[i*out:], s.layers[l].Bias)
			product(next[i*out:(i+1)*out], row, s.stacked[l])
		}
		h = next
	}
	return h
}

// project sets dst, 2·out of the first layer, to [Neigh·x | Self·x].
func (s *SAGE) project(dst []float32, x Vector) {
	clear(dst)
	if x.Dense == nil {
		if len(x.Index) != len(x.Value) || len(x.Index) > 0 && int(x.Index[len(x.Index)-1]) >= s.In() {
			panic(fmt.Sprintf("gnn: sparse features do not fit dimension %d", s.In()))
		}
		sparseProduct(dst, x.Index, x.Value, s.first)
		return
	}
	if len(x.Dense) != s.In() {
		panic(fmt.Sprintf("gnn: %d features, want %d", len(x.Dense), s.In()))
	}
	product(dst, x.Dense, s.first)
}

// Tensors returns the weights under the names that PyTorch Geometric gives
// them in a state dict: convs.N.lin_l.weight, convs.N.lin_l.bias and
// convs.N.lin_r.weight.
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

// LoadSAGE is the inverse of [SAGE.Tensors]. It also takes the names that
// hand-written modules use, conv1 for convs.0 and so on, and layers without
// lin_r (root_weight=False). A tensor that is no part of such an encoder is an
// error: it would belong to a model that computes something else.
func LoadSAGE(tensors map[string]safetensors.Tensor) (*SAGE, error) {
	rest := maps.Clone(tensors)
	take := func(name string, dims int) (safetensors.Tensor, []float32, error) {
		t, ok := rest[name]
		if !ok {
			return t, nil, fmt.Errorf("sage: no tensor %s", name)
		}
		delete(rest, name)
		if len(t.Shape) != dims {
			return t, nil, fmt.Errorf("sage: tensor %s has shape %v, want %d dimensions", name, t.Shape, dims)
		}
		values, err := safetensors.Values[float32](t)
		if err != nil {
			return t, nil, fmt.Errorf("sage: tensor %s: %w", name, err)
		}
		return t, values, nil
	}

	prefix := func(l int) string { return fmt.Sprintf("convs.%d.", l) }
	if _, ok := rest["conv1.lin_l.weight"]; ok {
		prefix = func(l int) string { return fmt.Sprintf("conv%d.", l+1) }
	}
	in := 0
	var layers []SAGELayer
	for l := 0; l == 0 || anyHasPrefix(rest, prefix(l)); l++ {
		t, neigh, err := take(prefix(l)+"lin_l.weight", 2)
		if err != nil {
			return nil, err
		}
		if l == 0 {
			in = t.Shape[1]
		}
		_, bias, err := take(prefix(l)+"lin_l.bias", 1)
		if err != nil {
			return nil, err
		}
		if t.Shape[0] != len(bias) {
			return nil, fmt.Errorf("sage: tensor %slin_l.weight has shape %v, lin_l.bias %d", prefix(l), t.Shape, len(bias))
		}
		layer := SAGELayer{Neigh: neigh, Bias: bias}
		if _, ok := rest[prefix(l)+"lin_r.weight"]; ok {
			r, self, err := take(prefix(l)+"lin_r.weight", 2)
			if err != nil {
				return nil, err
			}
			if !slices.Equal(r.Shape, t.Shape) {
				return nil, fmt.Errorf("sage: tensor %slin_r.weight has shape %v, lin_l.weight %v", prefix(l), r.Shape, t.Shape)
			}
			layer.Self = self
		}
		layers = append(layers, layer)
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("sage: tensors of no GraphSAGE layer: %s", strings.Join(slices.Sorted(maps.Keys(rest)), ", "))
	}
	return NewSAGE(in, layers...)
}

func anyHasPrefix(tensors map[string]safetensors.Tensor, prefix string) bool {
	for name := range tensors {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
