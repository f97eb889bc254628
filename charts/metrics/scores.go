package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// scores are the metrics of how well heads predicted: sums over labels as
// counters, and the means since the first window as gauges. The labels that name a
// head (head, or model and head) come first.
type scores struct {
	labels, correct, logLoss, brier *prometheus.CounterVec
	scored, means                   *prometheus.GaugeVec
}

// sums are the counters of one head.
type sums struct{ labels, correct, logLoss, brier prometheus.Counter }

func (s *scores) of(head ...string) sums {
	return sums{s.labels.WithLabelValues(head...), s.correct.WithLabelValues(head...), s.logLoss.WithLabelValues(head...), s.brier.WithLabelValues(head...)}
}

func (s *sums) add(t *calibration.Tally) {
	s.labels.Add(float64(t.Labels))
	s.correct.Add(float64(t.Correct))
	s.logLoss.Add(t.LogLoss)
	s.brier.Add(t.Brier)
}

// show sets a head's means over labels and over windows.
func (s *scores) show(sum *pipeline.Summary, head ...string) {
	s.scored.WithLabelValues(head...).Set(float64(sum.Total().Labels))
	set := func(mean string, m calibration.Means) {
		for _, v := range []struct {
			measure string
			value   float64
		}{{"accuracy", m.Acc}, {"nll", m.NLL}, {"ece", m.ECE}, {"brier", m.Brier}} {
			s.means.WithLabelValues(append(head[:len(head):len(head)], v.measure, mean)...).Set(v.value)
		}
	}
	set("window", sum.WindowMeans())
	set("label", sum.LabelMeans())
}

// reset drops the means of all heads.
func (s *scores) reset() {
	s.scored.Reset()
	s.means.Reset()
}

// bins is the number of confidence bins of equal width. Their counters add up over
// time and over workers, so that the ECE and a reliability diagram over any range can
// be computed from them. Each is the sum of two adjacent bins of [calibration.Tally].
const bins = calibration.BinCount / 2

// heads are the metrics of the heads of the model that serves.
type heads struct {
	scores                              scores
	binCount, binCorrect, binConfidence *prometheus.CounterVec
	clipped, batches                    *prometheus.CounterVec
	updates, step                       *prometheus.GaugeVec
	by                                  map[string]*head
}

// head are the series of one head.
type head struct {
	sums             sums
	bins             [bins]struct{ count, correct, confidence prometheus.Counter }
	clipped, batches prometheus.Counter
	updates, step    prometheus.Gauge
}

func newHeads(r register) heads {
	return heads{
		scores: scores{
			labels:  r.counters("gvbll_scored_labels_total", "Labels that a head's predictions were scored against.", "head"),
			correct: r.counters("gvbll_correct_labels_total", "Scored labels that the head had predicted.", "head"),
			logLoss: r.counters("gvbll_log_loss_nats_total", "Sum of the log losses (negative log-likelihoods) of scored labels.", "head"),
			brier:   r.counters("gvbll_brier_score_total", "Sum of the Brier scores of scored labels, each from 0 to 2.", "head"),
			scored:  r.gauges("gvbll_prequential_labels", "Number of labels in the prequential scores.", "head"),
			means:   r.gauges("gvbll_prequential", "Mean scores since the first window, of predictions as served: accuracy, nll (nats), ece, brier; averaged over labels, or over windows that had labels.", "head", "measure", "mean"),
		},
		binCount:      r.counters("gvbll_calibration_predictions_total", "Labelled predictions by confidence bin of equal width; bin 0 begins at confidence 0.", "head", "bin"),
		binCorrect:    r.counters("gvbll_calibration_correct_total", "Correct predictions by confidence bin.", "head", "bin"),
		binConfidence: r.counters("gvbll_calibration_confidence_total", "Sum of the confidences of labelled predictions by confidence bin.", "head", "bin"),
		clipped:       r.counters("gvbll_posterior_clipped_entries_total", "Entries of the posterior mean whose update was clipped to ±δ.", "head"),
		batches:       r.counters("gvbll_posterior_batches_total", "Batches of labels that the head's posterior has learned from.", "head"),
		updates:       r.gauges("gvbll_posterior_updates", "Version of the head's posterior: the number of its updates.", "head"),
		step:          r.gauges("gvbll_posterior_step_norm", "Euclidean norm of the last update of the posterior mean.", "head"),
		by:            make(map[string]*head),
	}
}

func (h *heads) of(name string) *head {
	if one := h.by[name]; one != nil {
		return one
	}
	one := &head{
		sums:    h.scores.of(name),
		clipped: h.clipped.WithLabelValues(name), batches: h.batches.WithLabelValues(name),
		updates: h.updates.WithLabelValues(name), step: h.step.WithLabelValues(name),
	}
	for b := range one.bins {
		s, bin := &one.bins[b], strconv.Itoa(b)
		s.count, s.correct, s.confidence = h.binCount.WithLabelValues(name, bin), h.binCorrect.WithLabelValues(name, bin), h.binConfidence.WithLabelValues(name, bin)
	}
	h.by[name] = one
	return one
}

func (h *heads) observe(out *event.Outcome) {
	for i := range out.Heads {
		o := &out.Heads[i]
		one := h.of(o.Name)
		one.clipped.Add(float64(o.Clipped))
		if len(o.Scores) == 0 {
			continue
		}
		t := pipeline.Tally(o)
		one.sums.add(&t)
		for b := range one.bins {
			for _, half := range t.Bins[2*b : 2*b+2] {
				one.bins[b].count.Add(float64(half.Count))
				one.bins[b].correct.Add(float64(half.Correct))
				one.bins[b].confidence.Add(half.SumConfidence)
			}
		}
		one.step.Set(o.Step)
		if o.Version > 0 { // a static head has no updates
			one.batches.Inc()
		}
	}
}

func (h *heads) show(out *event.Outcome, sums []pipeline.Summary) {
	for i := range out.Heads {
		h.of(out.Heads[i].Name).updates.Set(float64(out.Heads[i].Version))
	}
	for i := range sums {
		h.scores.show(&sums[i], sums[i].Head)
	}
}
