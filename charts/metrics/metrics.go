// Package metrics exports what the engine's outcomes say: scores of what was
// served, calibration, the graph, what was refused, and the posterior's health.
// It counts live windows only, so that rates survive a restart and only the
// owner of a graph counts: counters of several workers add up. Gauges hold the
// whole history, replayed windows included; those of a standby are as old as its
// start, so queries keep to the worker with gvbll_owner 1.
package metrics

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Bins is the number of confidence bins of equal width. Their counters add up
// over time and over workers, so ECE and a reliability diagram of any range
// can be had from them.
const Bins = 10

// maxClasses is how many classes have series of their own. The rest share one.
const maxClasses = 64

// otherClasses is the class of those.
const otherClasses = "(other)"

// Metrics follow the outcomes of one engine.
type Metrics struct {
	arrivals, context, updates, predictions prometheus.Counter
	edges, duplicates, loops, edgesDropped  prometheus.Counter
	revisions                               prometheus.Counter
	joined, repeated, ofContext, expired    prometheus.Counter
	left, unknown, edgesGone                prometheus.Counter
	refused                                 map[event.Reason]prometheus.Counter
	uncertainty                             *prometheus.CounterVec
	delay, confidence                       prometheus.Histogram
	predicted                               *prometheus.CounterVec
	classes                                 []prometheus.Counter // of predicted, by class index; nil before the first of a class
	levels                                  *prometheus.GaugeVec
	heads                                   map[string]*head
	slices                                  slices
	shadow                                  shadow
	watch                                   watch
	vectors                                 vectors
}

// vectors are the metrics that are kept for every head.
type vectors struct {
	binCount, binCorrect, binConfidence *prometheus.CounterVec
	labels, correct, logLoss, brier     *prometheus.CounterVec
	clipped, batches                    *prometheus.CounterVec
	updates, step                       *prometheus.GaugeVec
	prequential, scored                 *prometheus.GaugeVec
	health                              health
	pool                                poolGauges
}

// head caches one head's series.
type head struct {
	binCount, binCorrect, binConfidence [Bins]prometheus.Counter
	labels, correct, logLoss, brier     prometheus.Counter
	clipped, batches                    prometheus.Counter
	updates, step                       prometheus.Gauge
}

// New registers the metrics.
func New(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		reg.MustRegister(g)
		return g
	}
	dropped := counters("gvbll_edges_dropped_total", "Edges not added: named twice, to itself, or forgotten before their node came.", "reason")
	labels := counters("gvbll_labels_total", "Labels taken: joined to what was served, repeated, or of a context node.", "result")
	departures := counters("gvbll_departures_total", "Departures: of nodes that left, or unknown, of nodes that were not there.", "result")
	m := &Metrics{
		arrivals:     counter("gvbll_arrivals_total", "Nodes that arrived, to be served unless they left in the same window."),
		context:      counter("gvbll_context_nodes_total", "Nodes that arrived as context, not to be served."),
		updates:      counter("gvbll_node_updates_total", "Nodes that came again: features replaced, edges added."),
		predictions:  counter("gvbll_predictions_total", "Predictions served."),
		revisions:    counter("gvbll_revisions_total", "Predictions of nodes that were served before, published again."),
		edges:        counter("gvbll_edges_total", "Edges added to the graph."),
		duplicates:   dropped.WithLabelValues("duplicate"),
		loops:        dropped.WithLabelValues("self-loop"),
		edgesDropped: dropped.WithLabelValues("expired"),
		joined:       labels.WithLabelValues("joined"),
		repeated:     labels.WithLabelValues("repeated"),
		ofContext:    labels.WithLabelValues("context"),
		expired:      counter("gvbll_predictions_expired_total", "Predictions forgotten before their label came, to make room."),
		left:         departures.WithLabelValues("left"),
		unknown:      departures.WithLabelValues("unknown"),
		edgesGone:    counter("gvbll_edges_removed_total", "Edges that went with a node that left, waiting ones among them."),
		refused:      make(map[event.Reason]prometheus.Counter),
		uncertainty:  counters("gvbll_uncertainty_nats_total", "Uncertainty of the predictions served, summed: total, aleatoric and epistemic.", "kind"),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gvbll_label_delay_seconds", Help: "Event time from a node's arrival to its label, where both are told.",
			Buckets:                     prometheus.ExponentialBuckets(0.1, 6, 10),
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}),
		confidence: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gvbll_prediction_confidence", Help: "Confidence of the predictions served, labelled or not: the probability of the class that is named.",
			Buckets:                     prometheus.LinearBuckets(0.1, 0.1, 10),
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}),
		predicted: counters("gvbll_predicted_classes_total", "Predictions served, by the class that is named; beyond 64 classes the rest is (other).", "class"),
		levels:    gauges("gvbll_level", "What the engine holds: nodes and edges of the graph, pending predictions, waiting labels and edges.", "of"),
		heads:     make(map[string]*head),
		vectors: vectors{
			binCount:      counters("gvbll_calibration_predictions_total", "Labelled predictions by confidence bin of equal width; bin 0 begins at confidence 0.", "head", "bin"),
			binCorrect:    counters("gvbll_calibration_correct_total", "Those of them that were right.", "head", "bin"),
			binConfidence: counters("gvbll_calibration_confidence_total", "The sum of their confidences.", "head", "bin"),
			labels:        counters("gvbll_scored_labels_total", "Labels held against what a head served.", "head"),
			correct:       counters("gvbll_correct_labels_total", "Those for which the head's class was right.", "head"),
			logLoss:       counters("gvbll_log_loss_nats_total", "Their negative log-likelihood, summed.", "head"),
			brier:         counters("gvbll_brier_score_total", "Their Brier scores, summed over classes and labels.", "head"),
			clipped:       counters("gvbll_posterior_clipped_entries_total", "Entries of the posterior mean whose step was clipped to ±δ.", "head"),
			batches:       counters("gvbll_posterior_batches_total", "Batches of labels that the head's posterior has learned from.", "head"),
			updates:       gauges("gvbll_posterior_updates", "Updates that the head's posterior has taken (its version).", "head"),
			step:          gauges("gvbll_posterior_step_norm", "Euclidean norm of the last update of the posterior mean.", "head"),
			scored:        gauges("gvbll_prequential_labels", "Labels that the prequential scores are of.", "head"),
			prequential:   gauges("gvbll_prequential", "Scores since the first window, as served: accuracy, nll (nats), ece, brier; mean over windows with labels or over labels.", "head", "measure", "mean"),
			health:        newHealth(gauges),
			pool:          newPoolGauges(gauges),
		},
	}
	reg.MustRegister(m.delay, m.confidence)
	m.slices = newSlices(counters)
	m.shadow = newShadow(counter, counters, gauges)
	m.watch = newWatch(reg, counters, gauges)
	refused := counters("gvbll_refused_events_total", "Events sent to the dead-letter topic.", "reason")
	for _, r := range event.Reasons() {
		m.refused[r] = refused.WithLabelValues(string(r))
	}
	return m
}

// Observe takes a live outcome into the counters.
func (m *Metrics) Observe(out *event.Outcome) {
	c := &out.Counts
	m.arrivals.Add(float64(c.Arrivals))
	m.context.Add(float64(c.Context))
	m.updates.Add(float64(c.Updates))
	m.predictions.Add(float64(len(out.Predictions)))
	m.revisions.Add(float64(len(out.Revisions)))
	m.edges.Add(float64(c.Edges))
	m.duplicates.Add(float64(c.DuplicateEdges))
	m.loops.Add(float64(c.SelfLoops))
	m.edgesDropped.Add(float64(c.EdgesDropped))
	m.joined.Add(float64(len(out.Labelled)))
	m.repeated.Add(float64(c.LabelsRepeated))
	m.ofContext.Add(float64(c.LabelsOfContext))
	m.expired.Add(float64(c.Expired))
	m.left.Add(float64(c.Departures))
	m.unknown.Add(float64(c.DeparturesUnknown))
	m.edgesGone.Add(float64(c.EdgesRemoved))
	for i := range out.Refused {
		m.refused[out.Refused[i].Reason].Inc()
	}
	var total, aleatoric, epistemic float64
	for i := range out.Predictions {
		p := &out.Predictions[i]
		total += float64(p.Total)
		aleatoric += float64(p.Aleatoric)
		epistemic += float64(p.Epistemic)
		m.confidence.Observe(float64(p.Confidence))
		m.class(p).Inc()
	}
	m.uncertainty.WithLabelValues("total").Add(total)
	m.uncertainty.WithLabelValues("aleatoric").Add(aleatoric)
	m.uncertainty.WithLabelValues("epistemic").Add(max(epistemic, 0))
	for i := range out.Labelled {
		if d := out.Labelled[i].Delay; d > 0 {
			m.delay.Observe(float64(d) / 1000)
		}
	}
	for i := range out.Heads {
		m.head(out.Heads[i].Name).observe(&out.Heads[i])
	}
	m.shadow.observe(out)
	for i := range out.Labelled {
		l := &out.Labelled[i]
		m.slices.observe(l, &out.Heads[l.By].Scores[i])
	}
	m.watch.observe(out)
}

// class returns the counter of the class that a prediction names.
func (m *Metrics) class(p *event.Prediction) prometheus.Counter {
	i := min(int(p.ClassIndex), maxClasses)
	for len(m.classes) <= i {
		m.classes = append(m.classes, nil)
	}
	if m.classes[i] == nil {
		name := p.Class
		if i == maxClasses {
			name = otherClasses
		}
		m.classes[i] = m.predicted.WithLabelValues(name)
	}
	return m.classes[i]
}

// Show sets the gauges: what the engine holds, and its scores so far.
func (m *Metrics) Show(out *event.Outcome, scores []pipeline.Summary) {
	m.watch.show(out)
	l := &out.Levels
	for of, n := range map[string]int{
		"nodes": l.Nodes, "edges": l.Edges, "pending-predictions": l.Pending, "waiting-labels": l.WaitingLabels, "waiting-edges": l.WaitingEdges,
	} {
		m.levels.WithLabelValues(of).Set(float64(n))
	}
	for i := range out.Heads {
		m.head(out.Heads[i].Name).updates.Set(float64(out.Heads[i].Version))
	}
	for i := range scores {
		s := &scores[i]
		m.vectors.scored.WithLabelValues(s.Head).Set(float64(s.Total().Labels))
		m.showScores(s.Head, "window", s.WindowMeans())
		m.showScores(s.Head, "label", s.LabelMeans())
	}
}

func (m *Metrics) showScores(head, mean string, s calibration.Means) {
	set := func(measure string, v float64) { m.vectors.prequential.WithLabelValues(head, measure, mean).Set(v) }
	set("accuracy", s.Acc)
	set("nll", s.NLL)
	set("ece", s.ECE)
	set("brier", s.Brier)
}

func (m *Metrics) head(name string) *head {
	if h := m.heads[name]; h != nil {
		return h
	}
	v := &m.vectors
	h := &head{
		labels: v.labels.WithLabelValues(name), correct: v.correct.WithLabelValues(name),
		logLoss: v.logLoss.WithLabelValues(name), brier: v.brier.WithLabelValues(name),
		clipped: v.clipped.WithLabelValues(name), batches: v.batches.WithLabelValues(name),
		updates: v.updates.WithLabelValues(name), step: v.step.WithLabelValues(name),
	}
	for b := range Bins {
		bin := fmt.Sprint(b)
		h.binCount[b] = v.binCount.WithLabelValues(name, bin)
		h.binCorrect[b] = v.binCorrect.WithLabelValues(name, bin)
		h.binConfidence[b] = v.binConfidence.WithLabelValues(name, bin)
	}
	m.heads[name] = h
	return h
}

func (h *head) observe(o *event.Head) {
	var t calibration.Tally
	for i := range o.Scores {
		t.Add(&o.Scores[i])
	}
	h.labels.Add(float64(t.Labels))
	h.correct.Add(float64(t.Correct))
	h.logLoss.Add(t.LogLoss)
	h.brier.Add(t.Brier)
	for i, bin := range t.Bins {
		b := i * Bins / calibration.BinCount // two of the tally's bins are one here
		h.binCount[b].Add(float64(bin.Count))
		h.binCorrect[b].Add(float64(bin.Correct))
		h.binConfidence[b].Add(bin.SumConfidence)
	}
	h.clipped.Add(float64(o.Clipped))
	if len(o.Scores) > 0 {
		h.step.Set(o.Step)
		if o.Version > 0 { // a static head takes none
			h.batches.Inc()
		}
	}
}
