package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/meter"
)

// drift are the metrics of the drift detectors.
type drift struct {
	changes                *prometheus.CounterVec
	score, threshold, rise *prometheus.GaugeVec
	accuracy, ece          *prometheus.GaugeVec
	logLoss                prometheus.Gauge
}

func newDrift(r meter.Register) drift {
	d := drift{
		changes: r.Counters("gvbll_drift_changes_total", "Changes found by a drift detector: worse where a loss "+
			"rose, other where embeddings changed.", "detector", "change"),
		rise: r.Gauges("gvbll_drift_rise_nats", "By how much the mean log loss rose at the last change: of what was "+
			"served (adwin), or of the model as trained (adwin-static).", "detector"),
		score:     r.Gauges("gvbll_drift_score", "Latest score of a drift detector; a score above the threshold is a change.", "detector"),
		threshold: r.Gauges("gvbll_drift_threshold", "Threshold of a drift detector; 0 before it has one.", "detector"),
		accuracy: r.Gauges("gvbll_drift_accuracy", "Accuracy over about the latest thousand: mean confidence "+
			"(confidence), corrected (estimated), of those whose label came (realised).", "by"),
		ece: r.Gauges("gvbll_drift_ece", "Calibration error over about the latest thousand: estimated before "+
			"labels, and realised.", "by"),
		logLoss: r.Gauge("gvbll_drift_log_loss_nats", "Mean log loss of the labels since the last change that ADWIN found."),
	}
	// Counters begin at 0, so that an alert sees the first change.
	for _, detector := range []string{"adwin", "adwin-static"} {
		d.changes.WithLabelValues(detector, "worse")
		d.rise.WithLabelValues(detector)
	}
	d.changes.WithLabelValues("mmd-embeddings", "other")
	return d
}

func (d *drift) observe(out *event.Outcome) {
	if out.Drift == nil {
		return
	}
	for _, t := range out.Drift.Detectors {
		if t.Rise > 0 {
			d.changes.WithLabelValues(t.Name, "worse").Inc()
			d.rise.WithLabelValues(t.Name).Set(t.Rise)
		} else if t.Changes > 0 {
			d.changes.WithLabelValues(t.Name, "other").Inc()
		}
	}
}

func (d *drift) show(out *event.Outcome) {
	o := out.Drift
	if o == nil {
		return
	}
	for _, t := range o.Detectors {
		d.score.WithLabelValues(t.Name).Set(t.Score)
		d.threshold.WithLabelValues(t.Name).Set(t.Threshold)
	}
	if o.ServedRows > 0 {
		d.accuracy.WithLabelValues("confidence").Set(o.Confidence)
		d.accuracy.WithLabelValues("estimated").Set(o.EstimatedAccuracy)
		d.ece.WithLabelValues("estimated").Set(o.EstimatedECE)
	}
	if o.LabelledRows > 0 {
		d.accuracy.WithLabelValues("realised").Set(o.RealisedAccuracy)
		d.ece.WithLabelValues("realised").Set(o.RealisedECE)
	}
	d.logLoss.Set(o.LogLoss)
}
