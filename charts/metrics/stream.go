package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/meter"
)

// stream are the metrics of the events that were refused.
type stream struct {
	refused      map[event.Reason]prometheus.Counter
	unknownClass byClass[prometheus.Counter]
}

func newStream(r meter.Register) stream {
	s := stream{refused: make(map[event.Reason]prometheus.Counter)}
	// Every reason has a series from the start, so that a rate sees its first event.
	refused := r.Counters("gvbll_refused_events_total", "Events refused and sent to the dead-letter topic.", "reason")
	for _, reason := range event.Reasons() {
		s.refused[reason] = refused.WithLabelValues(string(reason))
	}
	unknown := r.Counters("gvbll_unknown_class_labels_total", "Labels of classes that the model lacks, by name.", "class")
	s.unknownClass = newByClass(func(name string) prometheus.Counter { return unknown.WithLabelValues(name) })
	return s
}

func (s *stream) observe(out *event.Outcome) {
	for i := range out.Refused {
		s.refused[out.Refused[i].Reason].Inc()
	}
	for _, name := range out.Odd.Classes {
		s.unknownClass.of(seriesName(name)).Inc()
	}
}

// maxSeriesName bounds the name of a class in a series, in bytes.
const maxSeriesName = 100

// seriesName returns a name from outside as a series can have it: of bounded length, valid
// UTF-8, and with memory of its own.
func seriesName(name string) string {
	return strings.ToValidUTF8(strings.Clone(name[:min(len(name), maxSeriesName)]), "�")
}
