package page

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// TestRing: a ring keeps the last items, and numbers them from the first one added.
func TestRing(t *testing.T) {
	r := ring[int]{size: 3}
	for i := range 7 {
		old, full := r.add(i)
		if full != (i >= 3) || full && old != i-3 {
			t.Errorf("add(%d) = %d, %v, want the item three before, once the ring is full", i, old, full)
		}
		if got := *r.at(r.end() - 1); got != i {
			t.Errorf("the last item is %d, want %d", got, i)
		}
	}
	if got := r.newest(5); !slices.Equal(got, []int{6, 5, 4}) || r.first() != 4 {
		t.Errorf("newest(5) = %v and first() = %d, want [6 5 4] and 4", got, r.first())
	}
}

// TestHistoryIsBounded: a long stream does not grow the history, and a node that was
// served twice is found with its latest prediction.
func TestHistoryIsBounded(t *testing.T) {
	h := newHistory()
	for n := range int64(3 * keptPredictions) {
		id := event.ID{Num: n % (keptPredictions + keptPredictions/2)}
		h.step(Window{Outcome: &event.Outcome{Window: n, Predictions: []event.Prediction{{Node: id, Window: n}}}})
		if s := h.find(id); s == nil || s.Window != n {
			t.Fatalf("window %d: find(%v) = %+v, want the prediction of this window", n, id, s)
		}
	}
	if len(h.place) != keptPredictions || len(h.windows.items) != keptWindows {
		t.Errorf("%d predictions and %d windows are kept, want %d and %d", len(h.place), len(h.windows.items), keptPredictions, keptWindows)
	}
}

// TestCurve: on a long stream the points of a curve stay few and in order, and together
// have the scores of all labels.
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
			t.Errorf("the point after window %d is %+v, want a later window, and the log loss of its labels", last, p)
		}
		last = p.last
	}
	if got != labels || len(c.points) > keptPoints || len(c.points) < keptPoints/2 || last != 2*4999 {
		t.Errorf("%d points up to window %d have %d labels, want %d to %d points up to %d with %d", len(c.points), last, got, keptPoints/2, keptPoints, 2*4999, labels)
	}
}

// TestDoubt: the page says before its answer that labels are of one class, or that they stopped, as the boards do.
func TestDoubt(t *testing.T) {
	h := newHistory()
	h.model = &model.Model{Meta: model.Meta{Classes: []string{"a", "b"}, Training: model.Training{Labels: []int{1, 9}}}}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	window := func(after time.Duration, labels ...int32) {
		out := &event.Outcome{Model: "m", Predictions: []event.Prediction{{}}, AsTrained: []int32{1, 4}, Heads: []event.Head{{Name: "pool"}}}
		for _, class := range labels {
			out.Labelled = append(out.Labelled, event.Labelled{Class: class})
			out.Heads[0].Scores = append(out.Heads[0].Scores, event.Score{Class: class, Correct: true})
		}
		h.step(Window{Outcome: out, At: at.Add(after)})
	}
	answer := func(after time.Duration) string {
		q := question{Answer: "It is fine."}
		h.doubt(&q, at.Add(after))
		return q.Answer
	}
	for n := range 40 {
		window(time.Duration(n)*time.Second, 0)
	}
	if got := answer(time.Minute); got != "It is fine." {
		t.Errorf("of 40 labels it says %q", got)
	}
	for n := range 20 {
		window(time.Minute+time.Duration(n)*time.Second, 0)
	}
	if got := answer(2 * time.Minute); !strings.HasPrefix(got, "Labels are of one class") || !strings.HasSuffix(got, "It is fine.") {
		t.Errorf("of 60 labels of one class it says %q", got)
	}
	for range 15 {
		window(2*time.Minute, 1, 1, 1, 1, 1, 1, 1, 1)
	}
	window(3 * time.Minute)
	if got := answer(13 * time.Minute); got != "Labels stopped: the last one came 11m0s ago. It is fine." {
		t.Errorf("eleven minutes after the last label it says %q", got)
	}
}
