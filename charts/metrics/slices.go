package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/meter"
)

// slicing is the serving head's scores by where in the graph a node was served.
// Like those of the confidence bins, their counters add up. The mean confidence of a
// slice minus its accuracy is its overconfidence.
type slicing struct {
	labels, correct, confidence *prometheus.CounterVec
	degree                      [len(event.DegreeSlices)]slice
	neighbours                  [len(neighbourhoods)]slice
	predicted                   byClass[slice]
}

// slice is the series of one slice.
type slice struct{ labels, correct, confidence prometheus.Counter }

// neighbourhoods are the slices by kind of neighbours: none, at least half of them
// context nodes, which are known from training, or most of them nodes of the stream.
var neighbourhoods = [...]string{"none", "old", "fresh"}

func newSlices(r meter.Register) slicing {
	s := slicing{
		labels: r.Counters("gvbll_slice_labels_total", "Labelled predictions of the serving head by slice of the "+
			"graph: degree, neighbourhood (mostly old context, or mostly fresh nodes of the stream), predicted class.", "slice", "value"),
		correct: r.Counters("gvbll_slice_correct_total", "Correct predictions of the serving head by slice of "+
			"the graph.", "slice", "value"),
		confidence: r.Counters("gvbll_slice_confidence_total",
			"Sum of the confidences of labelled predictions of the serving head by slice of the graph.", "slice", "value"),
	}
	for i, d := range event.DegreeSlices {
		s.degree[i] = s.slice("degree", d.Name)
	}
	for i, name := range neighbourhoods {
		s.neighbours[i] = s.slice("neighbourhood", name)
	}
	s.predicted = newByClass(func(class string) slice { return s.slice("predicted", class) })
	return s
}

func (s *slicing) slice(by, value string) slice {
	return slice{s.labels.WithLabelValues(by, value), s.correct.WithLabelValues(by, value), s.confidence.WithLabelValues(by, value)}
}

// observe counts every label once in each way of slicing.
func (s *slicing) observe(out *event.Outcome) {
	for i := range out.Labelled {
		l := &out.Labelled[i]
		score := &out.Heads[l.By].Scores[i]
		s.degree[event.DegreeSlice(l.Degree)].add(score)
		switch {
		case l.Degree == 0:
			s.neighbours[0].add(score)
		case 2*l.Fresh <= l.Degree:
			s.neighbours[1].add(score)
		default:
			s.neighbours[2].add(score)
		}
		s.predicted.of(l.Predicted).add(score)
	}
}

func (s slice) add(score *event.Score) {
	s.labels.Inc()
	s.confidence.Add(score.Confidence)
	if score.Correct {
		s.correct.Inc()
	}
}
