package parts

import (
	"math"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/serve"
)

// countedRates estimates for which share of each class's nodes a label comes: n_c labels of a class, over the m_c
// nodes that it is expected to have by what was served,
//
//	r_c = (n_c + 10)/(m_c + 10/R),  R = (Σn + 1)/(Σm + 1),
//
// of the past that is kept. Ten labels of a prior draw r_c to R, the rate of all. What is served depends on r in turn: the fixed
// point is that of an EM algorithm to which the classes of nodes without a label are what is missing. It can
// tell rare labels from a rare class because nodes that look like a class of which few labels come seldom
// have one.
type countedRates struct {
	queue            *heads.LearnQueue // whose updates have them
	labels, expected []float64         // by class
	rates            []float64
}

// NewCountedRates returns what estimates the rates that a queue's updates learn with.
func NewCountedRates(queue *heads.LearnQueue, classes int) serve.Observer {
	r := &countedRates{queue: queue, labels: make([]float64, classes), expected: make([]float64, classes), rates: make([]float64, classes)}
	r.update()
	return serve.Observer{Served: r.served, Matched: r.matched, Scored: func(*event.Outcome) { r.update() }, State: r.state}
}

// Constants of the estimate.
const (
	priorLabels = 10    // of each class
	keptCounts  = 0.999 // of the counts, for each label
)

func (r *countedRates) served(x *serve.Entered) {
	for i := range x.Out.Predictions {
		for c, p := range x.Out.Predictions[i].Probabilities {
			r.expected[c] += float64(p)
		}
	}
}

func (r *countedRates) matched(_, class int32) {
	for c := range r.labels {
		r.labels[c] *= keptCounts
		r.expected[c] *= keptCounts
	}
	r.labels[class]++
}

// update sets the rates for the next window.
func (r *countedRates) update() {
	labels, nodes := 1.0, 1.0
	for c, n := range r.labels {
		labels += n
		nodes += r.expected[c]
	}
	for c, n := range r.labels {
		r.rates[c] = (n + priorLabels) / (r.expected[c] + float64(priorLabels*nodes/labels))
	}
	r.queue.SetRates(r.rates)
}

// state declares the counts.
func (r *countedRates) state(s *snapshot.Schema) {
	snapshot.Slice(s, "rates.labels", &r.labels, len(r.labels))
	snapshot.Slice(s, "rates.expected", &r.expected, len(r.expected))
	s.Check(func() error {
		for c, n := range r.labels {
			if x := r.expected[c]; !(n >= 0 && n <= math.MaxFloat32 && x >= 0 && x <= math.MaxFloat32) {
				return snapshot.Damaged("%v labels of a class of %v nodes", n, x)
			}
		}
		r.update()
		return nil
	})
}
