package serve_test

import (
	"math"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestDelayOfAnyTimes: the delay of a label is saturated to int64, since event times may be
// any integers, and 0 if a time is not given.
func TestDelayOfAnyTimes(t *testing.T) {
	for _, c := range []struct{ arrival, label, want int64 }{
		{1, 3, 2},
		{3, 1, -2},
		{math.MinInt64, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64, math.MinInt64, math.MinInt64},
		{-2, math.MaxInt64, math.MaxInt64},
		{1, math.MinInt64, math.MinInt64},
		{0, math.MinInt64, 0},
	} {
		e := pipelinetest.NewEngine(t, pipelinetest.SmallModel(t), pipeline.Config{})
		out := e.Step(&event.Window{
			Nodes:  []event.Node{{Origin: &event.Origin{}, Dense: []float32{1, 0}, Time: c.arrival}},
			Labels: []event.Label{{Origin: &event.Origin{}, Class: "red", Time: c.label}},
		})
		if got := out.Labelled[0].Delay; got != c.want {
			t.Errorf("delay from %d to %d is %d, want %d", c.arrival, c.label, got, c.want)
		}
	}
}
