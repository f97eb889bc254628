package serve_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/serve"
)

// TestWatchedClasses: a label has the probabilities that were served for its node, whichever head
// served, of every class that is watched: all, or the rarest ones of many.
func TestWatchedClasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
	e := pipelinetest.NewEngine(t, m, pipeline.Config{Fallback: .5})
	stream, served, labels := pipelinetest.NewRandomStream(rng, m), make(map[event.ID][]float32), 0
	for range 60 {
		out := e.Step(stream.Window())
		for i := range out.Predictions {
			served[out.Predictions[i].Node] = slices.Clone(out.Predictions[i].Probabilities)
		}
		for _, l := range out.Labelled {
			labels++
			if p := served[l.Node]; !slices.Equal(l.Watched[:len(p)], p) || len(out.Watched) != len(p) {
				t.Fatalf("label of %v has %v of %v, and %v was served", l.Node, l.Watched, out.Watched, p)
			}
		}
	}
	if labels == 0 {
		t.Fatal("no label came")
	}
	many := *m
	many.Classes = slices.Repeat([]string{"x"}, 100*event.MaxWatched)
	for c := range many.Classes {
		many.Classes[c] = string(rune('a' + c))
	}
	many.Training.Rare = []string{"l", "b", "c", "d", "e", "f", "g", "h"}
	if got := many.Watched(); !slices.Equal(got, []int32{1, 2, 3, 4, 5, 6, 7, 11}) {
		t.Errorf("watched are %v", got)
	}
}

// TestAsTrained: arrivals are counted by the class that the model as trained predicts, of the pool and of the paper's heads alike.
func TestAsTrained(t *testing.T) {
	for name, pooled := range map[string]bool{"pool": true, "paper": false} {
		rng := rand.New(rand.NewPCG(5, 6))
		m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
		if pooled {
			pipelinetest.AddPool(t, m, false)
		}
		e := pipelinetest.NewEngine(t, m, pipeline.Config{})
		stream, arrivals := pipelinetest.NewRandomStream(rng, m), 0
		for range 20 {
			out := e.Step(stream.Window())
			left := slices.Clone(out.AsTrained)
			for i := range out.Predictions {
				served := e.Served(out.Predictions[i].Node)
				if served == nil { // its label has come
					continue
				}
				for _, h := range served.Heads {
					if h.Head == serve.Static {
						left[slices.Index(m.Classes, h.Class)]--
					}
				}
				arrivals++
			}
			all := int32(0)
			for c, n := range out.AsTrained {
				if all += n; left[c] < 0 {
					t.Fatalf("%s: the model as trained predicts %v, %d less than it should", name, out.AsTrained, -left[c])
				}
			}
			if int(all) != len(out.Predictions) {
				t.Fatalf("%s: the model as trained predicts %v of %d arrivals", name, out.AsTrained, len(out.Predictions))
			}
		}
		if arrivals == 0 {
			t.Fatalf("%s: nothing arrived", name)
		}
	}
}

// TestRarest: the rarest classes are known by the training nodes, or by the list of a file of 1.0.0; where neither says so, all
// that are watched may be. Shares are those of training.
func TestRarest(t *testing.T) {
	m := pipelinetest.ModelOf(t, rand.New(rand.NewPCG(1, 2)), gnn.KindSAGE, 2)
	m.Classes, m.Training.Labels = []string{"a", "b", "c", "d"}, []int{40, 10, 30, 20}
	if got := m.Foremost(2); !slices.Equal(got, []int32{1, 3}) {
		t.Errorf("the rarest are %v, want b and d", got)
	}
	if got := m.Shares(); !slices.Equal(got, []float64{.4, .1, .3, .2}) {
		t.Errorf("the shares are %v", got)
	}
	for _, labels := range [][]int{nil, {1, 2}, {0, 0, 0, 0}, {-1, 0, 0, 0}} {
		if m.Training.Labels = labels; m.Shares() != nil {
			t.Errorf("the shares of %v are %v, want none", labels, m.Shares())
		}
	}
	m.Training.Labels = nil
	if got := m.Foremost(2); len(got) != 4 {
		t.Errorf("the rarest are %v where nothing is known, want all", got)
	}
	m.Training.Rare = []string{"c", "a", "d", "b"}
	if got := m.Foremost(2); !slices.Equal(got, []int32{2, 0}) {
		t.Errorf("the rarest are %v, want c and a", got)
	}
}
