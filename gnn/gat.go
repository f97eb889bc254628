package gnn

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/elementary"
	"github.com/gvbll/gvbll/gnn/safetensors"
)

// GATLayer holds the weights of one graph attention layer (Veličković et al.:
// Graph Attention Networks, 2018). With p = Weight · h cut in Heads parts of Ch
// numbers, each head k maps the states to
//
//	a_ij = LeakyReLU(AttSrc_k · p_jk + AttDst_k · p_ik)
//	α_ij = exp(a_ij) / Σ_{j' ∈ N(i) ∪ {i}} exp(a_ij')
//	y_ik = Σ_{j ∈ N(i) ∪ {i}} α_ij p_jk
//
// where LeakyReLU has slope 0.2 below zero. If Bias has Heads·Ch numbers the
// heads' outputs are concatenated, if it has Ch they are averaged; then Bias is
// added.
type GATLayer struct {
	Heads          int
	Weight         []float32 // Heads·Ch×In, row-major; PyTorch Geometric's lin.weight
	AttSrc, AttDst []float32 // Heads·Ch; att_src, for the sender j, and att_dst, for the receiver i
	Bias           []float32 // Heads·Ch (concat=True) or Ch (concat=False)
}

// GAT is a frozen graph attention network, with an activation after each layer
// but the last. It is immutable and safe for concurrent use.
type GAT struct {
	shape
	layers []GATLayer
	// By layer, from the second on, which average states and then project them: a state's AttSrc_k · p_k
	// for every head k, then its AttDst_k · p_k.
	scores []linear
}

// NewGAT returns an encoder of features of dimension in with the given layers, at
// least one, first to last, and the activation between them. It copies the
// weights. It returns an error when shapes do not fit, a weight is not finite, or
// the activation is unknown.
func NewGAT(in int, activation Activation, layers ...GATLayer) (*GAT, error) {
	return named("gat", newGAT, in, activation, layers)
}

func newGAT(in int, activation Activation, layers []GATLayer) (*GAT, error) {
	shape, err := newShape(KindGAT, in, activation, len(layers))
	if err != nil {
		return nil, err
	}
	g := &GAT{shape: shape, scores: make([]linear, len(layers))}
	for l, layer := range layers {
		in, all := g.width[l], len(layer.AttSrc)
		if layer.Heads < 1 || all == 0 || all%layer.Heads != 0 {
			return nil, fmt.Errorf("layer %d has %d heads of %d attention weights together, want at least 1 head and "+
				"as many weights for each", l, layer.Heads, all)
		}
		if err := inLayer(l,
			checkWeights("linear", layer.Weight, all, in),
			checkWeights("source attention", layer.AttSrc, all, 1),
			checkWeights("target attention", layer.AttDst, all, 1),
		); err != nil {
			return nil, err
		}
		out := len(layer.Bias)
		if out != all && out != all/layer.Heads {
			return nil, fmt.Errorf("layer %d has %d bias weights, want %d (heads side by side) or %d (averaged)", l, out,
				all, all/layer.Heads)
		}
		if err := inLayer(l, checkWeights("bias", layer.Bias, out, 1)); err != nil {
			return nil, err
		}
		layer.Weight, layer.Bias = slices.Clone(layer.Weight), slices.Clone(layer.Bias)
		layer.AttSrc, layer.AttDst = slices.Clone(layer.AttSrc), slices.Clone(layer.AttDst)
		g.layers = append(g.layers, layer)
		g.width = append(g.width, out)
		if l == 0 {
			g.first = projection{weight: transpose(layer.Weight, all, in), in: in, out: all}
			g.self, g.aggregate = all+2*layer.Heads, all+2*layer.Heads
		} else {
			g.scores[l], g.maps[l] = layer.scores(in), []linear{layer.headMap(in)}
		}
	}
	return g, nil
}

// channels is Ch.
func (l *GATLayer) channels() int { return len(l.AttSrc) / l.Heads }

// averages reports whether the heads are averaged. With one head that is the same
// as concatenating.
func (l *GATLayer) averages() bool { return len(l.Bias) != len(l.AttSrc) }

// scores returns the map from a state h to AttSrc_k · p_k for every head and then
// AttDst_k · p_k, without computing p: AttSrc_k · (Weight_k h) = (Weight_kᵀ
// AttSrc_k) · h.
func (l *GATLayer) scores(in int) linear {
	channels := l.channels()
	s := linear{groups: 1, in: in, out: 2 * l.Heads, weight: make([]float32, in*2*l.Heads), bias: make([]float32, 2*l.Heads)}
	for i := range in {
		for a, attention := range [][]float32{l.AttSrc, l.AttDst} {
			for k := range l.Heads {
				sum := 0.0
				for c := k * channels; c < (k+1)*channels; c++ {
					sum += float64(float64(attention[c]) * float64(l.Weight[c*in+i]))
				}
				s.weight[i*s.out+a*l.Heads+k] = float32(sum)
			}
		}
	}
	return s
}

// headMap returns the map from each head's mean of states, concatenated, to the
// layer's output.
func (l *GATLayer) headMap(in int) linear {
	channels := l.channels()
	m := linear{groups: l.Heads, in: l.Heads * in, out: len(l.Bias), bias: l.Bias}
	if l.averages() {
		m.groups = 1
	}
	for k := range l.Heads {
		m.weight = append(m.weight, transpose(l.Weight[k*channels*in:(k+1)*channels*in], channels, in)...)
	}
	if l.averages() {
		kernel.Scale(m.weight, 1/float32(l.Heads))
	}
	return m
}

// join sets dst to the layer's output, given for each head the sum Σ exp(a-r) p
// and the weight Σ exp(a-r). The reference r cancels.
func (l *GATLayer) join(dst, sums, weights []float32) {
	channels := l.channels()
	if !l.averages() {
		for k, w := range weights {
			for c := k * channels; c < (k+1)*channels; c++ {
				dst[c] = sums[c]/w + l.Bias[c]
			}
		}
		return
	}
	clear(dst)
	for k, w := range weights {
		for c, s := range sums[k*channels : (k+1)*channels] {
			dst[c] += s / w
		}
	}
	kernel.Scale(dst, 1/float32(l.Heads))
	kernel.Add(dst, l.Bias)
}

// dots sets dst[k] to attention_k · p_k for each head k.
func dots(dst, attention, p []float32) {
	channels := len(p) / len(dst)
	for k := range dst {
		sum := float32(0)
		for c := k * channels; c < (k+1)*channels; c++ {
			sum += float32(attention[c] * p[c])
		}
		dst[k] = sum
	}
}

// leaky is LeakyReLU with slope 0.2.
func leaky(a float32) float32 {
	if a < 0 {
		return float32(0.2 * a)
	}
	return a
}

// expOf is e^(a-r), rounded to float32 once.
func expOf(a, r float32) float32 { return float32(elementary.Exp(float64(a) - float64(r))) }

// Tensors returns the weights under the names that PyTorch Geometric gives them
// in a state dict: convs.N.lin.weight, convs.N.att_src, convs.N.att_dst and
// convs.N.bias. [Load] also takes lin_src.weight with an equal lin_dst.weight for
// lin.weight, as PyTorch Geometric wrote it before 2.5.
func (g *GAT) Tensors() map[string]safetensors.Tensor {
	tensors := make(map[string]safetensors.Tensor, 4*len(g.layers))
	for l := range g.layers {
		layer := &g.layers[l]
		prefix := fmt.Sprintf("convs.%d.", l)
		tensors[prefix+"lin.weight"] = safetensors.Of(layer.Weight, len(layer.AttSrc), g.width[l])
		tensors[prefix+"att_src"] = safetensors.Of(layer.AttSrc, 1, layer.Heads, layer.channels())
		tensors[prefix+"att_dst"] = safetensors.Of(layer.AttDst, 1, layer.Heads, layer.channels())
		tensors[prefix+"bias"] = safetensors.Of(layer.Bias, len(layer.Bias))
	}
	return tensors
}

// Encode returns the embeddings of all nodes of a graph, see [Encoder]. N(i) is
// the multiset of the sources of the edges into i, without i: i itself is one term
// in any case, so loops count for nothing.
func (g *GAT) Encode(x []Vector, src, dst []int32) []float32 {
	n := len(x)
	checkEdges(n, src, dst)
	var h rows
	first := g.projection()
	for l := range g.layers {
		layer := &g.layers[l]
		heads, channels := layer.Heads, layer.channels()
		p := newRows(n, heads*channels)
		source, target := newRows(n, heads), newRows(n, heads)
		for i := range int32(n) {
			if l == 0 {
				first.row(p.at(i), x[i])
			} else {
				multiply(p.at(i), layer.Weight, h.at(i))
			}
			dots(source.at(i), layer.AttSrc, p.at(i))
			dots(target.at(i), layer.AttDst, p.at(i))
		}
		// The largest score of each node and head is the reference, so that no
		// exponential overflows.
		most := newRows(n, heads)
		each := func(term func(i, j int32)) {
			for i := range int32(n) {
				term(i, i)
			}
			for e, i := range dst {
				if src[e] != i {
					term(i, src[e])
				}
			}
		}
		for i := range most.x {
			most.x[i] = float32(math.Inf(-1))
		}
		each(func(i, j int32) {
			for k := range heads {
				most.at(i)[k] = max(most.at(i)[k], leaky(source.at(j)[k]+target.at(i)[k]))
			}
		})
		sums, weights := newRows(n, heads*channels), newRows(n, heads)
		each(func(i, j int32) {
			for k := range heads {
				w := expOf(leaky(source.at(j)[k]+target.at(i)[k]), most.at(i)[k])
				weights.at(i)[k] += w
				kernel.Axpy(sums.at(i)[k*channels:(k+1)*channels], w, p.at(j)[k*channels:])
			}
		})
		h = newRows(n, g.width[l+1])
		for i := range int32(n) {
			layer.join(h.at(i), sums.at(i), weights.at(i))
		}
		if l+1 < len(g.layers) {
			g.activation.apply(h.x)
		}
	}
	return h.x
}

// multiply sets dst to w·x, with w row-major.
func multiply(dst, w, x []float32) {
	for j := range dst {
		sum := float32(0)
		for k, v := range x {
			sum += float32(w[j*len(x)+k] * v)
		}
		dst[j] = sum
	}
}

// gatRow is a row by its parts. The self term is
//
//	p                Weight·x, Heads·Ch numbers
//	source, target   AttSrc_k · p_k and AttDst_k · p_k by head k
//
// and the aggregate, with sums over N(i) ∪ {i}, by head
//
//	reference        r, within headroom of the largest score a_ij, see addMessage
//	weights          Σ exp(a_ij - r)
//	sums             Σ exp(a_ij - r) p_j, Ch numbers
type gatRow struct{ p, source, target, reference, weights, sums []float32 }

func (l *GATLayer) parts(row []float32) gatRow {
	heads, all := l.Heads, len(l.AttSrc)
	var r gatRow
	for _, part := range []struct {
		at  *[]float32
		len int
	}{{&r.p, all}, {&r.source, heads}, {&r.target, heads}, {&r.reference, heads}, {&r.weights, heads}, {&r.sums, all}} {
		*part.at, row = row[:part.len], row[part.len:]
	}
	return r
}

// headroom is how far a score may exceed the reference before the sums are
// rescaled to that score as the new reference. (Milakov, Gimelshein: Online
// normalizer calculation for softmax, 2018, rescale at every new maximum: headroom
// 0.) A sum of 2³¹ terms of at most e¹⁶ ≈ 8.9e6 is about 2e16, far from float32's
// 3.4e38. The reference was the score of some term, whose weight was then 1, so
// what underflows beside it is negligible.
const headroom = 16

func (g *GAT) finishSelf(self []float32) {
	layer := &g.layers[0]
	all, heads := len(layer.AttSrc), layer.Heads
	p := self[:all]
	dots(self[all:all+heads], layer.AttSrc, p)
	dots(self[all+heads:], layer.AttDst, p)
}

// resetAggregate sets the aggregate to the node's attention to itself, which has
// weight exp(0) = 1 relative to its own score as the reference.
func (g *GAT) resetAggregate(row []float32) {
	r := g.layers[0].parts(row)
	copy(r.sums, r.p)
	for k := range r.reference {
		r.reference[k] = leaky(r.source[k] + r.target[k])
		r.weights[k] = 1
	}
}

func (g *GAT) addMessage(row, neighbour []float32) {
	layer := &g.layers[0]
	all, channels := len(layer.AttSrc), layer.channels()
	r := layer.parts(row)
	p, source := neighbour[:all], neighbour[all:]
	for k := range r.reference {
		a := leaky(source[k] + r.target[k])
		sum := r.sums[k*channels : (k+1)*channels]
		if a > r.reference[k]+headroom {
			shrink := expOf(r.reference[k], a)
			kernel.Scale(sum, shrink)
			r.weights[k] *= shrink
			r.reference[k] = a
		}
		w := expOf(a, r.reference[k])
		r.weights[k] += w
		kernel.Axpy(sum, w, p[k*channels:])
	}
}

// addToHub is addMessage in float64.
func (g *GAT) addToHub(aggregate []float64, self, neighbour []float32) {
	layer := &g.layers[0]
	all, heads, channels := len(layer.AttSrc), layer.Heads, layer.channels()
	reference, weights, sums := aggregate[:heads], aggregate[heads:2*heads], aggregate[2*heads:]
	p, source, target := neighbour[:all], neighbour[all:], self[all+heads:]
	for k := range reference {
		a := leaky(source[k] + target[k])
		sum := sums[k*channels : (k+1)*channels]
		if a > float32(reference[k])+headroom {
			shrink := float64(expOf(float32(reference[k]), a))
			for c := range sum {
				sum[c] *= shrink
			}
			weights[k] *= shrink
			reference[k] = float64(a)
		}
		w := float64(expOf(a, float32(reference[k])))
		weights[k] += w
		for c, x := range p[k*channels : (k+1)*channels] {
			sum[c] += float64(w * float64(x))
		}
	}
}

// messageColumns is 1: a score depends on all channels of its head.
func (g *GAT) messageColumns() int { return 1 }

func (g *GAT) prefetchMessages(rows *kernel.Table[float32], neighbours []int32, _, _ int) {
	kernel.Prefetch(rows, neighbours, 0, g.self+g.aggregate)
}

func (g *GAT) exchangeMessages(rows *kernel.Table[float32], v int32, neighbours []int32, _, _ int) {
	row := rows.Row(v)
	for _, u := range neighbours {
		g.addMessage(row, rows.Row(u))
		g.addMessage(rows.Row(u), row)
	}
}

func (g *GAT) baseInput(dst []float32, graph *Graph, v int32, w *workspace) {
	layer := &g.layers[0]
	r := layer.parts(graph.rows.row(v, &w.row))
	layer.join(dst, r.sums, r.weights)
}

// precompute stores each state's AttSrc_k · p_k and AttDst_k · p_k.
func (g *GAT) precompute(l int, s *states) {
	s.cached = kernel.Resize(s.cached, len(s.degree)*g.scores[l].out)
	g.scores[l].apply(s.cached, s.h)
}

func (g *GAT) gather(l int, dst []float32, s *states, at []int32, w *workspace) {
	heads := g.layers[l].Heads
	notes := func(i int32) []float32 { return s.cached[int(i)*2*heads:] }
	w.share = kernel.Resize(w.share, len(at))
	for k := range heads {
		target := notes(at[0])[heads+k]
		most := float32(math.Inf(-1))
		for t, j := range at {
			w.share[t] = leaky(notes(j)[k] + target)
			most = max(most, w.share[t])
		}
		for t, a := range w.share {
			w.share[t] = expOf(a, most)
		}
		mean := dst[k*s.width : (k+1)*s.width]
		w.gatherShares(mean, s, at)
		kernel.Scale(mean, 1/total(w.share))
	}
}

func loadGAT(d *stateDict, activation Activation) (Encoder, error) {
	return loadLayers(d, activation, newGAT, func(prefix string) (GATLayer, int) {
		name := prefix + "lin.weight"
		var target []float32
		if d.has(prefix + "lin_src.weight") {
			name = prefix + "lin_src.weight"
			target, _ = d.tensor(prefix+"lin_dst.weight", 2)
		}
		w, shape := d.tensor(name, 2)
		if target != nil && d.err == nil && !slices.Equal(w, target) {
			d.err = fmt.Errorf("tensors %slin_src.weight and lin_dst.weight differ: a layer from one set of nodes to "+
				"another, which is not supported", prefix)
		}
		attSrc, s := d.tensor(prefix+"att_src", 3)
		attDst, t := d.tensor(prefix+"att_dst", 3)
		bias, _ := d.tensor(prefix+"bias", 1)
		d.want(prefix+"att_src", s, 1, s[1], s[2])
		d.want(prefix+"att_dst", t, s...)
		d.want(name, shape, len(attSrc), shape[1])
		return GATLayer{s[1], w, attSrc, attDst, bias}, shape[1]
	})
}
