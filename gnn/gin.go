package gnn

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
)

// GINLayer holds the weights of one layer of a graph isomorphism network (Xu, Hu,
// Leskovec, Jegelka: How Powerful are Graph Neural Networks?, 2019), which maps
// the states h to
//
//	h'_i = MLP((1 + Eps) · h_i + Σ_{j ∈ N(i)} h_j)
//
// with a ReLU between the linear maps of the MLP, whatever the activation between
// layers.
type GINLayer struct {
	Eps float32
	MLP []Linear // at least one, first to last
}

// GIN is a frozen graph isomorphism network, with an activation after each layer
// but the last. It is immutable and safe for concurrent use.
type GIN struct {
	shape
	layers []GINLayer
	mlps   [][]linear // by layer
}

// NewGIN returns an encoder of features of dimension in with the given layers, at
// least one, first to last, and the activation between them. It copies the
// weights. It returns an error when shapes do not fit, a weight is not finite, or
// the activation is unknown.
func NewGIN(in int, activation Activation, layers ...GINLayer) (*GIN, error) {
	return named("gin", newGIN, in, activation, layers)
}

func newGIN(in int, activation Activation, layers []GINLayer) (*GIN, error) {
	shape, err := newShape(KindGIN, in, activation, len(layers))
	if err != nil {
		return nil, err
	}
	g := &GIN{shape: shape}
	for l, layer := range layers {
		if err := inLayer(l, checkWeights("eps", []float32{layer.Eps}, 1, 1)); err != nil {
			return nil, err
		}
		if len(layer.MLP) == 0 {
			return nil, fmt.Errorf("layer %d has no linear map, want at least 1", l)
		}
		width := g.width[l]
		kept := GINLayer{Eps: layer.Eps}
		var mlp []linear
		for k, m := range layer.MLP {
			if len(m.Bias) == 0 {
				return nil, fmt.Errorf("layer %d, linear map %d has no outputs", l, k)
			}
			if err := cmp.Or(checkWeights("linear", m.Weight, len(m.Bias), width),
				checkWeights("bias", m.Bias, len(m.Bias), 1)); err != nil {
				return nil, fmt.Errorf("layer %d, linear map %d: %w", l, k, err)
			}
			m = Linear{slices.Clone(m.Weight), slices.Clone(m.Bias)}
			kept.MLP = append(kept.MLP, m)
			mlp = append(mlp, newLinear(m.Weight, m.Bias))
			width = len(m.Bias)
		}
		g.layers = append(g.layers, kept)
		g.mlps, g.maps[l] = append(g.mlps, mlp), mlp
		g.width = append(g.width, width)
	}
	// With W the first linear map of the first layer, without its bias, a row is
	//
	//	W·x              the self term
	//	Σ_{j ∈ N} W·x_j  the aggregate
	//
	// As W is linear, it may be applied before the sum.
	w := g.mlps[0][0]
	g.first, g.maps[0] = projection{weight: w.weight, in: in, out: w.out}, g.mlps[0][1:]
	g.self, g.aggregate = w.out, w.out
	return g, nil
}

// Tensors returns the weights under the names that PyTorch Geometric gives them
// in a state dict. If every MLP is the one of torch_geometric.nn.GIN, two linear
// maps of equal width, those are its names: convs.N.eps,
// convs.N.nn.lins.0.weight, convs.N.nn.lins.0.bias and so on. Otherwise they are
// those of a Sequential of alternating Linear and ReLU: convs.N.nn.0.weight,
// convs.N.nn.2.weight and so on.
//
// [Load] accepts both, and any Sequential of Linear, BatchNorm1d right after a
// Linear, and modules without tensors, which it assumes to be one ReLU before each
// Linear but the first. A BatchNorm (eps 1e-5, PyTorch's default) is folded into
// the Linear before it, so Tensors does not return it.
func (g *GIN) Tensors() map[string]safetensors.Tensor {
	tensors := make(map[string]safetensors.Tensor)
	name := "convs.%d.nn.lins.%d."
	step := 1
	for _, layer := range g.layers {
		if len(layer.MLP) != 2 || len(layer.MLP[0].Bias) != len(layer.MLP[1].Bias) {
			name, step = "convs.%d.nn.%d.", 2
		}
	}
	for l, layer := range g.layers {
		tensors[fmt.Sprintf("convs.%d.eps", l)] = safetensors.Of([]float32{layer.Eps}, 1)
		for k, m := range layer.MLP {
			prefix := fmt.Sprintf(name, l, step*k)
			in := len(m.Weight) / len(m.Bias)
			tensors[prefix+"weight"] = safetensors.Of(m.Weight, len(m.Bias), in)
			tensors[prefix+"bias"] = safetensors.Of(m.Bias, len(m.Bias))
		}
	}
	return tensors
}

// Encode returns the embeddings of all nodes of a graph, see [Encoder]. N(i) is
// the multiset of the sources of the edges into i; a loop makes i a neighbour of
// itself.
func (g *GIN) Encode(x []Vector, src, dst []int32) []float32 {
	n := len(x)
	room := rooms.Get().(*room)
	defer rooms.Put(room)
	start, near := room.inEdges(n, src, dst)
	// The first linear map is applied before the first sum: there features may
	// be sparse.
	first := g.mlps[0][0]
	h := room.rows(n, first.out)
	room.project(g, h, x)
	for l, layer := range g.layers {
		sum := room.rows(n, h.width)
		for i := range int32(n) {
			kernel.Axpy(sum.at(i), 1+layer.Eps, h.at(i))
			kernel.GatherSum(sum.at(i), near[start[i]:start[i+1]], h.x, h.width)
		}
		room.free(h)
		h = sum
		for k, m := range g.mlps[l] {
			if k > 0 {
				kernel.Rectify(h.x, h.x)
			}
			if l == 0 && k == 0 {
				for i := range int32(n) {
					kernel.Add(h.at(i), first.bias)
				}
				continue
			}
			next := room.rows(n, m.out)
			m.apply(next.x, h.x)
			room.free(h)
			h = next
		}
		if l+1 < len(g.layers) {
			g.activation.apply(h.x)
		}
	}
	defer room.free(h)
	return slices.Clone(h.x)
}

func (g *GIN) baseInput(dst []float32, graph *Graph, v int32, w *workspace) {
	row := graph.rows.row(v, &w.row)
	out := len(row) / 2
	copy(dst, row[out:])
	kernel.Axpy(dst, 1+g.layers[0].Eps, row[:out])
	kernel.Add(dst, g.mlps[0][0].bias)
	if len(g.mlps[0]) > 1 {
		kernel.Rectify(dst, dst)
	}
}

func (g *GIN) gather(l int, dst []float32, s *states, at []int32, w *workspace) {
	w.gatherSum(dst, s, at[1:])
	kernel.Axpy(dst, 1+g.layers[l].Eps, s.h[int(at[0])*s.width:])
}

func loadGIN(d *stateDict, activation Activation) (Encoder, error) {
	return loadLayers(d, activation, newGIN, func(prefix string) (layer GINLayer, in int) {
		eps, shape := d.tensor(prefix+"eps", 1)
		d.want(prefix+"eps", shape, 1)
		if d.err == nil {
			layer.Eps = eps[0]
		}
		if d.hasPrefix(prefix + "nn.lins.") {
			layer.MLP, in = d.lins(prefix + "nn.lins.")
		} else {
			layer.MLP, in = d.sequential(prefix + "nn.")
		}
		return layer, in
	})
}

// lins reads linear maps numbered from 0 without a gap.
func (d *stateDict) lins(prefix string) (mlp []Linear, in int) {
	for k := 0; k == 0 || d.err == nil && d.hasPrefix(fmt.Sprintf("%s%d.", prefix, k)); k++ {
		m, dim := d.linear(fmt.Sprintf("%s%d.", prefix, k))
		if k == 0 {
			in = dim
		}
		mlp = append(mlp, m)
	}
	return mlp, in
}

// maxModules is the most modules that a Sequential may have: far more than any
// real one, and few enough to look for each.
const maxModules = 100

// sequential reads the modules of a torch.nn.Sequential that have tensors.
func (d *stateDict) sequential(prefix string) (mlp []Linear, in int) {
	before := -2 // the number of the previous module with tensors
	for k := range maxModules {
		name := fmt.Sprintf("%s%d.", prefix, k)
		switch {
		case d.err != nil:
			return nil, 0
		case !d.hasPrefix(name):
			continue
		case d.has(name + "running_mean"):
			if len(mlp) == 0 || before != k-1 {
				d.err = fmt.Errorf("%sweight: a BatchNorm can be read only where it comes right after a Linear", name)
				return nil, 0
			}
			d.foldBatchNorm(name, &mlp[len(mlp)-1])
		default:
			m, dim := d.linear(name)
			if before == k-1 && d.err == nil {
				d.err = fmt.Errorf("%sweight: no ReLU between this Linear and the module before it", name)
			}
			if len(mlp) == 0 {
				in = dim
			}
			mlp = append(mlp, m)
		}
		before = k
	}
	if len(mlp) == 0 && d.err == nil {
		d.err = fmt.Errorf("no tensor %s0.weight", prefix)
	}
	return mlp, in
}

// foldBatchNorm merges the BatchNorm with the given prefix into m, which comes
// before it: (y - running_mean) / √(running_var + 1e-5) · weight + bias.
func (d *stateDict) foldBatchNorm(prefix string, m *Linear) {
	d.skip(prefix + "num_batches_tracked")
	var parts [4][]float32
	for i, name := range []string{"weight", "bias", "running_mean", "running_var"} {
		var shape []int
		parts[i], shape = d.tensor(prefix+name, 1)
		d.want(prefix+name, shape, len(m.Bias))
	}
	if d.err != nil {
		return
	}
	weight, bias, mean, variance := parts[0], parts[1], parts[2], parts[3]
	in := len(m.Weight) / len(m.Bias)
	for j := range m.Bias {
		factor := float64(weight[j]) / math.Sqrt(float64(variance[j])+1e-5)
		for k := range in {
			m.Weight[j*in+k] = float32(float64(m.Weight[j*in+k]) * factor)
		}
		centred := float64(m.Bias[j]) - float64(mean[j])
		m.Bias[j] = float32(float64(centred*factor) + float64(bias[j]))
	}
}
