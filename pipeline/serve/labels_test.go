package serve_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestDelayOfAnyTimes: the delay of a label is known where both times can be of one unit. Others, which may be any
// integers, are counted; a clock may be a day behind.
func TestDelayOfAnyTimes(t *testing.T) {
	for _, c := range []struct{ arrival, label, want int64 }{
		{1, 3, 2},
		{3, 1, -2},
		{1_800_000_000_000, 1_800_000_000_000 - 86_400_000, -86_400_000},
		{1_800_000_000_000, 1_800_000_000_000 - 86_400_001, 0},
		{1_800_000_000_000, 1_800_000_000, 0},
		{1_800_000_000, 1_800_000_000_000, 0},
		{math.MinInt64, math.MaxInt64, 0},
		{math.MaxInt64, math.MinInt64, 0},
		{-2, math.MaxInt64, 0},
		{1, math.MinInt64, 0},
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
		if n := out.Figures.Int(event.LabelsMistimed); (n == 1) != (c.want == 0 && c.arrival != 0) {
			t.Errorf("%d labels from %d to %d are counted as of another unit", n, c.arrival, c.label)
		}
	}
}

// TestUnmet: edges and labels that wait for texts where the graph has numbers are said, a hundred of them or more.
func TestUnmet(t *testing.T) {
	e := pipelinetest.NewEngine(t, pipelinetest.SmallModel(t), pipeline.Config{})
	text := func(n int) event.ID { return event.ID{Str: strconv.Itoa(n)} }
	for n := range 100 {
		out := e.Step(&event.Window{
			Number: int64(n),
			Nodes:  []event.Node{{Origin: &event.Origin{}, ID: event.ID{Num: int64(n)}, Dense: []float32{1, 0}, Neighbours: []event.ID{text(n)}}},
			Labels: []event.Label{{Origin: &event.Origin{}, Node: text(n + 1), Class: "red"}},
		})
		var want []event.Unmet
		if n == 99 {
			want = []event.Unmet{{What: "edges", Waiting: 100, Node: text(0), Otherwise: true}, {What: "labels", Waiting: 100, Node: text(1), Otherwise: true}}
		}
		if diff := cmp.Diff(want, out.Odd.Unmet); diff != "" {
			t.Fatalf("window %d, -want +got\n%s", n, diff)
		}
	}
}
