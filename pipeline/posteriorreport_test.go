package pipeline_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestApart: the posterior of an engine that saw some nodes is apart from that of one that
// never saw them, and not from itself.
func TestApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 61))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
	for i := range m.Prior.Precision {
		m.Prior.Precision[i] += 20
	}
	cfg := pipeline.Config{Samples: 1}
	saw, never := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewEngine(t, m, cfg)
	gone := []event.ID{{Num: 80}, {Num: 84}, {Num: 80}, {Str: "never came"}}
	for number := range int64(12) {
		w := &event.Window{Number: number}
		for i := range int64(8) {
			n := event.Node{Origin: &event.Origin{}, ID: event.ID{Num: 8*number + i}}
			for range m.Encoder.In() {
				n.Dense = append(n.Dense, float32(rng.NormFloat64()))
			}
			w.Nodes = append(w.Nodes, n)
			w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: n.ID, Index: int32(rng.IntN(3))})
		}
		saw.Step(w)
		w.Nodes = slices.DeleteFunc(w.Nodes, func(n event.Node) bool { return slices.Contains(gone, n.ID) })
		w.Labels = slices.DeleteFunc(w.Labels, func(l event.Label) bool { return slices.Contains(gone, l.Node) })
		never.Step(w)
	}
	if mean, variance := never.Apart(never.Engine); mean != 0 || variance != 0 {
		t.Errorf("distances %v of means and %v of variances from itself, want 0", mean, variance)
	}
	if mean, variance := saw.Apart(never.Engine); mean == 0 || variance == 0 {
		t.Errorf("distances %v of means and %v of variances from an engine without the nodes, want more than 0", mean, variance)
	}
}
