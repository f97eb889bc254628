package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// slices count the serving head's scores by where in the graph a node was served.
// They add up as the confidence bins do: confidence less accuracy of a slice is
// how far it is off.
type slices struct {
	labels, correct, confidence *prometheus.CounterVec
	degree                      [4]*slice
	neighbours                  [3]*slice
	predicted                   map[string]*slice
}

// slice caches one slice's series.
type slice struct{ labels, correct, confidence prometheus.Counter }

// degreeClasses are neighbours that came before the node: none, few, some, many.
// A class ends before the next one's first degree.
var degreeClasses = [...]struct {
	from int
	name string
}{{0, "0"}, {1, "1-3"}, {4, "4-15"}, {16, "16+"}}

// neighbourhoods are: nobody; mostly context, which was there when the model was
// trained; mostly nodes of the stream.
var neighbourhoods = [...]string{"none", "old", "fresh"}

func newSlices(counters func(name, help string, labels ...string) *prometheus.CounterVec) slices {
	s := slices{
		labels:     counters("gvbll_slice_labels_total", "Labelled predictions of the serving head, by slice of the graph: degree, neighbourhood (mostly old context, or fresh), class predicted.", "slice", "value"),
		correct:    counters("gvbll_slice_correct_total", "Those of them that were right.", "slice", "value"),
		confidence: counters("gvbll_slice_confidence_total", "The sum of their confidences.", "slice", "value"),
		predicted:  make(map[string]*slice),
	}
	for i, c := range degreeClasses {
		s.degree[i] = s.slice("degree", c.name)
	}
	for i, name := range neighbourhoods {
		s.neighbours[i] = s.slice("neighbourhood", name)
	}
	return s
}

func (s *slices) slice(by, value string) *slice {
	return &slice{s.labels.WithLabelValues(by, value), s.correct.WithLabelValues(by, value), s.confidence.WithLabelValues(by, value)}
}

func (s *slices) observe(l *event.Labelled, score *calibration.Score) {
	c := len(degreeClasses) - 1
	for l.Degree < degreeClasses[c].from {
		c--
	}
	n := 0
	if l.Degree > 0 {
		n = 1
		if 2*l.Fresh > l.Degree {
			n = 2
		}
	}
	p := s.predicted[l.Predicted]
	if p == nil {
		name := l.Predicted
		if len(s.predicted) >= maxClasses {
			name = otherClasses
		}
		p = s.slice("predicted", name)
		s.predicted[l.Predicted] = p
	}
	for _, one := range [...]*slice{s.degree[c], s.neighbours[n], p} {
		one.labels.Inc()
		one.confidence.Add(score.Confidence)
		if score.Correct {
			one.correct.Inc()
		}
	}
}
