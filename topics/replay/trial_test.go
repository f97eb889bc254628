package replay_test

import (
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// pair is an engine of the two models "a" and "b", whose chains differ. One serves, and the other is in its shadow, where every
// label is worth a lead of the same size.
type pair struct {
	a, b   tally
	serves string
	lead   float64
}

func (e *pair) Err() error { return nil }

func (e *pair) AssignRoles(serves, _ string) { e.serves = serves }

func (e *pair) Step(w *event.Window) *event.Outcome {
	e.a.Salt, e.b.Salt = "a", "b"
	out, shadow := e.a.Step(w), e.b.Step(w)
	out.Model, shadow.Model = "a", "b"
	if e.serves == "b" {
		out, shadow = shadow, out
	}
	out.Shadow, out.Compared = shadow, event.Comparison{Labels: len(w.Labels), Lead: e.lead * float64(len(w.Labels))}
	return out
}

// single is an engine of model b alone.
type single struct{ tally }

func (e *single) Step(w *event.Window) *event.Outcome {
	out := e.tally.Step(w)
	out.Model = "b"
	return out
}

// TestTrial: model b is tried in the shadow of a, and its rule promotes it. Replays take the roles from the ledger and
// compare the chains of the models that they have, also of one that has the promoted model alone. One whose figures differ
// is told so, and the trial has ended.
func TestTrial(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		cfg := worker.Config{Terms: replay.Terms{Model: "a", Shadow: "b"}}
		f.Send(0, 30)
		f.Command(string(wire.AppendCommand(nil, &event.Command{Name: event.Shadow, Model: "b", Rule: "after=20,if=nll"})))
		f.RunUntilConsumed(&pair{lead: 0.25}, cfg)
		f.Send(30, 70)
		f.RunUntilConsumed(&pair{lead: 0.25}, cfg)
		promoted := int64(-1)
		for _, r := range f.Records() {
			if r.Promoted != "" {
				promoted = r.Window
			}
			if want := map[bool]string{true: "b", false: "a"}[promoted >= 0 && r.Window > promoted]; r.Model != want {
				t.Errorf("model %s serves window %d, want %s", r.Model, r.Window, want)
			}
			if promoted >= 0 && r.Window > promoted && r.Trial != nil {
				t.Errorf("the trial %+v goes on in window %d, and window %d ended it", r.Trial, r.Window, promoted)
			}
		}
		if promoted < 0 || promoted == f.LastRecord().Window {
			t.Fatalf("window %d of %d promotes a model, want one before the last", promoted, f.LastRecord().Window)
		}

		if got, err := f.Audit(&pair{lead: 0.25}, cfg); err != nil || got.Elsewhere != 0 {
			t.Errorf("audited %+v with error %v, want every window proved", got, err)
		}
		alone := worker.Config{Terms: replay.Terms{Model: "b"}}
		if got, err := f.Audit(&single{tally{Salt: "b"}}, alone); err != nil || got.Elsewhere != promoted+1 {
			t.Errorf("with the promoted model alone: audited %+v with error %v, want the %d windows of the other counted", got, err, promoted+1)
		}
		if _, err := f.Audit(&single{tally{Salt: "other"}}, alone); err == nil || !strings.Contains(err.Error(), "window 0: replay gives") {
			t.Errorf("other bits of it: error %v, want one that names window 0, where it was in the shadow", err)
		}
		if _, err := f.Audit(&pair{lead: 0.125}, cfg); err == nil || !strings.Contains(err.Error(), "replay compares the models by") {
			t.Errorf("other figures: error %v, want one that names them", err)
		}
	})
}

// TestGivenShadowIsTried: a model that the worker was started with for the shadow is tried as one that a command asks for:
// compared on every label, promoted by a command. The trial ends with the first owner that was not given the model.
func TestGivenShadowIsTried(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 30)
		f.RunUntilConsumed(&pair{lead: 0.25}, worker.Config{Terms: replay.Terms{Model: "a", Shadow: "b"}})
		labels := int64(0)
		for _, r := range f.Records() {
			if r.Window > 0 {
				labels += int64(r.Labels)
			}
			if want := (ledger.Trial{Model: "b", Labels: labels, Lead: .25 * float64(labels)}); r.Trial == nil || *r.Trial != want {
				t.Fatalf("window %d has the trial %+v, want %+v", r.Window, r.Trial, want)
			}
		}
		if _, err := f.Audit(&pair{lead: .25}, worker.Config{Terms: replay.Terms{Model: "a", Shadow: "b"}}); err != nil {
			t.Error(err)
		}
		f.Send(30, 40)
		f.RunUntilConsumed(&tally{Salt: "a"}, worker.Config{Terms: replay.Terms{Model: "a"}})
		if r := f.LastRecord(); r.Trial != nil {
			t.Errorf("an owner without model b has the trial %+v, want none", r.Trial)
		}
	})
}
