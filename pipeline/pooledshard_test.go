package pipeline_test

import (
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
)

// TestPoolOnShards: given the same embeddings, shards with a pool of heads serve, learn and
// report the same bits as one engine, and their heads have the same hash: also where nodes that
// were served leave, come again or take another's number before the other shards have heard of
// them, and where most have no label.
func TestPoolOnShards(t *testing.T) {
	for _, sparse := range []bool{true, false} {
		for _, shards := range []int{1, 2, 3, 4, 8} {
			for seed := range uint64(3) {
				t.Run(fmt.Sprint("sparse", sparse, shards, "seed", seed), func(t *testing.T) {
					m, rng := shardedModel(t, gnn.KindSAGE, seed)
					addPool(t, m, sparse)
					cfg := pipeline.Config{}
					if seed%2 == 0 {
						cfg.MaxPending, cfg.MaxWaitingLabels, cfg.MaxWaitingEdges = 15, 6, 12
					}
					e, s := newEngine(t, m, cfg), newSharded(t, m, cfg, shards, 1)
					l := newRandomStream(rng, m)
					labels := 0
					for range 80 {
						w := l.window()
						got := s.Step(w)
						if err := s.Err(); err != nil {
							t.Fatal(err)
						}
						want := e.StepWith(w, s.Embeddings())
						labels += len(want.Labelled)
						if got.Posterior != want.Posterior {
							t.Fatalf("window %d: heads %x, want %x", w.Number, got.Posterior, want.Posterior)
						}
						likeShards(want)
						likeShards(got)
						if d := gocmp.Diff(want, got); d != "" {
							t.Fatalf("window %d (-engine +shards)\n%s", w.Number, d)
						}
					}
					if labels < 40 {
						t.Errorf("only %d labels were learned", labels)
					}
				})
			}
		}
	}
}
