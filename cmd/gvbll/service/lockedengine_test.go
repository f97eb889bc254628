package service

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestLastOutcomeHolds: a window's predictions do not change while the next window is
// stepped. replay.Engine demands it, because the worker encodes them meanwhile.
func TestLastOutcomeHolds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
	e, err := fresh(pipeline.Config{}, m)()
	must(t, err)
	stream := pipelinetest.NewRandomStream(rng, m)
	encoded := func(out *event.Outcome) (b []byte) {
		for i := range out.Predictions {
			b = wire.MsgPack.AppendPrediction(b, &out.Predictions[i])
		}
		return b
	}
	var last *event.Outcome
	var want []byte
	for range 10 {
		out := e.Step(stream.Wide())
		if last != nil && !bytes.Equal(encoded(last), want) {
			t.Fatalf("window %d changed the predictions of the one before", out.Window)
		}
		last, want = out, encoded(out)
		if len(want) == 0 {
			t.Fatalf("window %d has no predictions", out.Window)
		}
	}
}
