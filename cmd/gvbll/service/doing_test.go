package service

import (
	"math"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
)

// TestCellVerdict: the verdict on a cell is that of the rules: no labels are too few, a collapsed model's labels are of one class, and an hour
// without any makes them too few again. What waits is so many seconds as its windows took for so many events.
func TestCellVerdict(t *testing.T) {
	now := time.Now()
	var d doing
	if got := d.points(now); got != -1 {
		t.Errorf("the verdict before any label is %v, want too few", got)
	}
	window := func(a, b int) *ledger.Scores {
		served := ledger.Tally{Labels: a + b, Correct: a + b}
		return &ledger.Scores{
			Served: served, Bins: []ledger.Bin{{Bin: 19, Count: a + b, Correct: a + b, Confidence: .999 * float32(a+b)}},
			Classes: []ledger.Group{{Name: "a", Tally: ledger.Tally{Labels: a}}, {Name: "b", Tally: ledger.Tally{Labels: b}}},
			Trained: []ledger.Trained{{Class: "a", Arrivals: 30, Labels: 30}, {Class: "b", Arrivals: 70, Labels: 70}},
		}
	}
	for range 5 {
		now = now.Add(time.Minute)
		d.score(now, window(30, 70))
	}
	if got := d.points(now); got != 0 {
		t.Errorf("the verdict is %v, want calibrated", got)
	}
	for range 100 {
		now = now.Add(time.Minute)
		d.score(now, window(100, 0))
	}
	if got := d.points(now); got != -5 {
		t.Errorf("the verdict is %v, want labels of one class", got)
	}
	if got := d.points(now.Add(2 * half)); got != -1 {
		t.Errorf("the verdict after an hour without labels is %v, want too few", got)
	}
	out := &event.Outcome{Predictions: make([]event.Prediction, 3), Labelled: make([]event.Labelled, 1)}
	if d.step(now, out, 2*time.Second); d.perEvent != .5 {
		t.Errorf("an event took %v s, want .5", d.perEvent)
	}
	if d.step(now, out, 4*time.Second); math.Abs(d.perEvent-.6) > 1e-9 {
		t.Errorf("an event took %v s, want .6", d.perEvent)
	}
}
