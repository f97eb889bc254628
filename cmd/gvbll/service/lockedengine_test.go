package service

import (
	"bytes"
	"testing"

	"github.com/gvbll/gvbll/cmd/lab/bench"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestLastOutcomeHolds: a window's predictions do not change while the next window is
// stepped. replay.Engine demands it, because the worker encodes them meanwhile.
func TestLastOutcomeHolds(t *testing.T) {
	w := bench.Workload{Features: 16, Hidden: 16, Embedding: 8, Classes: 5, Window: 20, Seed: 1}.WithDefaults()
	m, err := w.Model()
	must(t, err)
	e, err := fresh(pipeline.Config{}, m)()
	must(t, err)
	stream := w.Stream()
	encoded := func(out *event.Outcome) (b []byte) {
		for i := range out.Predictions {
			b = wire.AppendPrediction(b, &out.Predictions[i])
		}
		return b
	}
	var last *event.Outcome
	var want []byte
	for range 10 {
		out := e.Step(stream.Next(false))
		if last != nil && !bytes.Equal(encoded(last), want) {
			t.Fatalf("window %d changed the predictions of the one before", out.Window)
		}
		last, want = out, encoded(out)
		if len(want) == 0 {
			t.Fatalf("window %d has no predictions", out.Window)
		}
	}
}
