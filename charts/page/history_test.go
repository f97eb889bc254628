package page

import (
	"slices"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
)

func TestRing(t *testing.T) {
	r := ring[int]{size: 3}
	for i := range 7 {
		old, full := r.add(i)
		if full != (i >= 3) || full && old != i-3 {
			t.Errorf("%d: add removed %d, %v", i, old, full)
		}
		if got := *r.at(r.end() - 1); got != i {
			t.Errorf("the last item is %d, want %d", got, i)
		}
	}
	if got := r.newest(5); !slices.Equal(got, []int{6, 5, 4}) || r.first() != 4 {
		t.Errorf("the newest items are %v, the first has number %d", got, r.first())
	}
}

// TestHistoryIsBounded: a long stream does not grow the history, and a node that was
// served twice is found with its latest prediction.
func TestHistoryIsBounded(t *testing.T) {
	h := newHistory(2)
	for n := range int64(3 * keptPredictions) {
		id := event.ID{Num: n % (keptPredictions + keptPredictions/2)}
		h.step(Window{Outcome: &event.Outcome{Window: n, Predictions: []event.Prediction{{Node: id, Window: n}}}})
		if s := h.find(id); s == nil || s.Window != n {
			t.Fatalf("window %d: node %v has the prediction %+v", n, id, s)
		}
	}
	if len(h.place) != keptPredictions || len(h.windows.items) != keptWindows {
		t.Errorf("%d predictions and %d windows are kept", len(h.place), len(h.windows.items))
	}
}

// TestCurve: on a long stream no label is lost, and the points stay few and in order.
func TestCurve(t *testing.T) {
	var c curve
	labels := 0
	for n := range int64(5000) {
		out := &event.Outcome{Window: 2 * n, Heads: make([]event.Head, 1)}
		for i := range n % 3 {
			out.Labelled = append(out.Labelled, event.Labelled{})
			out.Heads[0].Scores = append(out.Heads[0].Scores, event.Score{Confidence: .5, Correct: i == 0, LogLoss: 1})
			labels++
		}
		c.add(out)
	}
	got, last := 0, int64(-1)
	for _, p := range c.points {
		got += p.heads[0].Labels
		if p.last <= last || float64(p.heads[0].Labels) != p.heads[0].LogLoss {
			t.Errorf("%+v after window %d", p, last)
		}
		last = p.last
	}
	if got != labels || len(c.points) > keptPoints || len(c.points) < keptPoints/2 || last != 2*4999 {
		t.Errorf("%d labels of %d in %d points, the last %d", got, labels, len(c.points), last)
	}
}
