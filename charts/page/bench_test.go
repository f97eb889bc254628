package page

import (
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
)

// BenchmarkStep measures the cost of the history per arrival, on a stream whose labels
// come one window late.
func BenchmarkStep(b *testing.B) {
	const arrivals, classes = 500, 40
	h := newHistory()
	out := &event.Outcome{
		Predictions: make([]event.Prediction, arrivals), Labelled: make([]event.Labelled, arrivals),
		Heads: []event.Head{{Name: "online", Scores: make([]event.Score, arrivals)}, {Name: "static", Scores: make([]event.Score, arrivals)}},
	}
	number := int64(0)
	for b.Loop() {
		out.Window++
		for i := range arrivals {
			out.Labelled[i].Node.Num = number - arrivals
			out.Predictions[i].Node.Num = number
			number++
		}
		h.step(Window{Outcome: out})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(number), "ns/arrival")
}
