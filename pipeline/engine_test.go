package pipeline_test

import (
	"reflect"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestRecycle: outcomes in recycled memory are equal to fresh ones, and the memory is in
// fact reused.
func TestRecycle(t *testing.T) {
	s := pipelinetest.NewCalibratedStream(t, 5)
	cfg := pipeline.Config{Rescore: pipeline.Rescoring{After: 1}}
	fresh, again := pipelinetest.NewEngine(t, s.M, cfg), pipelinetest.NewEngine(t, s.M, cfg)
	var last *event.Outcome
	var memory *event.Prediction
	used := 0
	for i := range 30 {
		nodes, labels := s.Next(5 + i%3)
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
				t.Fatalf("window %d: outcome in recycled memory %+v, want %+v", w.Number, got, want)
			}
		}
	}
	if used == 0 {
		t.Error("no recycled memory was used")
	}
}

// TestStepIsThreeCalls: Enter, Serve and Learn give the same as Step. Serve returns the
// predictions before anything is learned. In any other order the calls panic.
func TestStepIsThreeCalls(t *testing.T) {
	s := pipelinetest.NewCalibratedStream(t, 5)
	whole, parts := pipelinetest.NewEngine(t, s.M, pipeline.Config{}), pipelinetest.NewEngine(t, s.M, pipeline.Config{})
	panics := func(name string, call func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s does not panic", name)
			}
		}()
		call()
	}
	for range 10 {
		nodes, labels := s.Next(6)
		for _, w := range []*event.Window{nodes, labels} {
			want := whole.Step(w)
			panics("Serve before Enter", func() { parts.Serve() })
			panics("Learn before Enter", func() { parts.Learn() })
			parts.Enter(w)
			panics("Learn before Serve", func() { parts.Learn() })
			panics("Enter twice", func() { parts.Enter(&event.Window{Number: w.Number}) })
			served := parts.Serve()
			if !reflect.DeepEqual(served, want.Predictions) {
				t.Fatalf("window %d: served %+v, want %+v", w.Number, served, want.Predictions)
			}
			panics("Serve twice", func() { parts.Serve() })
			if got := parts.Learn(); !reflect.DeepEqual(got, want) {
				t.Fatalf("window %d: %+v, want %+v", w.Number, got, want)
			}
		}
	}
}
