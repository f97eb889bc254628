package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/gvbll/gvbll/gnn"
)

// softmax is the simplest head: logits W·z with cross entropy.
type softmax struct {
	classes, dim int
	w, dw, p     []float64 // W and its gradient, classes × dim; the probabilities of one row
}

// newSoftmax returns a head with random weights.
func newSoftmax(classes, dim int, seed uint64) *softmax {
	h := &softmax{classes, dim, make([]float64, classes*dim), make([]float64, classes*dim), make([]float64, classes)}
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range h.w {
		h.w[i] = 0.3 * rng.NormFloat64()
	}
	return h
}

func (h *softmax) Params() [][]float64 { return [][]float64{h.w} }
func (h *softmax) Grads() [][]float64  { return [][]float64{h.dw} }

// predict sets p to the probabilities of an embedding, and returns the most probable class.
func (h *softmax) predict(z []float64) int {
	best, sum := 0, 0.0
	for c := range h.classes {
		h.p[c] = 0
		for j, z := range z {
			h.p[c] += h.w[c*h.dim+j] * z
		}
		if h.p[c] > h.p[best] {
			best = c
		}
	}
	top := h.p[best]
	for c := range h.p {
		h.p[c] = math.Exp(h.p[c] - top)
		sum += h.p[c]
	}
	for c := range h.p {
		h.p[c] /= sum
	}
	return best
}

func (h *softmax) Loss(z []float64, labels []int32, _, _ int, _ *rand.Rand, dz []float64) (loss Loss) {
	clear(h.dw)
	clear(dz)
	n := float64(len(labels))
	for i, y := range labels {
		row := z[i*h.dim : (i+1)*h.dim]
		if h.predict(row) == int(y) {
			loss.Correct++
		}
		loss.Total -= math.Log(h.p[y]) / n
		h.p[y]--
		for c, d := range h.p {
			for j := range row {
				h.dw[c*h.dim+j] += d * row[j] / n
				dz[i*h.dim+j] += d * h.w[c*h.dim+j] / n
			}
		}
	}
	loss.ELL = -loss.Total
	return loss
}

func (h *softmax) Correct(z []float64, labels []int32) (correct int) {
	for i, y := range labels {
		if h.predict(z[i*h.dim:(i+1)*h.dim]) == int(y) {
			correct++
		}
	}
	return correct
}

// blocks returns a graph of two blocks. Nine in ten edges are within a block, and each half
// of the vocabulary is more frequent in one block. Every third vector is dense.
func blocks(rng *rand.Rand, nodes, words int) Data {
	data := Data{X: make([]gnn.Vector, nodes), Labels: make([]int32, nodes)}
	for v := range nodes {
		y := rng.IntN(2)
		data.Labels[v] = int32(y)
		dense := make([]float32, words)
		for k := range dense {
			if rng.Float64() < 0.1+0.15*float64((k%2)^y) {
				dense[k] = 1
			}
		}
		if v%3 == 0 {
			data.X[v].Dense = dense
			continue
		}
		for k, x := range dense {
			if x != 0 {
				data.X[v].Index, data.X[v].Value = append(data.X[v].Index, uint32(k)), append(data.X[v].Value, x)
			}
		}
	}
	for range 2 * nodes {
		u, v := int32(rng.IntN(nodes)), int32(rng.IntN(nodes))
		if (data.Labels[u] == data.Labels[v]) == (rng.Float64() < 0.9) {
			data.Src, data.Dst = append(data.Src, u, v), append(data.Dst, v, u)
		}
	}
	return data
}

// weigh gives the edges means and weights.
func (d *Data) weigh(rng *rand.Rand, means int) {
	for range d.Src {
		d.Mean, d.Weight = append(d.Mean, uint8(rng.IntN(means))), append(d.Weight, 1+rng.Float32())
	}
}

// TestKindsForwardEqualsEncode: the network of edges with kinds and weights gives the
// embeddings of the encoder exported from it.
func TestKindsForwardEqualsEncode(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 12))
	data := blocks(rng, 80, 20)
	data.weigh(rng, 3)
	for kind, means := range meansOf {
		m := newModel[float32](Config{Encoder: kind, Activation: gnn.ReLU, In: 20, Means: means, Hidden: []int{8}, Out: 5, Seed: 1})
		enc, err := m.encoder()
		if err != nil {
			t.Fatal(err)
		}
		all := enc.(gnn.KindsEncoder).EncodeKinds(data.X, data.Src, data.Dst, data.Mean, data.Weight)
		got := newNetwork(m, data, []int32{70, 3}, newDropout[float32](0, nil), false).forward()
		for i, v := range []int{70, 3} {
			for j := range 5 {
				if d := math.Abs(float64(got[i*5+j] - all[v*5+j])); d > 1e-5 {
					t.Errorf("%s, node %d, output %d: off by %g", kind, v, j, d)
				}
			}
		}
	}
}

// meansOf has the encoders that hear kinds or weights of edges, and the means that they have here.
var meansOf = map[gnn.Kind]int{gnn.KindSAGE: 3, gnn.KindGCN: 1}

var kinds = []gnn.Kind{gnn.KindSAGE, gnn.KindGCN, gnn.KindGAT, gnn.KindGIN}

// TestGradients compares the gradient of every weight with differences of the loss in
// float64, over encoders, activations, depths, dropout, dense and sparse features, and
// losses on some of the nodes. The graph is directed, with loops and duplicate edges.
func TestGradients(t *testing.T) {
	for _, kind := range kinds {
		for _, activation := range []gnn.Activation{gnn.ReLU, gnn.ELU} {
			for _, hidden := range [][]int{{}, {8}, {8, 6}} {
				for _, chance := range []float64{0, 0.4} {
					for _, dense := range []bool{false, true} {
						t.Run(fmt.Sprint(kind, activation, hidden, chance, dense), func(t *testing.T) {
							cfg := Config{Encoder: kind, Activation: activation, Heads: 2, In: 6, Hidden: hidden, Out: 3, Dropout: chance, Seed: 4}
							testGradients(t, cfg, dense, false)
							testGradients(t, cfg, dense, true)
							if cfg.Means = meansOf[kind]; cfg.Means > 0 {
								testGradients(t, cfg, dense, false)
							}
						})
					}
				}
			}
		}
	}
}

// testGradients compares the gradients of one configuration, of the loss on nodes or on graphs.
func testGradients(t *testing.T, cfg Config, dense, graphs bool) {
	const nodes = 14
	rng := rand.New(rand.NewPCG(11, uint64(len(cfg.Hidden))))
	data := blocks(rng, nodes, cfg.In)
	for v := range data.X {
		if dense {
			x := make([]float32, cfg.In)
			for k := range x {
				x[k] = float32(rng.NormFloat64())
			}
			data.X[v] = gnn.Vector{Dense: x}
		}
	}
	for range 30 {
		data.Src = append(data.Src, int32(rng.IntN(nodes)))
		data.Dst = append(data.Dst, int32(rng.IntN(nodes)))
	}
	if cfg.Means > 0 {
		data.weigh(rng, cfg.Means)
	}
	targets := []int32{9, 2, 5, 13}
	labels := []int32{1, 0, 2, 1}
	width := cfg.Out
	if graphs {
		data.Graphs, data.Size, width = []int32{0, 3, 4, 9, 14}, 3.5, 2*cfg.Out
		targets = []int32{2, 0, 3, 1}
	}
	m := newModel[float64](cfg)
	for _, p := range m.params() {
		if !p.decays {
			for j := range p.value {
				p.value[j] = 1 + 0.2*rng.NormFloat64() // most units alive
			}
		}
	}
	source := rand.NewPCG(0, 0)
	n := newNetwork(m, data, targets, newDropout[float64](cfg.Dropout, source), true)
	head, dz := newSoftmax(3, width, 5), make([]float64, len(targets)*width)
	loss := func() float64 {
		source.Seed(6, 6)
		n.drop.draws.left = 0
		z := n.forward()
		return head.Loss(z, labels, 0, 1, nil, dz).Total
	}
	loss()
	n.backward(dz)

	for i, p := range m.params() {
		got := slices.Clone(p.grad)
		at := slices.Clone(p.value)
		want := fd.Gradient(nil, func(x []float64) float64 {
			copy(p.value, x)
			return loss()
		}, at, &fd.Settings{Formula: fd.Central})
		copy(p.value, at)
		moved := false
		for k := range want {
			moved = moved || want[k] != 0
			if d := math.Abs(got[k] - want[k]); d > 1e-7*max(1, math.Abs(want[k])) {
				t.Errorf("parameters %d, entry %d: gradient %g, differences %g", i, k, got[k], want[k])
			}
		}
		// A shift of all of a node's scores, which is what the target's attention
		// does unless a LeakyReLU bends, changes no softmax.
		if !moved && !(cfg.Encoder == gnn.KindGAT && i%4 == 2) {
			t.Errorf("parameters %d: all gradients are zero", i)
		}
	}
}

// TestForwardEqualsEncode: the network gives the embeddings of the encoder exported
// from it, and SampleDropout those of the encoder that it is given.
func TestForwardEqualsEncode(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	data := blocks(rng, 80, 20)
	data.Src, data.Dst = append(data.Src, 3, 3, 11), append(data.Dst, 3, 3, 11)
	for _, kind := range kinds {
		for _, hidden := range [][]int{{}, {8}, {4, 12}} {
			m := newModel[float32](Config{Encoder: kind, Activation: gnn.ELU, Heads: 4, In: 20, Hidden: hidden, Out: 5, Seed: 1})
			for _, p := range m.params() {
				if !p.decays {
					for j := range p.value {
						p.value[j] = float32(rng.NormFloat64())
					}
				}
			}
			enc, err := m.encoder()
			if err != nil {
				t.Fatal(err)
			}
			all := enc.Encode(data.X, data.Src, data.Dst)
			targets := []int32{70, 3, 11}
			check := func(how string, got []float32) {
				for i, v := range targets {
					for j := range 5 {
						if d := math.Abs(float64(got[i*5+j] - all[int(v)*5+j])); d > 1e-5 {
							t.Errorf("%s, %s, hidden %v, node %d, output %d: off by %g", kind, how, hidden, v, j, d)
						}
					}
				}
			}
			check("forward", newNetwork(m, data, targets, newDropout[float32](0, nil), false).forward())
			if sage, ok := enc.(*gnn.SAGE); ok {
				SampleDropout(sage, data, targets, 0, 1, 1, func(z []float32) { check("from the encoder", z) })
			}
		}
	}
}

// TestSampleDropout: samples differ, their mean approaches the embedding of a linear
// network, and equal seeds give equal samples.
func TestSampleDropout(t *testing.T) {
	data := blocks(rand.New(rand.NewPCG(12, 12)), 40, 20)
	m := newModel[float32](Config{Encoder: gnn.KindSAGE, Activation: gnn.ReLU, In: 20, Out: 3, Seed: 1})
	enc, err := m.encoder()
	if err != nil {
		t.Fatal(err)
	}
	want := enc.Encode(data.X, data.Src, data.Dst)[:2*3]
	run := func(n int, seed uint64) (mean []float64, last []float32) {
		mean = make([]float64, 6)
		SampleDropout(enc.(*gnn.SAGE), data, []int32{0, 1}, 0.3, n, seed, func(z []float32) {
			for i, v := range z {
				mean[i] += float64(v) / float64(n)
			}
			last = slices.Clone(z)
		})
		return mean, last
	}
	mean, _ := run(20_000, 1)
	for i, v := range want {
		if d := math.Abs(mean[i] - float64(v)); d > 0.05 {
			t.Errorf("entry %d: mean %v, want %v", i, mean[i], v)
		}
	}
	_, a := run(2, 5)
	_, b := run(3, 5)
	_, c := run(2, 5)
	if slices.Equal(a, b) || !slices.Equal(a, c) {
		t.Errorf("second sample %v, third %v, second with the same seed %v, want the first and last equal only", a, b, c)
	}
}

// TestDropoutKeepsExpectation: dropout does not change the mean, of dense, activated and
// sparse values.
func TestDropoutKeepsExpectation(t *testing.T) {
	const rows, width = 400, 50
	ones := make([]float64, rows*width)
	s := newSparse[float64](rows, 0)
	for i := range ones {
		ones[i] = 1
		s.add(int32(i%width), 1)
		if i%width == width-1 {
			s.start[i/width+1] = len(s.index)
		}
	}
	d := newDropout[float64](0.3, rand.NewPCG(1, 1))
	once := make([]float64, rows*width)
	d.activated(once, ones, gnn.ReLU)
	twice := make([]float64, rows*width)
	d.dense(twice, once)
	thin := newSparse[float64](rows, rows*width)
	d.sparse(&thin, &s)
	for name, values := range map[string][]float64{"once": once, "twice": twice, "sparse": thin.value[:thin.start[rows]]} {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		// The standard deviations of the means are 0.0046, 0.007 and 0.0046.
		if mean := sum / (rows * width); math.Abs(mean-1) > 0.03 {
			t.Errorf("dropout %s: mean %v, want 1", name, mean)
		}
	}
}

// TestTransposeSparse: a transposed sparse matrix has the entries of the dense one, with
// ascending rows.
func TestTransposeSparse(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 100 {
		rows, columns := 1+rng.IntN(6), 1+rng.IntN(6)
		dense := make([]float64, rows*columns)
		s := sparse[float64]{start: make([]int, 1)}
		for i := range rows {
			for k := range columns {
				if rng.IntN(2) == 0 {
					dense[i*columns+k] = rng.Float64()
					s.add(int32(k), dense[i*columns+k])
				}
			}
			s.endRow()
		}
		transposed := newSparse[float64](columns, len(s.index))
		s.transpose(&transposed)
		got := make([]float64, rows*columns)
		for k := range columns {
			index, value := transposed.row(k)
			for e, i := range index {
				got[int(i)*columns+k] = value[e]
			}
			if !slices.IsSorted(index) {
				t.Fatalf("rows %v out of order", index)
			}
		}
		if !slices.Equal(got, dense) {
			t.Fatalf("got %v, want %v", got, dense)
		}
	}
}

// TestAdam follows two steps by hand: with a constant gradient each step is the learning
// rate, and decay adds to the gradient. The third parameter has no gradient but decay,
// which reduces it at the full rate however small it is.
func TestAdam(t *testing.T) {
	param, grad := []float64{1, 1, 0.5}, []float64{3, -0.5, 0}
	a := newAdam(param, grad, 0)
	a.step(0.1)
	for i, want := range []float64{0.9, 1.1, 0.5} {
		if d := math.Abs(param[i] - want); d > 1e-7 {
			t.Errorf("parameter %d is %v, want %v", i, param[i], want)
		}
	}
	a = newAdam(param, []float64{3, -0.5, 0}, 1e-4)
	a.step(0.1)
	for i, want := range []float64{0.8, 1.2, 0.4} {
		if d := math.Abs(param[i] - want); d > 1e-4 {
			t.Errorf("parameter %d is %v, want %v", i, param[i], want)
		}
	}
}

// learnable returns data and a configuration for which a few epochs are enough.
func learnable() (Data, Config) {
	data := blocks(rand.New(rand.NewPCG(1, 2)), 300, 40)
	for v := int32(0); v < 300; v += 2 {
		data.Train = append(data.Train, v)
	}
	return data, Config{In: 40, Hidden: []int{16}, Out: 8, Epochs: 60, LearningRate: 0.01, WeightDecay: 5e-4, Dropout: 0.5, Seed: 7}
}

// TestLearns: the loss falls, progress is reported for every epoch, and encoder and head are
// right for nodes that were not trained on.
func TestLearns(t *testing.T) {
	data, cfg := learnable()
	head := newSoftmax(2, cfg.Out, 1)
	var seen []Progress
	enc, last, err := Fit(t.Context(), data, head, cfg, func(p Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != cfg.Epochs || seen[cfg.Epochs-1] != last {
		t.Errorf("%d calls of progress, the last epoch %+v, want %d epochs", len(seen), last, cfg.Epochs)
	}
	if first := seen[0]; last.Loss.Total > 0.5*first.Loss.Total || last.Accuracy < 0.9 {
		t.Errorf("first epoch %+v, last %+v, want half the loss and an accuracy of at least 0.9", first, last)
	}

	z := enc.Encode(data.X, data.Src, data.Dst)
	correct := 0
	row := make([]float64, cfg.Out)
	for v := 1; v < 300; v += 2 {
		convert(row, z[v*cfg.Out:][:cfg.Out])
		correct += head.Correct(row, data.Labels[v:v+1])
	}
	if correct < 135 {
		t.Errorf("%d of 150 other nodes are classified as their labels say, want 135", correct)
	}
}

// TestSameBitsTwice: the same seed gives the same bits of encoder, head and loss, and
// another seed gives others.
func TestSameBitsTwice(t *testing.T) {
	data, cfg := learnable()
	cfg.Epochs = 10
	run := func(seed uint64) (bits []uint64) {
		cfg.Seed = seed
		head := newSoftmax(2, cfg.Out, 1)
		enc, last, err := Fit(t.Context(), data, head, cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, z := range enc.Encode(data.X, data.Src, data.Dst) {
			bits = append(bits, uint64(math.Float32bits(z)))
		}
		for _, w := range head.w {
			bits = append(bits, math.Float64bits(w))
		}
		return append(bits, math.Float64bits(last.Loss.Total))
	}
	if !slices.Equal(run(1), run(1)) {
		t.Error("the same seed gives different bits")
	}
	if slices.Equal(run(1), run(2)) {
		t.Error("different seeds give the same bits")
	}
}

// TestCancel: training ends after the epoch in which its context is cancelled, with the
// cause.
func TestCancel(t *testing.T) {
	data, cfg := learnable()
	cfg.Epochs = 1 << 30
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	epochs := 0
	_, _, err := Fit(ctx, data, newSoftmax(2, cfg.Out, 1), cfg, func(p Progress) {
		if epochs++; p.Epoch == 2 {
			cancel(why)
		}
	})
	if !errors.Is(err, why) || epochs != 3 {
		t.Errorf("%d epochs, error %v, want 3 and %v", epochs, err, why)
	}
}

// plain is a head that cannot be scored, with a constant loss.
type plain struct{ total float64 }

func (p plain) Params() [][]float64 { return nil }
func (p plain) Grads() [][]float64  { return nil }
func (p plain) Loss(_ []float64, _ []int32, _, _ int, _ *rand.Rand, dz []float64) Loss {
	clear(dz)
	return Loss{Total: p.total}
}

// TestRefuses: the error for invalid data or settings, or for a loss that diverges, says
// what is wrong.
func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(*Data, *Config)
	}{
		{"features", "node 3: features: 2 dense", func(d *Data, _ *Config) { d.X[3] = gnn.Vector{Dense: make([]float32, 2)} }},
		{"edges", "sources of edges", func(d *Data, _ *Config) { d.Src = d.Src[1:] }},
		{"edge", "edge 0 goes from node 300", func(d *Data, _ *Config) { d.Src[0] = 300 }},
		{"labels", "labels", func(d *Data, _ *Config) { d.Labels = d.Labels[1:] }},
		{"no training", "no training nodes", func(d *Data, _ *Config) { d.Train = nil }},
		{"training twice", "training node 2", func(d *Data, _ *Config) { d.Train[0] = 2 }},
		{"dropout", "dropout is 1", func(_ *Data, c *Config) { c.Dropout = 1 }},
		{"all", "embeddings is 0", func(_ *Data, c *Config) { *c = Config{Hidden: []int{0}} }},
		{"diverged", "lower the learning rate", func(_ *Data, c *Config) { c.LearningRate = 1e30 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, cfg := learnable()
			c.change(&data, &cfg)
			_, _, err := Fit(t.Context(), data, newSoftmax(2, 8, 1), cfg, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}

	data, cfg := learnable()
	if _, _, err := Fit(t.Context(), data, plain{math.NaN()}, cfg, nil); err == nil {
		t.Error("a loss of NaN succeeded, want an error")
	}
}

// coraLike returns a graph of Cora's size: 2,708 nodes with 18 of 1,433 words each, 5,278
// edges and 7 classes.
func coraLike() Data {
	const nodes, words = 2708, 1433
	rng := rand.New(rand.NewPCG(1, 1))
	data := Data{X: make([]gnn.Vector, nodes), Labels: make([]int32, nodes)}
	for v := range data.X {
		seen := map[uint32]bool{}
		for len(seen) < 18 {
			seen[uint32(rng.IntN(words))] = true
		}
		for k := range uint32(words) {
			if seen[k] {
				data.X[v].Index, data.X[v].Value = append(data.X[v].Index, k), append(data.X[v].Value, 1./18)
			}
		}
		data.Labels[v] = int32(rng.IntN(7))
	}
	for range 5278 {
		u, v := int32(rng.IntN(nodes)), int32(rng.IntN(nodes))
		data.Src, data.Dst = append(data.Src, u, v), append(data.Dst, v, u)
	}
	return data
}

// BenchmarkEpoch measures the encoder's part of an epoch (forward, backward, Adam) with
// dropout: on a graph like Cora with loss on all nodes, and on 20,000 nodes with 128 dense
// features.
func BenchmarkEpoch(b *testing.B) {
	large := Data{Labels: make([]int32, 20_000)}
	rng := rand.New(rand.NewPCG(2, 2))
	for v := range large.Labels {
		x := make([]float32, 128)
		for k := range x {
			x[k] = float32(rng.NormFloat64())
		}
		large.X = append(large.X, gnn.Vector{Dense: x})
		for range 7 {
			u := rng.Int32N(20_000)
			large.Src, large.Dst = append(large.Src, u, int32(v)), append(large.Dst, int32(v), u)
		}
	}
	for _, c := range []struct {
		name            string
		data            Data
		in, hidden, out int
	}{{"cora", coraLike(), 1433, 64, 16}, {"dense", large, 128, 128, 64}} {
		for _, kind := range kinds {
			b.Run(c.name+"/"+string(kind), func(b *testing.B) {
				cfg := Config{Encoder: kind, Activation: gnn.ReLU, Heads: 4, In: c.in, Hidden: []int{c.hidden}, Out: c.out, LearningRate: 0.01, WeightDecay: 5e-4, Seed: 1}
				m := newModel[float32](cfg)
				rows := make([]int32, len(c.data.X))
				for i := range rows {
					rows[i] = int32(i)
				}
				n := newNetwork(m, c.data, rows, newDropout[float32](0.5, rand.NewPCG(3, 3)), true)
				dz := make([]float64, len(rows)*c.out)
				for i := range dz {
					dz[i] = rng.NormFloat64() / float64(len(rows))
				}
				s := newOptimizer(m.params(), plain{}, cfg)
				b.ReportAllocs()
				for b.Loop() {
					n.forward()
					n.backward(dz)
					s.step()
				}
			})
		}
	}
}
