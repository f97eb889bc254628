package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/meter"
)

// served are the metrics of predictions, labelled or not, and of the events that were refused.
type served struct {
	predictions, revisions             prometheus.Counter
	uncertainty                        *prometheus.CounterVec
	confidence, labelDelay             prometheus.Histogram
	predicted, refused, unknownClasses *prometheus.CounterVec
	classes, unknown                   names
}

// Seconds.
const minute, hour, day = 60, 60 * 60, 24 * 60 * 60

func newServed(r meter.Register) served {
	s := served{
		predictions: r.Counter("gvbll_predictions_total", "Predictions served."),
		revisions:   r.Counter("gvbll_revisions_total", "Later predictions of nodes that had been served before."),
		uncertainty: r.Counters("gvbll_uncertainty_nats_total",
			"Sum of the uncertainties of predictions: total, aleatoric and epistemic.", "kind"),
		confidence: r.Histogram("gvbll_prediction_confidence", "Confidence of predictions: the probability of the predicted class.",
			[]float64{.1, .2, .3, .4, .5, .6, .7, .8, .9, 1}),
		labelDelay: r.Histogram("gvbll_label_delay_seconds",
			"Event time from a node's arrival to its label, where both events have a time.",
			[]float64{
				.1, 1, 10, minute, 10 * minute, hour, 6 * hour, day, 3 * day, 7 * day, 14 * day, 30 * day, 60 * day, 90 * day,
				180 * day, 365 * day,
			}),
		predicted: r.Counters("gvbll_predicted_classes_total",
			"Predictions by predicted class; classes beyond the first 64 are counted as (other).", "class"),
		refused:        r.Counters("gvbll_refused_events_total", "Events refused and sent to the dead-letter topic.", "reason"),
		unknownClasses: r.Counters("gvbll_unknown_class_labels_total", "Labels of classes that the model lacks, by name.", "class"),
		classes:        make(names), unknown: make(names),
	}
	for _, reason := range event.Reasons() { // from the start, so that a rate sees the first event
		s.refused.WithLabelValues(string(reason))
	}
	return s
}

func (s *served) observe(out *event.Outcome) {
	s.predictions.Add(float64(len(out.Predictions)))
	s.revisions.Add(float64(len(out.Revisions)))
	var total, aleatoric, epistemic float64
	for i := range out.Predictions {
		p := &out.Predictions[i]
		total += float64(p.Total)
		aleatoric += float64(p.Aleatoric)
		epistemic += float64(p.Epistemic)
		s.confidence.Observe(float64(p.Confidence))
		s.predicted.WithLabelValues(s.classes.of(p.Class)).Inc()
	}
	s.uncertainty.WithLabelValues("total").Add(total)
	s.uncertainty.WithLabelValues("aleatoric").Add(aleatoric)
	s.uncertainty.WithLabelValues("epistemic").Add(max(epistemic, 0)) // it is total minus aleatoric, which rounding can make negative
	for i := range out.Labelled {
		if d := out.Labelled[i].Delay; d > 0 {
			s.labelDelay.Observe(float64(d) / 1000)
		}
	}
	for i := range out.Refused {
		s.refused.WithLabelValues(string(out.Refused[i].Reason)).Inc()
	}
	for _, name := range out.Odd.Classes {
		s.unknownClasses.WithLabelValues(s.unknown.of(seriesName(name))).Inc()
	}
}

// maxSeriesName bounds the name of a class in a series, in bytes.
const maxSeriesName = 100

// seriesName returns a name from outside as a series can have it: of bounded length, valid
// UTF-8, and with memory of its own.
func seriesName(name string) string {
	return strings.ToValidUTF8(strings.Clone(name[:min(len(name), maxSeriesName)]), "�")
}
