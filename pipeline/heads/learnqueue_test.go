package heads_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gvbll/gvbll/pipeline/heads"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/serve"
)

// lagging returns a model and a configuration with every optional part on and a lag, for a
// pool of sparse or dense heads or for the paper's.
func lagging(t *testing.T, serves string, lag int) (*model.Model, pipeline.Config) {
	t.Helper()
	m := pipelinetest.ModelOf(t, rand.New(rand.NewPCG(11, 2)), gnn.KindSAGE, 2)
	cfg := pipeline.Config{
		Samples: 2, LearnLag: lag, Fallback: 0.5, Bounds: pipeline.Bounds{Pending: 60},
		Coverage: pipeline.Coverage{Target: 0.9}, Rescore: pipeline.Rescoring{After: 1},
	}
	if serves != pipeline.HeadPaper {
		pipelinetest.AddPool(t, m, serves == "sparse")
	}
	return m, cfg
}

var servings = []string{pipeline.HeadPaper, "sparse", "dense"}

// onGoroutines runs each job on a goroutine.
func onGoroutines(job func()) (wait func()) {
	done := make(chan struct{})
	go func() { defer close(done); job() }()
	return func() { <-done }
}

// TestWhoeverLearns: outcomes and state are the same whether a batch is learned, and half of a
// window predicted, at once, when it is waited for, or meanwhile on another goroutine, and whoever
// asks the engine between windows. Under the race detector this shows that nothing else uses the
// heads meanwhile, and that threads that predict at once share no memory.
func TestWhoeverLearns(t *testing.T) {
	for _, serves := range servings {
		for _, lag := range []int{0, 1, 3} {
			t.Run(fmt.Sprint(serves, " ", lag), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, cfg := lagging(t, serves, lag)
					want := pipelinetest.NewEngine(t, m, cfg)
					rng := rand.New(rand.NewPCG(1, uint64(lag)))
					cfg.Local.Run = func(job func()) (wait func()) {
						switch rng.IntN(3) {
						case 0:
							job()
							return func() {}
						case 1:
							return job
						}
						return onGoroutines(job)
					}
					got := pipelinetest.NewEngine(t, m, cfg)
					l := pipelinetest.NewRandomStream(rand.New(rand.NewPCG(2, 2)), m)
					most := 0
					for range 60 {
						next := l.Window
						if rng.IntN(4) == 0 {
							next = l.Wide
						}
						w := next()
						a, b := want.Step(w), got.Step(w)
						if diff := cmp.Diff(a, b); diff != "" {
							t.Fatal(diff)
						}
						most = max(most, len(a.Predictions))
						which, id := rng.IntN(8), l.ID()
						ask(want, which, id)
						ask(got, which, id)
					}
					if !bytes.Equal(pipelinetest.SnapshotOf(t, got, nil), pipelinetest.SnapshotOf(t, want, nil)) {
						t.Error("the engines are saved as other bytes")
					}
					if most < heads.Fewest {
						t.Errorf("windows of at most %d predictions are too small to be shared", most)
					}
				})
			})
		}
	}
}

// ask calls one of the methods that use the heads, if there is one of that number.
func ask(e *pipelinetest.Engine, which int, id event.ID) {
	switch which {
	case 0:
		e.Node(id)
	case 1:
		e.Suppose(&event.Node{Origin: &event.Origin{}, ID: event.ID{Num: 1 << 60}, Dense: make([]float32, e.Model().Encoder.In())})
	case 2:
		e.Pooled()
	case 3:
		e.PosteriorReport()
	case 4:
		e.Apart(e.Engine)
	}
}

// TestLagMovesLearningAlone: with a lag, the same events enter and leave the graph, the same
// labels are joined to the same nodes, and the same ones are refused. Heads are updated as
// often, later, and the posterior that an outcome reports is the one that its window was served
// with.
func TestLagMovesLearningAlone(t *testing.T) {
	const lag = 3
	for _, serves := range servings {
		m, late := lagging(t, serves, lag)
		_, now := lagging(t, serves, 0)
		late.Labels, now.Labels = serve.FirstStands, serve.FirstStands // so that a window with labels learned has labels joined
		plain, lagged := pipelinetest.NewEngine(t, m, now), pipelinetest.NewEngine(t, m, late)
		l := pipelinetest.NewRandomStream(rand.New(rand.NewPCG(4, 4)), m)
		var joined []*event.Outcome
		for number := range 60 {
			w := l.Window()
			a, b := plain.Step(w), lagged.Step(w)
			joined = append(joined, a)
			if !slices.Equal(a.Figures, b.Figures) || !reflect.DeepEqual(a.Refused, b.Refused) || len(a.Labelled) != len(b.Labelled) {
				t.Fatalf("%s, window %d: %v", serves, number, cmp.Diff(a, b))
			}
			var updates uint64
			for _, old := range joined[:max(number-lag, 0)] { // windows up to number-1-lag
				if len(old.Labelled) > 0 {
					updates++
				}
			}
			if got := b.Heads[0].Version; got != updates {
				t.Fatalf("%s, window %d: %d batches learned, want %d", serves, number, got, updates)
			}
			for _, p := range b.Predictions {
				if p.PosteriorVersion != b.Heads[b.ServedBy].Version {
					t.Fatalf("%s, window %d: served with posterior %d, the outcome has %d", serves, number, p.PosteriorVersion, b.Heads[b.ServedBy].Version)
				}
			}
		}
	}
}

// TestRestoredLag: an engine that is restored in the middle of a lag, whatever waits then, gives
// the outcomes of one that was never stopped.
func TestRestoredLag(t *testing.T) {
	for _, serves := range servings {
		m, cfg := lagging(t, serves, 4)
		l := pipelinetest.NewRandomStream(rand.New(rand.NewPCG(5, 5)), m)
		never, often := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewEngine(t, m, cfg)
		for range 40 {
			w := l.Window()
			want, got := never.Step(w), often.Step(w)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s, window %d: %s", serves, w.Number, diff)
			}
			cfg.Local.Run = []func(func()) func(){nil, onGoroutines}[w.Number%2]
			b := pipelinetest.SnapshotOf(t, often, nil)
			var err error
			if often, _, err = pipelinetest.Restore(m, cfg, b); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(pipelinetest.SnapshotOf(t, often, nil), b) {
				t.Fatalf("%s, window %d: the restored engine is saved as other bytes", serves, w.Number)
			}
		}
	}
}
