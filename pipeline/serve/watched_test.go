package serve_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
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
	many.Classes = slices.Repeat([]string{"x"}, 12)
	for c := range many.Classes {
		many.Classes[c] = string(rune('a' + c))
	}
	many.Training.Rare = []string{"l", "b", "c", "d", "e", "f", "g", "h"}
	if got := many.Watched(); !slices.Equal(got, []int32{1, 2, 3, 4, 5, 6, 7, 11}) {
		t.Errorf("watched are %v", got)
	}
}
