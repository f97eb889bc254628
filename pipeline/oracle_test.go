package pipeline_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/posterior"
)

// TestEngineIsAlgorithm1 compares the engine with the paper's Algorithm 1, which encodes
// the whole graph from scratch for every batch, and learns it at once or a lag later.
func TestEngineIsAlgorithm1(t *testing.T) {
	for seed, lag := range map[uint64]int{1: 0, 2: 0, 3: 0, 4: 1, 5: 2, 6: 7} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			m := randomModel(t, rng)
			cfg := pipeline.Config{Update: posterior.Config{Lambda: .95, Eta: .7, Beta: .02, Clip: .2, Epsilon: 1e-8}, LearnLag: lag}
			e := pipelinetest.NewEngine(t, m, cfg)
			plain := newAlgorithm1(m, cfg.Update)
			for number := range int64(25) {
				w, batch := randomBatch(rng, m, plain)
				w.Number = number
				got := e.Step(w)
				want := plain.serve(batch)
				if len(plain.waiting) > lag {
					plain.learn()
				}
				for i, p := range got.Predictions {
					for c, q := range p.Probabilities {
						if math.Abs(float64(q)-want[i][c]) > 2e-5 {
							t.Fatalf("window %d, node %v, class %d: probability %v, want %v of Algorithm 1", number, p.Node, c, q, want[i][c])
						}
					}
				}
				if len(got.Labelled) != len(batch.labels) {
					t.Fatalf("window %d: %d labels were joined, want %d", number, len(got.Labelled), len(batch.labels))
				}
			}
		})
	}
}

// batch is a batch D_t and the edges that it adds to the graph G_t.
type batch struct {
	x      [][]float32
	edges  [][2]int32 // to earlier nodes, or nodes of the batch
	labels []int      // of every node of the batch
}

// algorithm1 is Algorithm 1 of the paper, in its order and notation.
type algorithm1 struct {
	m        *model.Model
	cfg      posterior.Config
	x        []gnn.Vector
	src, dst []int32
	mean     [][]float64 // M, d_e × C
	t        [][]float64 // T
	waiting  []embedded  // served and not yet learned, the oldest first
}

// embedded is a served batch: the embeddings of its nodes, n × d_e, and their labels.
type embedded struct {
	z      []float32
	labels []int
}

// newAlgorithm1 returns the state before the first batch.
func newAlgorithm1(m *model.Model, cfg posterior.Config) *algorithm1 {
	a := &algorithm1{m: m, cfg: cfg}
	for j := range m.Prior.Dim {
		a.mean = append(a.mean, slices.Clone(m.Prior.Mean[j*m.Prior.Classes:(j+1)*m.Prior.Classes]))
		a.t = append(a.t, slices.Clone(m.Prior.Precision[j*m.Prior.Classes:(j+1)*m.Prior.Classes]))
	}
	return a
}

// serve predicts the nodes of a batch, and returns their probabilities.
func (a *algorithm1) serve(b batch) (probs [][]float64) {
	d := a.m.Prior.Dim
	first := len(a.x)
	for _, x := range b.x {
		a.x = append(a.x, gnn.Vector{Dense: x})
	}
	for _, e := range b.edges {
		a.src, a.dst = append(a.src, e[0], e[1]), append(a.dst, e[1], e[0])
	}
	z := a.m.Encoder.Encode(a.x, a.src, a.dst)[first*d:]
	for v := range b.labels {
		probs = append(probs, a.predict(z[v*d:(v+1)*d]))
	}
	a.waiting = append(a.waiting, embedded{z, b.labels})
	return probs
}

// predict returns softmax(zᵀM/τ).
func (a *algorithm1) predict(z []float32) []float64 {
	p := make([]float64, a.m.Prior.Classes)
	sum := 0.0
	for c := range p {
		for j := range z {
			p[c] += float64(z[j]) * a.mean[j][c] / a.m.Temperature.At(z)
		}
		p[c] = math.Exp(p[c])
		sum += p[c]
	}
	for c := range p {
		p[c] /= sum
	}
	return p
}

// learn learns the labels of the batch that has waited longest.
func (a *algorithm1) learn() {
	d, classes := a.m.Prior.Dim, a.m.Prior.Classes
	b := a.waiting[0]
	a.waiting = a.waiting[1:]
	gradient, fisher := zeros(d, classes), zeros(d, classes)
	for v, y := range b.labels {
		zv := b.z[v*d : (v+1)*d]
		tau := a.m.Temperature.At(zv)
		for c, p := range a.predict(zv) {
			residual := -p
			if c == y {
				residual++
			}
			for j := range d {
				u := float64(zv[j]) / tau
				gradient[j][c] += u * residual
				fisher[j][c] += p * (1 - p) * u * u
			}
		}
	}
	for j := range d {
		for c := range classes {
			anchor := a.m.Prior.Precision[j*classes+c]
			g := gradient[j][c] - a.cfg.Beta*anchor*(a.mean[j][c]-a.m.Prior.Mean[j*classes+c])
			a.t[j][c] = a.cfg.Lambda*a.t[j][c] + a.cfg.Eta*fisher[j][c] + a.cfg.Eta*a.cfg.Beta*anchor
			step := a.cfg.Eta / (a.t[j][c] + a.cfg.Epsilon) * g
			a.mean[j][c] += min(max(step, -a.cfg.Clip), a.cfg.Clip)
		}
	}
}

func zeros(rows, cols int) [][]float64 {
	m := make([][]float64, rows)
	for i := range m {
		m[i] = make([]float64, cols)
	}
	return m
}

func randomModel(t *testing.T, rng *rand.Rand) *model.Model {
	t.Helper()
	const in, hidden, out, classes = 6, 8, 5, 4
	weights := func(n int) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(rng.NormFloat64() / 2)
		}
		return w
	}
	enc, err := gnn.NewSAGE(in, gnn.ReLU,
		gnn.SAGELayer{Neigh: weights(hidden * in), Bias: weights(hidden), Self: weights(hidden * in)},
		gnn.SAGELayer{Neigh: weights(out * hidden), Bias: weights(out), Self: weights(out * hidden)})
	if err != nil {
		t.Fatal(err)
	}
	m := &model.Model{
		ID:         "random",
		Meta:       model.Meta{Format: model.Format, Encoder: "graphsage", Classes: []string{"a", "b", "c", "d"}},
		Encoder:    enc,
		Normalizer: &gnn.Normalizer{Kind: gnn.NormalizeNone},
		Prior:      posterior.Gaussian{Dim: out, Classes: classes},
		Temperature: &posterior.Temperature{
			Dim: out, Hidden: 2, W1: make([]float64, 2*out), B1: []float64{.1, -.1}, W2: []float64{.3, -.2}, B2: .5,
		},
	}
	for i := range m.Temperature.W1 {
		m.Temperature.W1[i] = rng.NormFloat64() / 4
	}
	for range out * classes {
		m.Prior.Mean = append(m.Prior.Mean, rng.NormFloat64()/2)
		m.Prior.Precision = append(m.Prior.Precision, 1+10*rng.Float64())
	}
	return m
}

// randomBatch returns a batch, and the same batch as a window in which every node is
// labelled.
func randomBatch(rng *rand.Rand, m *model.Model, a *algorithm1) (*event.Window, batch) {
	first, n := len(a.x), 1+rng.IntN(12)
	w, b := &event.Window{}, batch{}
	for i := range n {
		x := make([]float32, m.Encoder.In())
		for j := range x {
			x[j] = float32(rng.NormFloat64())
		}
		v := int64(first + i)
		node := event.Node{Origin: &event.Origin{}, ID: event.ID{Num: v}, Dense: x}
		for _, u := range rng.Perm(first + i)[:min(first+i, rng.IntN(5))] {
			node.Neighbours = append(node.Neighbours, event.ID{Num: int64(u)})
			b.edges = append(b.edges, [2]int32{int32(u), int32(v)})
		}
		y := rng.IntN(len(m.Classes))
		w.Nodes = append(w.Nodes, node)
		w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: node.ID, Class: m.Classes[y]})
		b.x, b.labels = append(b.x, x), append(b.labels, y)
	}
	return w, b
}

// TestSameWindowsSameBits: two engines that step the same windows have the same outcomes.
func TestSameWindowsSameBits(t *testing.T) {
	outcomes := func() (all []*event.Outcome) {
		rng := rand.New(rand.NewPCG(7, 7))
		m := randomModel(t, rng)
		e := pipelinetest.NewEngine(t, m, pipeline.Config{Update: posterior.DefaultConfig()})
		a := newAlgorithm1(m, posterior.DefaultConfig())
		for number := range int64(20) {
			w, b := randomBatch(rng, m, a)
			a.serve(b)
			w.Number = number
			all = append(all, e.Step(w))
		}
		return all
	}
	if diff := cmp.Diff(outcomes(), outcomes()); diff != "" {
		t.Fatal(diff)
	}
}

// TestConfigErrors: New refuses invalid settings.
func TestConfigErrors(t *testing.T) {
	for _, cfg := range []pipeline.Config{
		{Bounds: pipeline.Bounds{Pending: -1}},
		{Update: posterior.Config{Lambda: 2, Eta: 1, Clip: 1}},
	} {
		if _, err := pipeline.New(pipelinetest.SmallModel(t), cfg); err == nil {
			t.Errorf("%+v is accepted, want an error", cfg)
		}
	}
}
