package pipeline_test

import (
	"math/rand/v2"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// calibratedStream is a stream of nodes without edges. Labels are drawn from the
// probabilities of the trained model, unless twist changes them.
type calibratedStream struct {
	m      *model.Model
	rng    *rand.Rand
	oracle *pipeline.Engine // never learns
	number int64
	nodes  int64
	shift  float32           // added to every feature
	twist  func(int32) int32 // of a label; nil for none
}

// newCalibratedStream returns a stream of a random model.
func newCalibratedStream(t testing.TB, seed uint64) *calibratedStream {
	rng := rand.New(rand.NewPCG(seed, 11))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 1)
	for i := range m.Prior.Mean {
		m.Prior.Mean[i] *= 4 // more confident
	}
	return &calibratedStream{m: m, rng: rng, oracle: pipelinetest.NewEngine(t, m, pipeline.Config{Fallback: -1, Unwatched: true})}
}

// next returns a window with n nodes and the window after it, with their labels.
func (s *calibratedStream) next(n int) (nodes, labels *event.Window) {
	w := &event.Window{Number: s.number}
	for range n {
		x := make([]float32, s.m.Encoder.In())
		for i := range x {
			x[i] = float32(s.rng.NormFloat64()) + s.shift
		}
		w.Nodes = append(w.Nodes, event.Node{Origin: &event.Origin{}, ID: event.ID{Num: s.nodes}, Dense: x})
		s.nodes++
	}
	served := s.oracle.Step(&event.Window{Number: s.number / 2, Nodes: w.Nodes})
	l := &event.Window{Number: s.number + 1}
	s.number += 2
	for i := range served.Predictions {
		u, y := s.rng.Float32(), int32(0)
		for p := served.Predictions[i].Probabilities; int(y) < len(p)-1 && u >= p[y]; y++ {
			u -= p[y]
		}
		if s.twist != nil {
			y = s.twist(y)
		}
		l.Labels = append(l.Labels, event.Label{Origin: &event.Origin{}, Node: w.Nodes[i].ID, Index: y})
	}
	return w, l
}

// changes steps through a stream and adds up the changes that each detector finds.
func changes(e *pipeline.Engine, s *calibratedStream, steps, n int) map[string]event.Detector {
	found := map[string]event.Detector{}
	for range steps {
		nodes, labels := s.next(n)
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
	s := newCalibratedStream(t, 1)
	e := pipelinetest.NewEngine(t, s.m, pipeline.Config{Fallback: -1})
	for name, d := range changes(e, s, 120, 30) {
		if d.Changes != 0 {
			t.Errorf("%s found %d changes in a stationary stream, want none", name, d.Changes)
		}
	}
	s.twist = func(y int32) int32 { return (y + 1) % 3 }
	found := changes(e, s, 10, 30)
	if a, b := found["adwin"], found["adwin-static"]; a.Changes+b.Changes != 1 || a.Total+b.Total != 1 || a.Rise+b.Rise < .1 {
		t.Errorf("adwin: %+v, adwin-static: %+v, want one change, a rise of the loss", a, b)
	}
	if n := found["mmd-embeddings"].Changes; n > 0 {
		t.Errorf("%d changes of embeddings found where only labels changed, want none", n)
	}

	s = newCalibratedStream(t, 2)
	e = pipelinetest.NewEngine(t, s.m, pipeline.Config{Fallback: -1})
	changes(e, s, 60, 30)
	s.shift = 1.5
	if found := changes(e, s, 30, 30); found["mmd-embeddings"].Changes == 0 {
		t.Errorf("mmd-embeddings found no shift of the features: %+v", found)
	}
}

// TestUnwatched: drift detectors do not change what is served and learned, and are not part
// of the settings. Snapshots with and without them can be restored in either way.
func TestUnwatched(t *testing.T) {
	s := newCalibratedStream(t, 3)
	with, without := pipelinetest.NewEngine(t, s.m, pipeline.Config{}), pipelinetest.NewEngine(t, s.m, pipeline.Config{Unwatched: true})
	for range 20 {
		nodes, labels := s.next(7)
		for _, w := range []*event.Window{nodes, labels} {
			a, b := with.Step(w), without.Step(w)
			if a.Drift == nil || b.Drift != nil || a.Chain != b.Chain {
				t.Fatalf("window %d: chain %x with detectors and %x without", w.Number, a.Chain, b.Chain)
			}
		}
	}
	if a, b := settingsOf(with), settingsOf(without); a != b {
		t.Errorf("settings %s with detectors and %s without, want the same", a, b)
	}
	for _, taken := range []*pipeline.Engine{with, without} {
		for _, unwatched := range []bool{false, true} {
			e, _, err := restore(s.m, pipeline.Config{Unwatched: unwatched}, snapshotOf(t, taken, nil))
			if err != nil {
				t.Fatal(err)
			}
			if e.Chain() != with.Chain() {
				t.Errorf("restored chain %x, want %x", e.Chain(), with.Chain())
			}
		}
	}
}
