package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
)

// watch are the metrics of drift, of the sets of classes, and of who serves.
// Counters of detectors begin at 0, so that an alert sees the first change.
type watch struct {
	changes                *prometheus.CounterVec
	score, threshold       *prometheus.GaugeVec
	accuracy, ece          *prometheus.GaugeVec
	logLoss, logLossLabels prometheus.Gauge
	sets, held, classes    *prometheus.CounterVec
	abstentions            *prometheus.CounterVec
	target                 prometheus.Gauge
	fallback, lead         prometheus.Gauge
	windows                prometheus.Counter
	groups                 map[string]string
}

func newWatch(reg prometheus.Registerer, counters func(name, help string, labels ...string) *prometheus.CounterVec, gauges func(name, help string, labels ...string) *prometheus.GaugeVec) watch {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		reg.MustRegister(g)
		return g
	}
	w := watch{
		changes:       counters("gvbll_drift_changes_total", "Changes that a drift detector found: a loss that rose (worse) or fell (better), or embeddings or predicted classes that are not as before (other).", "detector", "change"),
		score:         gauges("gvbll_drift_score", "Latest score of a drift detector; above its threshold is a change.", "detector"),
		threshold:     gauges("gvbll_drift_threshold", "Threshold of a drift detector, 0 before it has one.", "detector"),
		accuracy:      gauges("gvbll_drift_accuracy", "Accuracy of about the latest thousand: as confidences say (confidence), estimated before labels from confidences and what such were worth (estimated), of labels that came (realised).", "by"),
		ece:           gauges("gvbll_drift_ece", "Calibration error of about the latest thousand: estimated before labels, and realised.", "by"),
		logLoss:       gauge("gvbll_drift_log_loss_nats", "Mean log loss of what was served, of the labels since it last changed (ADWIN)."),
		logLossLabels: gauge("gvbll_drift_log_loss_labels", "How many labels these are."),
		sets:          counters("gvbll_set_labels_total", "Labels held against the set of classes that was served, by the class or slice that has a threshold of its own; all where none has.", "group"),
		held:          counters("gvbll_set_covered_total", "Those of them that were in it.", "group"),
		classes:       counters("gvbll_set_classes_total", "The number of classes in these sets, summed.", "group"),
		abstentions:   counters("gvbll_abstentions_total", "Predictions that were served with the advice not to act on them, by reason.", "reason"),
		target:        gauge("gvbll_set_coverage_target", "Share of sets that are to hold the class, 0 where no sets are served."),
		fallback:      gauge("gvbll_fallback", "1 while the model as trained serves in place of the one that learns."),
		lead:          gauge("gvbll_fallback_lead_nats", "Log likelihood by which the model as trained is ahead, from 0 to where it serves."),
		groups:        make(map[string]string),
	}
	w.windows = prometheus.NewCounter(prometheus.CounterOpts{Name: "gvbll_fallback_windows_total", Help: "Windows with arrivals that the model as trained served."})
	reg.MustRegister(w.windows)
	for _, detector := range []string{"adwin", "page-hinkley"} {
		w.changes.WithLabelValues(detector, "worse")
		w.changes.WithLabelValues(detector, "better")
	}
	for _, detector := range []string{"mmd-embeddings", "mmd-classes"} {
		w.changes.WithLabelValues(detector, "other")
	}
	for _, reason := range []string{"out-of-distribution", "empty-set", "large-set", "low-confidence"} {
		w.abstentions.WithLabelValues(reason)
	}
	return w
}

// observe counts a live window.
func (w *watch) observe(out *event.Outcome) {
	if out.ServedBy > 0 && len(out.Predictions) > 0 {
		w.windows.Inc()
	}
	if out.Drift != nil {
		for i := range out.Drift.Detectors {
			d := &out.Drift.Detectors[i]
			rest := "other"
			if d.Name == "adwin" || d.Name == "page-hinkley" {
				rest = "better"
				w.changes.WithLabelValues(d.Name, "worse").Add(float64(d.Worse))
			}
			w.changes.WithLabelValues(d.Name, rest).Add(float64(d.Changes - d.Worse))
		}
	}
	if out.Coverage == nil {
		return
	}
	for i := range out.Predictions {
		if why := out.Predictions[i].Set.Abstain; why != "" {
			w.abstentions.WithLabelValues(why).Inc()
		}
	}
	for _, c := range out.Coverage.Labels {
		group := w.group(c.Group)
		w.sets.WithLabelValues(group).Inc()
		w.classes.WithLabelValues(group).Add(float64(c.Size))
		if c.Held {
			w.held.WithLabelValues(group).Inc()
		} else {
			w.held.WithLabelValues(group)
		}
	}
}

// group is the label of a group; beyond 64 of them the rest is (other).
func (w *watch) group(name string) string {
	if name == "" {
		return "all"
	}
	shown, known := w.groups[name]
	if !known {
		shown = name
		if len(w.groups) >= maxClasses {
			shown = otherClasses
		}
		w.groups[name] = shown
	}
	return shown
}

// show sets the gauges.
func (w *watch) show(out *event.Outcome) {
	w.fallback.Set(float64(min(out.ServedBy, 1)))
	w.lead.Set(out.Lead)
	if out.Coverage != nil {
		w.target.Set(out.Coverage.Target)
	}
	d := out.Drift
	if d == nil {
		return
	}
	for _, t := range d.Detectors {
		w.score.WithLabelValues(t.Name).Set(t.Score)
		w.threshold.WithLabelValues(t.Name).Set(t.Threshold)
	}
	if d.ServedRows > 0 {
		w.accuracy.WithLabelValues("confidence").Set(d.Confidence)
		w.accuracy.WithLabelValues("estimated").Set(d.EstimatedAccuracy)
		w.ece.WithLabelValues("estimated").Set(d.EstimatedECE)
	}
	if d.LabelledRows > 0 {
		w.accuracy.WithLabelValues("realised").Set(d.RealisedAccuracy)
		w.ece.WithLabelValues("realised").Set(d.RealisedECE)
	}
	w.logLoss.Set(d.LogLoss)
	w.logLossLabels.Set(float64(d.LogLossRows))
}
