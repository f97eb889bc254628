package pipeline_test

import (
	"errors"
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/shards/shardstest"
)

// TestSetsOnShards: given the same embeddings, the sets of shards are those of one engine in
// which predictions without a label count for thresholds from the next window on, and so is
// their coverage. With a lag of the learner the sets are the same for any number of shards.
func TestSetsOnShards(t *testing.T) {
	for k, coverage := range shardstest.SetsOfShards {
		heads := shardstest.HeadsOfShards[k%len(shardstest.HeadsOfShards)]
		for _, lag := range []int{0, 3} {
			t.Run(fmt.Sprint(heads, " lag ", lag, " ", coverage.Target, " ", coverage.Per), func(t *testing.T) {
				m, rng := shardstest.ShardedModel(t, gnn.KindSAGE, uint64(k))
				shardstest.ServeWith(t, m, heads)
				cfg := pipeline.Config{Labels: serve.FirstStands, Samples: 2, LearnLag: lag, MaxPending: 60, Coverage: coverage, Fallback: -1}
				e, one, four := pipelinetest.NewEngine(t, m, cfg), shardstest.NewTogether(t, m, cfg, 1, 1), shardstest.NewTogether(t, m, cfg, 4, 2)
				e.ImputeLate()
				l := pipelinetest.NewRandomStream(rng, m)
				sets, full := 0, 0
				for range 200 {
					w := l.Window()
					got := four.Step(w)
					z := four.Embeddings()
					want := one.StepWith(w, z)
					if lag == 0 {
						want = e.StepWith(w, z)
					}
					if err := errors.Join(four.Err(), one.Err()); err != nil {
						t.Fatal(err)
					}
					shardstest.LikeShards(want)
					shardstest.LikeShards(got)
					if d := gocmp.Diff(want, got); d != "" {
						t.Fatalf("window %d (-want +4 shards)\n%s", w.Number, d)
					}
					for _, p := range got.Predictions {
						sets++
						if len(p.Set.Classes) == len(m.Classes) {
							full++
						}
					}
				}
				if full == sets {
					t.Errorf("all of %d sets have all classes", sets)
				}
			})
		}
	}
}
