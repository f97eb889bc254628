package trial

import (
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// publish returns what a graph with this ledger published: one prediction in each window
// that has one, of the class.
func publish(t *testing.T, class string, windows ...ledger.Record) *published {
	t.Helper()
	c := &published{predictions: make(map[predictionKey][]byte)}
	var before *ledger.Record
	for i := range windows {
		r := &windows[i]
		r.Window = int64(i)
		if err := c.addWindow(r, before); err != nil {
			t.Fatal(err)
		}
		before = r
		if r.Predictions > 0 {
			id := event.ID{Num: int64(len(c.predictions))}
			p := event.Prediction{Node: id, Class: class, Probabilities: []float32{0.25, 0.75}, Window: r.Window}
			c.predictions[predictionKey{node: id}] = wire.MsgPack.AppendPrediction(nil, &p)
		}
	}
	return c
}

// TestDifferenceAfterAttempts: a run whose worker was killed while it forgot nodes has a
// window more, which notes the attempt. That is no difference; anything else is one.
func TestDifferenceAfterAttempts(t *testing.T) {
	serve := ledger.Record{Posterior: "a", Predictions: 1}
	first, second := ledger.Record{Posterior: "a", Attempt: 1}, ledger.Record{Posterior: "a", Attempt: 2}
	forget := ledger.Record{Posterior: "b", Forgot: &ledger.Forgot{Nodes: 1}}
	later := ledger.Record{Posterior: "b", Predictions: 1}
	undisturbed := publish(t, "x", serve, first, forget, later)
	for _, c := range []struct {
		name  string
		run   *published
		kills int
		want  string
	}{
		{"the same", publish(t, "x", serve, first, forget, later), 0, ""},
		{"killed once", publish(t, "x", serve, first, second, forget, later), 1, ""},
		{"another attempt without a kill", publish(t, "x", serve, first, second, forget, later), 0, "attempts"},
		{"no attempt is noted", publish(t, "x", serve, forget, later), 1, "prediction of node"},
		{"another class", publish(t, "y", serve, first, second, forget, later), 1, "prediction of node"},
		{"a window more", publish(t, "x", serve, first, second, forget, later, ledger.Record{Posterior: "b"}), 1, "windows differ"},
		{"a window more before", publish(t, "x", serve, ledger.Record{Posterior: "a"}, first, forget, later), 1, "prediction of node"},
		{"a prediction less", publish(t, "x", serve, first, second, forget), 1, "no prediction of node"},
		{"a prediction more", publish(t, "x", serve, first, second, forget, later, later), 1, "more predictions"},
		{"another posterior", publish(t, "x", serve, first, second, forget, ledger.Record{Posterior: "c", Predictions: 1}), 1, "windows differ"},
	} {
		if got := undisturbed.difference(c.run, c.kills); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestAttemptsChangeNothing: a window that notes an attempt to forget nodes does nothing
// else, attempts are counted, and they end with a forgetting.
func TestAttemptsChangeNothing(t *testing.T) {
	serve, first := ledger.Record{Posterior: "a"}, ledger.Record{Posterior: "a", Attempt: 1}
	for name, windows := range map[string][]ledger.Record{
		"it has records":         {serve, {Posterior: "a", Attempt: 1, Ranges: []ledger.Range{{To: 1}}}},
		"it has a prediction":    {serve, {Posterior: "a", Attempt: 1, Predictions: 1}},
		"it has a revision":      {serve, {Posterior: "a", Attempt: 1, Revisions: 1}},
		"it learns":              {serve, {Posterior: "b", Attempt: 1}},
		"it is counted wrongly":  {serve, {Posterior: "a", Attempt: 2}},
		"it is counted again":    {serve, first, first},
		"no forgetting is after": {serve, first, serve},
	} {
		c, last := &published{}, len(windows)-1
		for i := range slices.Clone(windows) {
			before := (*ledger.Record)(nil)
			if i > 0 {
				before = &windows[i-1]
			}
			if err := c.addWindow(&windows[i], before); (err != nil) != (i == last) {
				t.Errorf("%s: window %d of %d has error %v", name, i, last, err)
			}
		}
	}
}
