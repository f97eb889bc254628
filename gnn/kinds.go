package gnn

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
)

// EdgeKind is a kind of edges.
type EdgeKind struct {
	Name     string `json:"name"` // "" for edges without a kind
	Directed bool   `json:"directed,omitempty"`
}

// EdgeKinds are the kinds of edges that an encoder tells apart. A node takes one mean over
// the neighbours that it has by edges of an undirected kind, and two for a directed kind:
// over the targets of its edges, and over the sources of those to it. Means are numbered
// from 0, in the order of the kinds.
type EdgeKinds []EdgeKind

// MaxMeans is the largest number of means of an encoder.
const MaxMeans = 32

// Means is the number of means.
func (k EdgeKinds) Means() (n int) {
	for _, kind := range k {
		n++
		if kind.Directed {
			n++
		}
	}
	return n
}

// Of returns the numbers of the means that an edge of a kind takes part in, at its source and
// at its target.
func (k EdgeKinds) Of(name string) (atSource, atTarget int, known bool) {
	for _, kind := range k {
		atTarget = atSource
		if kind.Directed {
			atTarget++
		}
		if kind.Name == name {
			return atSource, atTarget, true
		}
		atSource = atTarget + 1
	}
	return 0, 0, false
}

// At returns the kind of a mean, and whether it is the mean over the sources of edges, at
// their target, of a directed kind.
func (k EdgeKinds) At(mean int) (kind EdgeKind, atTarget bool) {
	for _, kind := range k {
		s, t, _ := k.Of(kind.Name)
		if mean == s || mean == t {
			return kind, mean != s
		}
	}
	return EdgeKind{}, false
}

// Check returns an error unless each kind has a name of its own and an encoder can have
// them, as many as it says.
func (k EdgeKinds) Check(means int) error {
	for i, kind := range k {
		if slices.ContainsFunc(k[:i], func(other EdgeKind) bool { return other.Name == kind.Name }) {
			return fmt.Errorf("the kind of edges %.80q is there twice", kind.Name)
		}
	}
	if k.Means() > MaxMeans {
		return fmt.Errorf("%d kinds of edges, a directed one counted twice: at most %d", k.Means(), MaxMeans)
	}
	if k.Means() != means {
		return fmt.Errorf("kinds of edges with %d means, a directed one having two, and an encoder of %d", k.Means(), means)
	}
	return nil
}

// KindsEncoder is an encoder that may hear kinds and weights of edges: a [SAGEKinds], and a [GCN]
// that is [GCN.Weighed].
type KindsEncoder interface {
	Encoder
	// Means is the number of means over neighbours, 0 if all edges are alike.
	Means() int
	// EncodeKinds returns the embeddings of all nodes of a graph, len(x)×Out row-major. Edge e
	// counts in mean[e] of node dst[e], with weight[e], which is positive; nil is 0 and 1 for all.
	EncodeKinds(x []Vector, src, dst []int32, mean []uint8, weight []float32) []float32
	// gatherKinds is gather for node v, whose edges the graph's kindMeans have.
	gatherKinds(dst []float32, g *Graph, v int32, w *workspace)
}

// MeansOf is the number of an encoder's means over kinds of edges, 0 if it hears all edges alike.
func MeansOf(e Encoder) int {
	if k, ok := e.(KindsEncoder); ok {
		return k.Means()
	}
	return 0
}

// KindsLayer holds the weights of one layer of [SAGEKinds].
type KindsLayer struct {
	Neigh [][]float32 // by mean: Out×In, row-major
	Bias  []float32   // Out
	Self  []float32   // Out×In, row-major
}

// SAGEKinds is a GraphSAGE encoder for edges of several kinds, with weights:
//
//	h'_i = Self · h_i + Bias + Σ_k Neigh_k · (Σ_j w_ij h_j / Σ_j w_ij)
//
// where the sums are over the neighbours that i has in mean k, and one over none is zero.
// With weights of 1 it is PyTorch Geometric's RGCNConv with aggr="mean" (Schlichtkrull et
// al.: Modeling Relational Data with Graph Convolutional Networks, 2018). It is immutable and
// safe for concurrent use.
type SAGEKinds struct {
	shape
	layers []KindsLayer
	means  int
	single *SAGE // of the same weights, if there is one mean
}

// NewSAGEKinds returns an encoder with the given layers, at least one, first to last. It
// copies the weights. It returns an error when shapes do not fit or a weight is not finite.
func NewSAGEKinds(in int, activation Activation, layers ...KindsLayer) (*SAGEKinds, error) {
	return named("graphsage with kinds of edges", newSAGEKinds, in, activation, layers)
}

func newSAGEKinds(in int, activation Activation, layers []KindsLayer) (*SAGEKinds, error) {
	shape, err := newShape(KindSAGE, in, activation, len(layers))
	if err != nil {
		return nil, err
	}
	s := &SAGEKinds{shape: shape, means: len(layers[0].Neigh)}
	if s.means < 1 || s.means > MaxMeans {
		return nil, fmt.Errorf("%d means over kinds of edges: at least 1, at most %d", s.means, MaxMeans)
	}
	for l, layer := range layers {
		in, out := s.width[l], len(layer.Bias)
		if out == 0 || len(layer.Neigh) != s.means {
			return nil, fmt.Errorf("layer %d has %d outputs and %d means, want at least 1 and %d", l, out, len(layer.Neigh), s.means)
		}
		errs := []error{checkWeights("self", layer.Self, out, in), checkWeights("bias", layer.Bias, out, 1)}
		own := KindsLayer{Bias: slices.Clone(layer.Bias), Self: slices.Clone(layer.Self)}
		for _, w := range layer.Neigh {
			errs = append(errs, checkWeights("neighbour", w, out, in))
			own.Neigh = append(own.Neigh, slices.Clone(w))
		}
		if err := inLayer(l, errs...); err != nil {
			return nil, err
		}
		s.layers, s.width = append(s.layers, own), append(s.width, out)
		all := append(own.Neigh[:s.means:s.means], own.Self)
		if l == 0 {
			// A row is [Neigh_0·x | … | Self·x + Bias], the self term alone: aggregates are kept by
			// [kindMeans], for the means alone in which a node has neighbours.
			s.self = len(all) * out
			s.first = projection{weight: transpose(slices.Concat(all...), s.self, in), in: in, out: s.self}
			continue
		}
		m := linear{groups: 1, in: len(all) * in, out: out, bias: own.Bias} // of [mean 0 | … | own state]
		for _, w := range all {
			m.weight = append(m.weight, transpose(w, out, in)...)
		}
		s.maps[l] = []linear{m}
	}
	// With two layers and a ReLU between them, a neighbour's first state is computed from what is in the
	// cache at that moment.
	if len(layers) == 2 && s.activation == ReLU {
		s.base = 1
	}
	if s.means > 1 {
		return s, nil
	}
	var single []SAGELayer
	for _, layer := range s.layers {
		single = append(single, SAGELayer{Neigh: layer.Neigh[0], Bias: layer.Bias, Self: layer.Self})
	}
	s.single, err = newSAGE(in, activation, single)
	return s, err
}

// Layers returns the weights, first layer to last. They must not be modified.
func (s *SAGEKinds) Layers() []KindsLayer { return slices.Clone(s.layers) }

// Means is the number of means over neighbours.
func (s *SAGEKinds) Means() int { return s.means }

// Tensors returns the weights under the names and in the shapes of PyTorch Geometric's
// RGCNConv: convs.N.weight (means×In×Out), convs.N.root and convs.N.bias.
func (s *SAGEKinds) Tensors() map[string]safetensors.Tensor {
	tensors := make(map[string]safetensors.Tensor)
	for l, layer := range s.layers {
		in, out := s.width[l], s.width[l+1]
		var all []float32
		for _, w := range layer.Neigh {
			all = append(all, transpose(w, out, in)...)
		}
		prefix := fmt.Sprintf("convs.%d.", l)
		tensors[prefix+"weight"] = safetensors.Of(all, s.means, in, out)
		tensors[prefix+"root"] = safetensors.Of(transpose(layer.Self, out, in), in, out)
		tensors[prefix+"bias"] = safetensors.Of(layer.Bias, out)
	}
	return tensors
}

func loadSAGEKinds(d *stateDict, activation Activation) (Encoder, error) {
	return loadLayers(d, activation, newSAGEKinds, func(prefix string) (layer KindsLayer, in int) {
		all, shape := d.tensor(prefix+"weight", 3)
		root, rootShape := d.tensor(prefix+"root", 2)
		bias, out := d.tensor(prefix+"bias", 1)
		d.want(prefix+"weight", shape, shape[0], shape[1], out[0])
		d.want(prefix+"root", rootShape, shape[1], out[0])
		if d.err != nil {
			return layer, 0
		}
		layer = KindsLayer{Bias: bias, Self: transpose(root, shape[1], out[0])}
		for w := range slices.Chunk(all, shape[1]*out[0]) {
			layer.Neigh = append(layer.Neigh, transpose(w, shape[1], out[0]))
		}
		return layer, shape[1]
	})
}

// loadHeteroSAGE reads HeteroConvs of SAGEConvs of one type of nodes, whose outputs are added
// (aggr="sum"). Means are in the alphabetical order of the relations; that of rev_NAME, as
// ToUndirected names it, comes before NAME: along it, a source hears the target of its edge.
func loadHeteroSAGE(d *stateDict, activation Activation) (Encoder, error) {
	return loadLayers(d, activation, newSAGEKinds, func(prefix string) (layer KindsLayer, in int) {
		for _, relation := range d.relations(prefix + "convs.<") {
			name := prefix + "convs.<" + relation + ">."
			l, dim := d.linear(name + "lin_l.")
			if layer.Bias == nil {
				in, layer.Bias, layer.Self = dim, make([]float32, len(l.Bias)), make([]float32, len(l.Weight))
			}
			root := make([]float32, len(layer.Self))
			if d.has(name + "lin_r.weight") {
				root, _ = d.tensor(name+"lin_r.weight", 2)
			}
			if d.err == nil && (len(l.Bias) != len(layer.Bias) || len(l.Weight) != len(layer.Self) || len(root) != len(layer.Self)) {
				d.err = fmt.Errorf("tensors of %s have other shapes than those of the relation before it", name)
			}
			if d.err != nil {
				return layer, in
			}
			layer.Neigh = append(layer.Neigh, l.Weight)
			kernel.Add(layer.Bias, l.Bias)
			kernel.Add(layer.Self, root)
		}
		return layer, in
	})
}

// Encode encodes as [SAGEKinds.EncodeKinds] does, with all edges in mean 0 and of weight 1.
func (s *SAGEKinds) Encode(x []Vector, src, dst []int32) []float32 {
	return s.EncodeKinds(x, src, dst, nil, nil)
}

// EncodeKinds encodes a graph, see [KindsEncoder].
func (s *SAGEKinds) EncodeKinds(x []Vector, src, dst []int32, mean []uint8, weight []float32) []float32 {
	n := len(x)
	checkEdges(n, src, dst)
	of := func(e int) (k int, w float32) {
		w = 1
		if mean != nil {
			k = int(mean[e])
		}
		if weight != nil {
			w = weight[e]
		}
		return k, w
	}
	total := make([]float64, n*s.means)
	for e, i := range dst {
		k, w := of(e)
		total[int(i)*s.means+k] += float64(w)
	}
	var h rows
	for l := range s.layers {
		out := s.width[l+1]
		next := newRows(n, out)
		first := newRows(n, (s.means+1)*out)
		if l == 0 {
			for i := range x {
				project(s, first.at(int32(i)), x[i])
				copy(next.at(int32(i)), first.at(int32(i))[s.means*out:])
			}
			for e, i := range dst {
				k, w := of(e)
				kernel.Axpy(next.at(i), float32(float64(w)/total[int(i)*s.means+k]), first.at(src[e])[k*out:(k+1)*out])
			}
			h = next
			continue
		}
		s.activation.apply(h.x)
		in := s.width[l]
		both := newRows(n, (s.means+1)*in)
		for e, i := range dst {
			k, w := of(e)
			kernel.Axpy(both.at(i)[k*in:(k+1)*in], float32(float64(w)/total[int(i)*s.means+k]), h.at(src[e]))
		}
		for i := range int32(n) {
			copy(both.at(i)[s.means*in:], h.at(i))
		}
		s.maps[l][0].apply(next.x, both.x)
		h = next
	}
	return h.x
}

func (s *SAGEKinds) finishSelf(self []float32) {
	kernel.Add(self[s.means*s.width[1]:], s.layers[0].Bias)
}

func (s *SAGEKinds) baseInput(dst []float32, g *Graph, v int32, w *workspace) {
	t, out := g.kinds, s.width[1]
	if s.base == 0 {
		t.firstState(dst, g, v, w)
		return
	}
	state := func(u int32) []float32 {
		w.share = kernel.Resize(w.share, out)
		t.firstState(w.share, g, u, w)
		kernel.Rectify(w.share, w.share)
		return w.share
	}
	t.gather(dst[:s.means*out], v, out, w, state)
	copy(dst[s.means*out:], state(v))
}

// gather is not called: [Graph.layerRows] calls gatherKinds, since states alone do not say by
// which kinds of edges they are neighbours.
func (s *SAGEKinds) gather(int, []float32, *states, []int32, *workspace) {}

// gatherKinds sets dst to [mean 0 | … | own state] of node v.
func (s *SAGEKinds) gatherKinds(dst []float32, g *Graph, v int32, w *workspace) {
	st := &g.embed.below
	state := func(u int32) []float32 { return st.h[int(g.links.nodes.At(u).slot)*st.width:][:st.width] }
	g.kinds.gather(dst[:s.means*st.width], v, st.width, w, state)
	copy(dst[s.means*st.width:], state(v))
}
