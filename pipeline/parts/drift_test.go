package parts_test

import (
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// changes steps through a stream and adds up the changes that each detector finds.
func changes(e *pipelinetest.Engine, s *pipelinetest.CalibratedStream, steps, n int) map[string]event.Detector {
	found := map[string]event.Detector{}
	for range steps {
		nodes, labels := s.Next(n)
		for _, w := range []*event.Window{nodes, labels} {
			for _, d := range e.Step(w).Drift.Detectors {
				sum := found[d.Name]
				found[d.Name] = event.Detector{Changes: sum.Changes + d.Changes, Rise: max(sum.Rise, d.Rise), Total: d.Total}
			}
		}
	}
	return found
}

// TestDrift: detectors find no change in a stationary stream. If labels contradict the
// model, only the detectors of losses find it, and it is one change. If features change, the detector of embeddings
// finds it without labels.
func TestDrift(t *testing.T) {
	s := pipelinetest.NewCalibratedStream(t, 1)
	e := pipelinetest.NewEngine(t, s.M, pipeline.Config{Fallback: -1})
	for name, d := range changes(e, s, 120, 30) {
		if d.Changes != 0 {
			t.Errorf("%s found %d changes in a stationary stream, want none", name, d.Changes)
		}
	}
	s.Twist = func(y int32) int32 { return (y + 1) % 3 }
	found := changes(e, s, 10, 30)
	if a, b := found["adwin"], found["adwin-static"]; a.Changes+b.Changes != 1 || a.Total+b.Total != 1 || a.Rise+b.Rise < .1 {
		t.Errorf("adwin: %+v, adwin-static: %+v, want one change, a rise of the loss", a, b)
	}
	if n := found["mmd-embeddings"].Changes; n > 0 {
		t.Errorf("%d changes of embeddings found where only labels changed, want none", n)
	}

	s = pipelinetest.NewCalibratedStream(t, 2)
	e = pipelinetest.NewEngine(t, s.M, pipeline.Config{Fallback: -1})
	changes(e, s, 60, 30)
	s.Shift = 1.5
	if found := changes(e, s, 30, 30); found["mmd-embeddings"].Changes == 0 {
		t.Errorf("mmd-embeddings found no shift of the features: %+v", found)
	}
}

// TestUnwatched: drift detectors do not change what is served and learned, and are not part
// of the settings. Snapshots with and without them can be restored in either way.
func TestUnwatched(t *testing.T) {
	s := pipelinetest.NewCalibratedStream(t, 3)
	with, without := pipelinetest.NewEngine(t, s.M, pipeline.Config{}), pipelinetest.NewEngine(t, s.M, pipeline.Config{Local: pipeline.Local{Unwatched: true}})
	for range 20 {
		nodes, labels := s.Next(7)
		for _, w := range []*event.Window{nodes, labels} {
			a, b := with.Step(w), without.Step(w)
			if a.Drift == nil || b.Drift != nil || a.Chain != b.Chain {
				t.Fatalf("window %d: chain %x with detectors and %x without", w.Number, a.Chain, b.Chain)
			}
		}
	}
	if a, b := with.Settings(), without.Settings(); a != b {
		t.Errorf("settings %s with detectors and %s without, want the same", a, b)
	}
	for _, taken := range []*pipelinetest.Engine{with, without} {
		for _, unwatched := range []bool{false, true} {
			e, _, err := pipelinetest.Restore(s.M, pipeline.Config{Local: pipeline.Local{Unwatched: unwatched}}, pipelinetest.SnapshotOf(t, taken, nil))
			if err != nil {
				t.Fatal(err)
			}
			if e.Chain() != with.Chain() {
				t.Errorf("restored chain %x, want %x", e.Chain(), with.Chain())
			}
		}
	}
}
