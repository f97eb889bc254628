package metrics

import (
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics/meter"
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
	return sums{
		s.labels.WithLabelValues(head...), s.correct.WithLabelValues(head...), s.logLoss.WithLabelValues(head...),
		s.brier.WithLabelValues(head...),
	}
}

func (s *sums) add(t *calibration.Tally) {
	s.labels.Add(float64(t.Labels))
	s.correct.Add(float64(t.Correct))
	s.logLoss.Add(t.LogLoss)
	s.brier.Add(t.Brier)
}

// show sets a head's means over labels and, unless it is a member of a pool, over windows.
func (s *scores) show(sum *pipeline.Summary, member bool, head ...string) {
	s.scored.WithLabelValues(head...).Set(float64(sum.Total().Labels))
	set := func(mean string, m calibration.Means) {
		for _, v := range []struct {
			measure string
			value   float64
		}{{"accuracy", m.Acc}, {"nll", m.NLL}, {"ece", m.ECE}, {"brier", m.Brier}} {
			s.means.WithLabelValues(append(head[:len(head):len(head)], v.measure, mean)...).Set(v.value)
		}
	}
	if !member {
		set("window", sum.WindowMeans())
	}
	set("label", sum.LabelMeans())
}

// reset drops the means of all heads.
func (s *scores) reset() {
	s.scored.Reset()
	s.means.Reset()
}

// heads are the metrics of the heads of the model that serves.
//
// Every label is scored against the prediction of each head, of which one was served.
// The label serving of a series says whether it was: the series with "true" add up to the
// scores of what was served, whichever head served it, and those of one head to the
// scores of that head.
type heads struct {
	scores                              scores
	binCount, binCorrect, binConfidence *prometheus.CounterVec
	clipped, batches                    *prometheus.CounterVec
	step                                *prometheus.GaugeVec
	gainSquares                         prometheus.Counter
	by                                  map[scoredBy]*scored
	binned                              map[string]bool // heads that have served, and the model as trained
	serves                              string          // the head whose means are shown as those that serve
}

// scoredBy names a head, and whether it served.
type scoredBy struct {
	head    string
	serving bool
}

// scored are the series of a head's scores, where it served or where it did not. Those by
// bin add up over time and over workers, so that the ECE and a reliability diagram over
// any range can be computed from them, with the bins that the ledger and the API have.
type scored struct {
	sums sums
	bins *confidenceBins // nil of a member of a pool, whose bins are on the page
}

// confidenceBins are the series of bins of confidence.
type confidenceBins [calibration.BinCount]struct{ count, correct, confidence prometheus.Counter }

func newHeads(r meter.Register) heads {
	return heads{
		scores: scores{
			labels: r.Counters("gvbll_scored_labels_total",
				"Labels that a head's predictions were scored against, where it served (serving is true) and where "+
					"another head did. Of a corrected label, the first.", "head", "serving"),
			correct: r.Counters("gvbll_correct_labels_total", "Scored labels that the head had predicted.", "head", "serving"),
			logLoss: r.Counters("gvbll_log_loss_nats_total",
				"Sum of the log losses (negative log-likelihoods) of scored labels.", "head", "serving"),
			brier: r.Counters("gvbll_brier_score_total", "Sum of the Brier scores of scored labels, each from 0 to 2.",
				"head", "serving"),
			scored: r.Gauges("gvbll_prequential_labels", "Number of labels in the prequential scores.", "head", "serving"),
			means: r.Gauges("gvbll_prequential", "Mean scores since the first window, of predictions as made when "+
				"the nodes were served: accuracy, nll (nats), ece, brier; averaged over labels, or over windows that "+
				"had labels, which members of a pool have not. The head that serves now has serving true.", "head",
				"serving", "measure", "mean"),
		},
		binCount: r.Counters("gvbll_calibration_predictions_total",
			"Labelled predictions by bin of confidence; bin is its least confidence, and the next bin begins .05 above.",
			"head", "serving", "bin"),
		binCorrect: r.Counters("gvbll_calibration_correct_total", "Correct predictions by bin of confidence.", "head", "serving", "bin"),
		binConfidence: r.Counters("gvbll_calibration_confidence_total",
			"Sum of the confidences of labelled predictions by bin of confidence.", "head", "serving", "bin"),
		clipped: r.Counters("gvbll_posterior_clipped_entries_total",
			"Entries of the posterior mean whose update was clipped to ±δ.", "head"),
		batches: r.Counters("gvbll_posterior_batches_total", "Batches of labels that the head's posterior has learned from.", "head"),
		step:    r.Gauges("gvbll_posterior_step_norm", "Euclidean norm of the last update of the posterior mean.", "head"),
		gainSquares: r.Counter("gvbll_log_loss_gain_squares_total",
			"Sum of the squares of the gains of labels: of the log loss of the model as "+
				"trained less that of what was served."),
		by:     make(map[scoredBy]*scored),
		binned: map[string]bool{serve.Static: true},
	}
}

// of returns the series of a head's scores where it served, or where it did not.
func (h *heads) of(name string, serving bool) *scored {
	by, label := scoredBy{name, serving}, strconv.FormatBool(serving)
	h.binned[name] = h.binned[name] || serving
	s := h.by[by]
	if s == nil {
		s = &scored{sums: h.scores.of(name, label)}
		h.by[by] = s
	}
	if s.bins == nil && h.binned[name] {
		s.bins = new(confidenceBins)
		for b := range s.bins {
			series, bin := &s.bins[b], fmt.Sprintf("%.2f", float64(b)/calibration.BinCount)
			series.count, series.correct, series.confidence = h.binCount.WithLabelValues(name, label, bin),
				h.binCorrect.WithLabelValues(name, label, bin), h.binConfidence.WithLabelValues(name, label, bin)
		}
	}
	return s
}

func (s *scored) add(t *calibration.Tally) {
	s.sums.add(t)
	if s.bins == nil {
		return
	}
	for b, bin := range t.Bins {
		s.bins[b].count.Add(float64(bin.Count))
		s.bins[b].correct.Add(float64(bin.Correct))
		s.bins[b].confidence.Add(bin.SumConfidence)
	}
}

func (h *heads) observe(out *event.Outcome) {
	for i := range out.Heads {
		if static := &out.Heads[i]; static.Name == serve.Static {
			for j := range static.Scores {
				gain := static.Scores[j].LogLoss - out.Heads[out.Labelled[j].By].Scores[j].LogLoss
				h.gainSquares.Add(gain * gain)
			}
		}
	}
	for i := range out.Heads {
		o := &out.Heads[i]
		h.of(o.Name, i == out.ServedBy) // from the first window, so that a rate sees the first label
		if o.Name == online || o.Clipped > 0 {
			h.clipped.WithLabelValues(o.Name).Add(float64(o.Clipped))
		}
		batches := h.batches.WithLabelValues(o.Name)
		if len(o.Scores) == 0 {
			continue
		}
		var served, unserved calibration.Tally
		for j := range o.Scores {
			t := &unserved
			if out.Labelled[j].By == i {
				t = &served
			}
			t.Add((*calibration.Score)(&o.Scores[j]))
		}
		if served.Labels > 0 {
			h.of(o.Name, true).add(&served)
		}
		if unserved.Labels > 0 {
			h.of(o.Name, false).add(&unserved)
		}
		if o.Step > 0 {
			h.step.WithLabelValues(o.Name).Set(o.Step)
		}
		if o.Version > 0 { // a static head has no updates
			batches.Inc()
		}
	}
}

func (h *heads) show(out *event.Outcome, sums []pipeline.Summary) {
	if serves := out.Heads[out.ServedBy].Name; serves != h.serves {
		h.scores.reset()
		h.serves = serves
	}
	for i := range sums {
		serves := sums[i].Head == h.serves
		h.scores.show(&sums[i], !serves && sums[i].Head != serve.Static, sums[i].Head, strconv.FormatBool(serves))
	}
}

// online is the head with a posterior, of the paper or a pool; a pool may have further ones.
const online = "online"

// reset drops the gauges of all heads, for a model whose heads may have other names.
func (h *heads) reset() {
	h.scores.reset()
	h.step.Reset()
}
