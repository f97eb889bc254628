package pipeline_test

import (
	"reflect"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// TestRecycle: outcomes are the same in memory that was used before, which is used
// again indeed.
func TestRecycle(t *testing.T) {
	s := newSchool(t, 5)
	cfg := pipeline.Config{Rescore: pipeline.Rescoring{After: 1}}
	fresh, again := newEngine(t, s.m, cfg), newEngine(t, s.m, cfg)
	var last *event.Outcome
	var memory *event.Prediction
	used := 0
	for i := range 30 {
		nodes, labels := s.next(5 + i%3)
		for _, w := range []*event.Window{nodes, labels} {
			want := fresh.Step(w)
			if last != nil {
				again.Recycle(last)
			}
			last = again.Step(w)
			if len(last.Predictions) > 0 {
				if memory == &last.Predictions[0] {
					used++
				}
				memory = &last.Predictions[0]
			}
			got := *last
			for _, o := range []*event.Outcome{want, &got} {
				if len(o.Labelled) == 0 {
					o.Labelled = nil
				}
			}
			if !reflect.DeepEqual(&got, want) {
				t.Fatalf("window %d: %+v, want %+v", w.Number, got, want)
			}
		}
	}
	if used == 0 {
		t.Error("no memory is used again")
	}
}
