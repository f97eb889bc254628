package shards_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/shards/shardstest"
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
					m, rng := shardstest.ShardedModel(t, gnn.KindSAGE, seed)
					shardstest.ServeWith(t, m, map[bool]string{true: "sparse pool", false: "dense pool"}[sparse])
					cfg := pipeline.Config{Labels: serve.FirstStands}
					if seed%2 == 0 {
						cfg.MaxPending, cfg.MaxWaitingLabels, cfg.MaxWaitingEdges = 15, 6, 12
					}
					e, s := pipelinetest.NewEngine(t, m, cfg), shardstest.NewTogether(t, m, cfg, shards, 1)
					l := pipelinetest.NewRandomStream(rng, m)
					labels := 0
					for range 80 {
						w := l.Window()
						got := s.Step(w)
						if err := s.Err(); err != nil {
							t.Fatal(err)
						}
						want := stepWith(e, w, s.Embeddings())
						labels += len(want.Labelled)
						if got.Posterior != want.Posterior {
							t.Fatalf("window %d: heads %x, want %x", w.Number, got.Posterior, want.Posterior)
						}
						shardstest.LikeShards(want)
						shardstest.LikeShards(got)
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

// TestLagOnShards: with the learner's lag, too, any number of shards serve and learn the same
// bits, given the same embeddings.
func TestLagOnShards(t *testing.T) {
	for _, heads := range shardstest.HeadsOfShards {
		for _, lag := range []int{1, 4} {
			t.Run(fmt.Sprint(heads, " lag ", lag), func(t *testing.T) {
				m, rng := shardstest.ShardedModel(t, gnn.KindSAGE, uint64(lag))
				shardstest.ServeWith(t, m, heads)
				cfg := pipeline.Config{Labels: serve.FirstStands, Samples: 2, LearnLag: lag, MaxPending: 40}
				one, four := shardstest.NewTogether(t, m, cfg, 1, 1), shardstest.NewTogether(t, m, cfg, 4, 2)
				l := pipelinetest.NewRandomStream(rng, m)
				for range 80 {
					l.Nodes = min(l.Nodes, 30) // so that numbers are used again
					w := l.Window()
					got := four.Step(w)
					want := one.StepWith(w, four.Embeddings())
					if err := errors.Join(four.Err(), one.Err()); err != nil {
						t.Fatal(err)
					}
					if got.Posterior != want.Posterior {
						t.Fatalf("window %d: heads %x, want %x", w.Number, got.Posterior, want.Posterior)
					}
					shardstest.LikeShards(want)
					shardstest.LikeShards(got)
					if d := gocmp.Diff(want, got); d != "" {
						t.Fatalf("window %d (-1 shard +4)\n%s", w.Number, d)
					}
				}
			})
		}
	}
}

// TestHearingEqualsOracle: after every window, the labels around each node of the graph are
// those of its neighbours, and of neighbours without one half of what was served for them up to
// the window that was heard of last: also of nodes that came again, and none of what was served
// for another node with the same number.
func TestHearingEqualsOracle(t *testing.T) {
	const P = 3
	for _, lag := range []int{0, 2} {
		m, rng := shardstest.ShardedModel(t, gnn.KindSAGE, 7)
		pipelinetest.AddPool(t, m, true)
		s := shardstest.NewTogether(t, m, pipeline.Config{LearnLag: lag}, P, 1)
		l := pipelinetest.NewRandomStream(rng, m)
		v := &pipelinetest.OracleGraph{X: map[event.ID][]float32{}}
		label, served := map[event.ID]int{}, map[event.ID]event.Prediction{}
		heard, unheard, again := 0, 0, 0
		for range 120 {
			l.Nodes = min(l.Nodes, 30)
			w := l.Window()
			w.Labels = nil
			arrived, left := v.Step(w), len(v.Left)
			for _, id := range v.Left {
				delete(served, id)
				delete(label, id)
			}
			again += left
			v.Left = nil
			for _, id := range v.Here {
				if _, has := label[id]; !has && rng.IntN(20) == 0 {
					label[id] = rng.IntN(len(m.Classes))
					w.Labels = append(w.Labels, event.Label{Origin: l.Origin("labels"), Node: id, Index: int32(label[id])})
				}
			}
			out := s.Step(w)
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			for i, id := range arrived {
				served[id] = out.Predictions[i]
			}
			for _, id := range v.Here {
				want, near := make([]float64, len(m.Classes)), 0.0
				for _, e := range v.Edges {
					u := e[0]
					if u == id {
						u = e[1]
					} else if e[1] != id {
						continue
					}
					near++
					if y, has := label[u]; has {
						want[y]++
					} else if p, was := served[u]; was && p.Window <= w.Number-1-int64(lag) {
						heard++
						for c, x := range p.Probabilities {
							want[c] += float64(x) / 2
						}
					} else {
						unheard++
					}
				}
				for shard := range P {
					got, there := s.Around(shard, id)
					if !there {
						t.Fatalf("window %d: node %v is not in shard %d", w.Number, id, shard)
					}
					for c, x := range got {
						if math.Abs(float64(x)-want[c]) > near/256 {
							t.Fatalf("lag %d, window %d, shard %d: around node %v %v, want %v", lag, w.Number, shard, id, got, want)
						}
					}
				}
			}
		}
		if heard < 100 || unheard < 100 || again < 20 {
			t.Errorf("lag %d: %d neighbours were heard of, %d were not, %d nodes left", lag, heard, unheard, again)
		}
	}
}

// stepWith is Step of an engine with other embeddings of the arrivals.
func stepWith(e *pipeline.Engine, w *event.Window, z []float32) *event.Outcome {
	e.Enter(w)
	copy(e.Embeddings(), z)
	e.Serve()
	return e.Learn()
}
