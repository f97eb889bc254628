package shardstest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/shards"
)

// Together is all shards of a graph, whose embeddings can be seen and set.
type Together struct {
	*shards.All
	given []float32   // embeddings in place of those that the only shard computes, nil for none
	z     [][]float32 // of the window's arrivals, by shard
	last  *event.Outcome
}

// NewTogether returns a graph in P shards, which so many threads step.
func NewTogether(t testing.TB, m *model.Model, cfg pipeline.Config, P, n int) *Together {
	t.Helper()
	s := &Together{z: make([][]float32, P)}
	run, calls := Threads(n), 0
	all, err := shards.NewAll(m, cfg, P, func(n int, each func(i int)) {
		run(n, each)
		if calls++; calls%2 == 1 { // the first one of a step: all have entered the window
			s.entered()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.All = all
	return s
}

// entered adds up the parts of the embeddings.
func (s *Together) entered() {
	if s.given != nil {
		copy(s.Shards[0].Part(0), s.given)
	}
	for q := range s.z {
		parts := make([][]float32, len(s.Shards))
		for p, shard := range s.Shards {
			parts[p] = slices.Clone(shard.Part(q)) // SumSlices overwrites them
		}
		s.z[q] = make([]float32, len(parts[0]))
		gnn.SumSlices(s.z[q], parts)
	}
}

// Step is [shards.All.Step].
func (s *Together) Step(w *event.Window) *event.Outcome {
	s.last = s.All.Step(w)
	return s.last
}

// StepWith is Step of a graph in one shard with other embeddings of the arrivals.
func (s *Together) StepWith(w *event.Window, z []float32) *event.Outcome {
	s.given = z
	defer func() { s.given = nil }()
	return s.Step(w)
}

// Embeddings returns those of the window's arrivals, as the shards added them up.
func (s *Together) Embeddings() (z []float32) {
	by := make(map[event.ID]int)
	for p, out := range s.Parts() {
		for i := range out.Predictions {
			by[out.Predictions[i].Node] = p
		}
	}
	next := make([]int, len(s.z))
	d := s.Trainer.Model().Prior.Dim
	for i := range s.last.Predictions {
		p := by[s.last.Predictions[i].Node]
		z = append(z, s.z[p][next[p]*d:][:d]...)
		next[p]++
	}
	return z
}

// Threads returns a runner of that many threads.
func Threads(n int) shards.Runner {
	return func(tasks int, each func(i int)) {
		next := make(chan int, tasks)
		for i := range tasks {
			next <- i
		}
		close(next)
		var group sync.WaitGroup
		for range n {
			group.Go(func() {
				for i := range next {
					each(i)
				}
			})
		}
		group.Wait()
	}
}

// ShardedModel returns a model whose encoder can be cut into 2, 3, 4 and 8 slices.
func ShardedModel(t testing.TB, kind gnn.Kind, seed uint64) (*model.Model, *rand.Rand) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 18))
	return pipelinetest.ModelOfWidth(t, rng, kind, 5, 24, 4), rng
}

// LikeShards removes from an outcome what shards need not have in common with an engine: its
// hashes, what drift detectors see, and the order of refusals.
func LikeShards(out *event.Outcome) {
	out.Chain, out.Posterior, out.Drift = event.Hash{}, event.Hash{}, nil
	slices.SortFunc(out.Refused, func(a, b event.Refusal) int {
		return cmp.Or(cmp.Compare(a.Origin.Offset, b.Origin.Offset), cmp.Compare(a.Detail, b.Detail))
	})
	if len(out.Labelled) == 0 {
		out.Labelled = nil
	}
	if len(out.Predictions) == 0 {
		out.Predictions = nil
	}
	if len(out.Refused) == 0 {
		out.Refused = nil
	}
}

// HeadsOfShards are the heads that shards can serve with.
var HeadsOfShards = []string{"paper", "dense pool", "sparse pool"}

// ServeWith has a model serve with some of HeadsOfShards. The heads replay nothing, as on shards, so that
// they can be compared with an engine.
func ServeWith(t testing.TB, m *model.Model, heads string) {
	if heads == "paper" {
		return
	}
	pipelinetest.AddPool(t, m, heads == "sparse pool")
	for _, h := range m.Pool.Heads {
		if h.Wide != nil {
			h.Wide.Replay = 0
		}
	}
}

// SetsOfShards are sets with one threshold for all, and with one for each class.
var SetsOfShards = []pipeline.Coverage{
	{Target: 0.7},
	{Target: 0.8, Per: serve.PerClass, MaxSize: 2},
	{Target: 0.6, MinConfidence: 0.5},
	{Target: 0.7, Per: serve.PerClass},
}
