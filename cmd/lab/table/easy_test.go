package table

import (
	"math/rand/v2"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline/model"
)

// easy returns a graph of 150 nodes in three classes that can be told apart both by the
// features and by the neighbours.
func easy() *dataset.Dataset {
	const n, classes, dim = 150, 3, 6
	rng := rand.New(rand.NewPCG(7, 7))
	d := &dataset.Dataset{Name: "easy", Dim: dim, Classes: []string{"a", "b", "c"}}
	for v := range n {
		y := v % classes
		x := make([]float32, dim)
		for j := range x {
			x[j] = float32(rng.NormFloat64())
		}
		x[y] += 2
		d.Features = append(d.Features, gnn.Vector{Dense: x})
		d.Labels = append(d.Labels, int32(y))
		for range 3 {
			u := rng.IntN(n)
			if rng.Float64() < .8 {
				u = u/classes*classes + y
			}
			d.Edges = append(d.Edges, [2]int32{int32(v), int32(u)})
		}
	}
	return d
}

// easySource returns easy as a source with 45 training nodes and 8 steps, unless the cut
// asks for others.
func easySource() Source {
	s := Of(easy(), dataset.Cut{})
	open := s.Open
	s.Open = func(c dataset.Cut) (*dataset.Dataset, dataset.Stream, error) {
		if c.Share == 0 {
			c.Share = .3
		}
		if c.Steps == 0 {
			c.Steps = 8
		}
		return open(c)
	}
	return s
}

// quick returns settings with which training takes well under a second.
func quick() Settings {
	s := DefaultSettings()
	s.Phase1 = model.Config{Hidden: []int{16}, Embedding: 8, Epochs: 60, Samples: 4, LearningRate: .02, WeightDecay: 5e-4, Dropout: .3}
	s.Passes, s.Members, s.Folds = 20, 3, 3
	return s
}

// ready returns the trainer and the replay of a source at a seed.
func ready(t *testing.T, source Source, settings Settings, seed uint64) (*trainer, *replay) {
	t.Helper()
	d, cut, err := source.Open(dataset.Cut{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTrainer(t.Context(), d, cut, settings, seed)
	if err != nil {
		t.Fatal(err)
	}
	return tr, newReplay(d, cut, tr.normalizer)
}

// run returns the results of a plan.
func run(t *testing.T, plan Plan, existing ...Result) []Result {
	t.Helper()
	var got []Result
	missing, _ := plan.Missing(existing)
	if err := Run(t.Context(), plan, missing, func(r Result) error {
		got = append(got, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// shareOf returns s with another share of training nodes.
func shareOf(s Source, share float64) Source {
	open := s.Open
	s.Open = func(c dataset.Cut) (*dataset.Dataset, dataset.Stream, error) {
		c.Share = share
		return open(c)
	}
	return s
}
