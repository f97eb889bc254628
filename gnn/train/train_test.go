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

// softmax is the simplest head: logits W·z, cross entropy.
type softmax struct {
	classes, dim int
	w, dw, p     []float64 // classes×dim, and one row's probabilities
}

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

// predict sets p to the probabilities of the embedding and returns the best.
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

// blocks returns a graph of two blocks: nodes are linked within their own nine
// times out of ten, and words of either half of the vocabulary go a little
// more with one block. Every third vector is dense.
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

// TestGradients compares every weight's gradient with differences of the loss,
// in float64, over depths, dropout, and targets that are some of the nodes.
// The graph is directed, with loops and duplicate edges.
func TestGradients(t *testing.T) {
	for _, hidden := range [][]int{{}, {4}, {5, 3}} {
		for _, chance := range []float64{0, 0.4} {
			t.Run(fmt.Sprint(hidden, chance), func(t *testing.T) {
				const nodes, words, out = 14, 6, 3
				rng := rand.New(rand.NewPCG(11, uint64(len(hidden))))
				data := blocks(rng, nodes, words)
				for range 30 {
					data.Src = append(data.Src, int32(rng.IntN(nodes)))
					data.Dst = append(data.Dst, int32(rng.IntN(nodes)))
				}
				targets := []int32{9, 2, 5, 13}
				labels := []int32{1, 0, 2, 1}
				w := newWeights[float64](Config{In: words, Hidden: hidden, Out: out, Seed: 4})
				for i := range w.layers {
					for j := range w.layers[i].bias {
						w.layers[i].bias[j] = 0.2 * rng.NormFloat64()
					}
				}
				n := newNetwork(w, data, targets, chance)
				n.reserveGradients()
				head := newSoftmax(3, out, 5)
				loss := func() float64 {
					z := n.forward(rand.NewPCG(6, 6))
					return head.Loss(z, labels, 0, 1, nil, n.out.grad).Total
				}
				loss()
				n.backward()

				for i, param := range w.params() {
					got := slices.Clone(w.grads()[i])
					at := slices.Clone(param)
					want := fd.Gradient(nil, func(x []float64) float64 {
						copy(param, x)
						return loss()
					}, at, &fd.Settings{Formula: fd.Central})
					copy(param, at)
					moved := false
					for k := range want {
						moved = moved || want[k] != 0
						if d := math.Abs(got[k] - want[k]); d > 1e-7 {
							t.Errorf("parameters %d, entry %d: gradient %g, differences %g", i, k, got[k], want[k])
						}
					}
					if !moved {
						t.Errorf("parameters %d: all gradients are zero", i)
					}
				}
			})
		}
	}
}

// TestForwardEqualsEncode: what is trained is what will be served.
func TestForwardEqualsEncode(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	data := blocks(rng, 80, 20)
	for _, hidden := range [][]int{{}, {8}, {7, 9}} {
		w := newWeights[float32](Config{In: 20, Hidden: hidden, Out: 5, Seed: 1})
		enc, err := w.encoder()
		if err != nil {
			t.Fatal(err)
		}
		all := enc.Encode(data.X, data.Src, data.Dst)
		targets := []int32{70, 3, 11}
		got := newNetwork(w, data, targets, 0).forward(nil)
		for i, v := range targets {
			for j := range 5 {
				if d := math.Abs(float64(got[i*5+j] - all[int(v)*5+j])); d > 1e-5 {
					t.Errorf("hidden %v, node %d, output %d: off by %g", hidden, v, j, d)
				}
			}
		}
	}
}

func TestDropoutKeepsExpectation(t *testing.T) {
	const rows, width = 400, 50
	ones := make([]float64, rows*width)
	for i := range ones {
		ones[i] = 1
	}
	d := newDropout[float64](0.3)
	left := newSparse[float64](rows, rows*width)
	d.rectified(&left, ones, width, rand.NewPCG(1, 1))
	again := newSparse[float64](rows, rows*width)
	d.sparse(&again, &left, rand.NewPCG(2, 2))
	for name, s := range map[string]*sparse[float64]{"once": &left, "twice": &again} {
		sum := 0.0
		_, _ = s.row(rows - 1)
		for _, v := range s.value[:s.start[rows]] {
			sum += v
		}
		// Standard deviations 0.0046 and 0.007.
		if mean := sum / (rows * width); math.Abs(mean-1) > 0.03 {
			t.Errorf("dropout %s: mean %v, want 1", name, mean)
		}
	}
}

func TestTranspose(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 100 {
		rows, columns := 1+rng.IntN(6), 1+rng.IntN(6)
		upto := rng.IntN(rows + 1)
		dense := make([]float64, rows*columns)
		s := newSparse[float64](rows, 0)
		for i := range rows {
			for k := range columns {
				if rng.IntN(2) == 0 {
					dense[i*columns+k] = rng.Float64()
					s.index, s.value = append(s.index, int32(k)), append(s.value, dense[i*columns+k])
				}
			}
			s.start[i+1] = len(s.index)
		}
		transposed, split := newSparse[float64](columns, len(s.index)), make([]int, columns)
		s.transpose(&transposed, upto, split)
		got := make([]float64, rows*columns)
		for k := range columns {
			index, value := transposed.row(k)
			for e, i := range index {
				got[int(i)*columns+k] = value[e]
				if below := transposed.start[k]+e < split[k]; below != (int(i) < upto) {
					t.Fatalf("row %d of the first %d: below the split %v", i, upto, below)
				}
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

// TestAdam follows two steps by hand: of a constant gradient each step is the
// learning rate, and decay is a gradient of its own. The third parameter has no
// other: its decay takes it down at the full rate, however small it is.
func TestAdam(t *testing.T) {
	param, grad := []float64{1, 1, 0.5}, []float64{3, -0.5, 0}
	a := newAdam(param, grad)
	a.step(0.1, 0)
	for i, want := range []float64{0.9, 1.1, 0.5} {
		if d := math.Abs(param[i] - want); d > 1e-7 {
			t.Errorf("parameter %d is %v, want %v", i, param[i], want)
		}
	}
	a = newAdam(param, []float64{3, -0.5, 0})
	a.step(0.1, 1e-4)
	for i, want := range []float64{0.8, 1.2, 0.4} {
		if d := math.Abs(param[i] - want); d > 1e-4 {
			t.Errorf("parameter %d is %v, want %v", i, param[i], want)
		}
	}
}

// learnable returns data and a configuration that a few epochs suffice for.
func learnable() (Data, Config) {
	data := blocks(rand.New(rand.NewPCG(1, 2)), 300, 40)
	for v := range int32(300) {
		if v%2 == 0 {
			data.Train = append(data.Train, v)
		} else {
			data.Validate = append(data.Validate, v)
		}
	}
	return data, Config{In: 40, Hidden: []int{16}, Out: 8, Epochs: 60, LearningRate: 0.01, WeightDecay: 5e-4, Dropout: 0.5, Seed: 7}
}

func TestLearns(t *testing.T) {
	data, cfg := learnable()
	head := newSoftmax(2, cfg.Out, 1)
	var seen []Progress
	enc, report, err := Fit(context.Background(), data, head, cfg, func(p Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != cfg.Epochs || report.Epochs != cfg.Epochs || seen[cfg.Epochs-1] != report.Last || report.Best != report.Last {
		t.Errorf("%d calls of progress; report %+v", len(seen), report)
	}
	if first, last := seen[0], report.Last; last.Loss.Total > 0.5*first.Loss.Total || last.ValidAccuracy < 0.9 || last.TrainAccuracy < 0.9 {
		t.Errorf("from %+v to %+v: did not learn", first, last)
	}

	// The encoder returned scores as the last epoch did.
	z := enc.Encode(data.X, data.Src, data.Dst)
	correct := 0
	row := make([]float64, cfg.Out)
	for _, v := range data.Validate {
		widen(row, z[int(v)*cfg.Out:][:cfg.Out])
		correct += head.Correct(row, data.Labels[v:v+1])
	}
	if got := float64(correct) / float64(len(data.Validate)); got != report.Last.ValidAccuracy {
		t.Errorf("the encoder returned scores %v, the report says %v", got, report.Last.ValidAccuracy)
	}
}

func TestSameBitsTwice(t *testing.T) {
	data, cfg := learnable()
	cfg.Epochs = 10
	run := func(seed uint64) (bits []uint64) {
		cfg.Seed = seed
		head := newSoftmax(2, cfg.Out, 1)
		enc, report, err := Fit(context.Background(), data, head, cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, z := range enc.Encode(data.X, data.Src, data.Dst) {
			bits = append(bits, uint64(math.Float32bits(z)))
		}
		for _, w := range head.w {
			bits = append(bits, math.Float64bits(w))
		}
		return append(bits, math.Float64bits(report.Last.Loss.Total))
	}
	if !slices.Equal(run(1), run(1)) {
		t.Error("the same seed twice, different bits")
	}
	if slices.Equal(run(1), run(2)) {
		t.Error("different seeds, the same bits")
	}
}

func TestPatience(t *testing.T) {
	data, cfg := learnable()
	cfg.Epochs, cfg.Patience = 400, 5
	head := newSoftmax(2, cfg.Out, 1)
	bestHead := []float64(nil)
	best := -1.0
	enc, report, err := Fit(context.Background(), data, head, cfg, func(p Progress) {
		if p.ValidAccuracy > best {
			best, bestHead = p.ValidAccuracy, slices.Clone(head.w)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Epochs >= cfg.Epochs || report.Last.Epoch != report.Best.Epoch+cfg.Patience {
		t.Errorf("%d epochs, best %d, patience %d", report.Epochs, report.Best.Epoch, cfg.Patience)
	}
	if report.Best.ValidAccuracy != best || !slices.Equal(head.w, bestHead) {
		t.Error("the head is not left as it was in the best epoch")
	}
	z, row, correct := enc.Encode(data.X, data.Src, data.Dst), make([]float64, cfg.Out), 0
	for _, v := range data.Validate {
		widen(row, z[int(v)*cfg.Out:][:cfg.Out])
		correct += head.Correct(row, data.Labels[v:v+1])
	}
	if got := float64(correct) / float64(len(data.Validate)); got != best {
		t.Errorf("the encoder returned scores %v, the best epoch did %v", got, best)
	}
}

func TestCancel(t *testing.T) {
	data, cfg := learnable()
	cfg.Epochs = 1 << 30
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	epochs := 0
	_, report, err := Fit(ctx, data, newSoftmax(2, cfg.Out, 1), cfg, func(p Progress) {
		if epochs++; p.Epoch == 2 {
			cancel(why)
		}
	})
	if !errors.Is(err, why) || epochs != 3 || report.Epochs != 3 {
		t.Errorf("%d epochs, report of %d, error %v", epochs, report.Epochs, err)
	}
}

// plain is a head without Correct; its loss is what it is given.
type plain struct{ total float64 }

func (p plain) Params() [][]float64 { return nil }
func (p plain) Grads() [][]float64  { return nil }
func (p plain) Loss(_ []float64, _ []int32, _, _ int, _ *rand.Rand, dz []float64) Loss {
	clear(dz)
	return Loss{Total: p.total}
}

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
		{"validation", "validation node -1", func(d *Data, _ *Config) { d.Validate[0] = -1 }},
		{"patience", "patience needs validation", func(d *Data, c *Config) { d.Validate, c.Patience = nil, 1 }},
		{"dropout", "dropout is 1", func(_ *Data, c *Config) { c.Dropout = 1 }},
		{"all", "embeddings is 0", func(_ *Data, c *Config) { *c = Config{Hidden: []int{0}} }},
		{"diverged", "lower the learning rate", func(_ *Data, c *Config) { c.LearningRate = 1e30 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, cfg := learnable()
			c.change(&data, &cfg)
			_, _, err := Fit(context.Background(), data, newSoftmax(2, 8, 1), cfg, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}

	data, cfg := learnable()
	if _, _, err := Fit(context.Background(), data, plain{}, cfg, nil); err == nil {
		t.Error("validation of a head that cannot be scored: want an error")
	}
	data.Validate = nil
	if _, _, err := Fit(context.Background(), data, plain{math.NaN()}, cfg, nil); err == nil {
		t.Error("the loss is no number: want an error")
	}
	if _, report, err := Fit(context.Background(), data, plain{1}, cfg, nil); err != nil || !math.IsNaN(report.Last.ValidAccuracy) {
		t.Errorf("without validation: %+v, %v", report, err)
	}
}

// coraLike returns a graph of Cora's size: 2,708 nodes, 1,433 words of which a
// node has 18, 5,278 edges, 7 classes.
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

// BenchmarkEpoch is the encoder's part of an epoch (forward, backward, Adam)
// on a graph like Cora, with loss on the standard split's 140 nodes, on 60 %,
// and on all.
func BenchmarkEpoch(b *testing.B) {
	data := coraLike()
	for _, targets := range []int{140, 1624, 2708} {
		for _, chance := range []float64{0, 0.5} {
			b.Run(fmt.Sprintf("targets=%d/dropout=%v", targets, chance), func(b *testing.B) {
				cfg := Config{In: 1433, Hidden: []int{64}, Out: 64, LearningRate: 0.01, WeightDecay: 5e-4, Seed: 1}
				w := newWeights[float32](cfg)
				rows := make([]int32, targets)
				for i := range rows {
					rows[i] = int32(i)
				}
				n := newNetwork(w, data, rows, chance)
				n.reserveGradients()
				rng := rand.New(rand.NewPCG(2, 2))
				for i := range n.out.grad {
					n.out.grad[i] = float32(rng.NormFloat64()) / float32(targets)
				}
				s := newSteps(w, plain{}, cfg)
				source := rand.NewPCG(3, 3)
				b.ReportAllocs()
				for b.Loop() {
					n.forward(source)
					n.backward()
					s.take()
				}
			})
		}
	}
}
