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

// newScores returns metrics whose names have a prefix, with a sentence on whose heads they are of behind each help.
func newScores(r meter.Register, prefix, labels, help, means, whose string, head ...string) scores {
	return scores{
		labels:  r.Counters(prefix+labels, help, head...),
		correct: r.Counters(prefix+"correct_labels_total", "Scored labels that the head had predicted."+whose, head...),
		logLoss: r.Counters(prefix+"log_loss_nats_total",
			"Sum of the log losses (negative log-likelihoods) of scored labels."+whose, head...),
		brier:  r.Counters(prefix+"brier_score_total", "Sum of the Brier scores of scored labels, each from 0 to 2."+whose, head...),
		scored: r.Gauges(prefix+"prequential_labels", "Number of labels in the prequential scores."+whose, head...),
		means:  r.Gauges(prefix+"prequential", means, append(head[:len(head):len(head)], "measure", "mean")...),
	}
}

func (s *scores) add(t *calibration.Tally, head ...string) {
	s.labels.WithLabelValues(head...).Add(float64(t.Labels))
	s.correct.WithLabelValues(head...).Add(float64(t.Correct))
	s.logLoss.WithLabelValues(head...).Add(t.LogLoss)
	s.brier.WithLabelValues(head...).Add(t.Brier)
}

// show sets a head's means over labels and, unless it is a member of a pool, over windows.
func (s *scores) show(sum *pipeline.Summary, member bool, head ...string) {
	s.scored.WithLabelValues(head...).Set(float64(sum.Total().Labels))
	set := func(mean string, m calibration.Means) {
		for measure, value := range map[string]float64{"accuracy": m.Acc, "nll": m.NLL, "ece": m.ECE, "brier": m.Brier} {
			s.means.WithLabelValues(append(head[:len(head):len(head)], measure, mean)...).Set(value)
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

// confidences are counters of labelled predictions: how many, how many were right, and the sum of their confidences. The mean
// confidence minus the accuracy is the overconfidence. They add up over time and over workers, so that from those by bin the
// ECE and a reliability diagram over any range can be computed, with the bins that the ledger and the API have.
type confidences struct{ rows, correct, confidence *prometheus.CounterVec }

func newConfidences(r meter.Register, prefix, rows, by, more string, labels ...string) confidences {
	return confidences{
		r.Counters(prefix+rows, "Labelled predictions "+by+more, labels...),
		r.Counters(prefix+"correct_total", "Correct predictions "+by+".", labels...),
		r.Counters(prefix+"confidence_total", "Sum of the confidences of labelled predictions "+by+".", labels...),
	}
}

func (c *confidences) add(b calibration.Bin, values ...string) {
	c.rows.WithLabelValues(values...).Add(float64(b.Count))
	c.correct.WithLabelValues(values...).Add(float64(b.Correct))
	c.confidence.WithLabelValues(values...).Add(b.SumConfidence)
}

// heads are the metrics of the heads of the model that serves.
//
// Every label is scored against the prediction of each head, of which one was served.
// The label serving of a series says whether it was: the series with "true" add up to the
// scores of what was served, whichever head served it, and those of one head to the
// scores of that head.
type heads struct {
	scores           scores
	bins, slices     confidences
	predicted        names
	clipped, batches *prometheus.CounterVec
	step             *prometheus.GaugeVec
	gainSquares      prometheus.Counter
	begun            map[scoredBy]bool
	binned           map[string]bool // heads that have bins: those that have served, and the model as trained; others' are on the page
	serves           string          // the head whose means are shown as those that serve
}

// scoredBy names series of a head: where it served, or where it did not, and whether there are bins among them.
type scoredBy struct {
	head            string
	serving, binned bool
}

func newHeads(r meter.Register) heads {
	h := heads{
		scores: newScores(r, "gvbll_", "scored_labels_total", "Labels that a head's predictions were scored against, where it "+
			"served (serving is true) and where another head did. Of a corrected label, the first.",
			"Mean scores of what was served since the first window: accuracy, nll (nats), ece, brier; over labels, "+
				"or over windows that had labels.", "", "head", "serving"),
		bins: newConfidences(r, "gvbll_calibration_", "predictions_total", "by bin of confidence",
			"; bin is its least confidence, and the next bin begins .05 above.", "head", "serving", "bin"),
		slices: newConfidences(r, "gvbll_slice_", "labels_total", "of the serving head by slice of the graph",
			": degree, neighbourhood (mostly old context, or mostly fresh nodes of the stream), predicted class.", "slice", "value"),
		clipped: r.Counters("gvbll_posterior_clipped_entries_total",
			"Entries of the posterior mean whose update was clipped to ±δ.", "head"),
		batches: r.Counters("gvbll_posterior_batches_total", "Batches of labels that the head's posterior has learned from.", "head"),
		step:    r.Gauges("gvbll_posterior_step_norm", "Euclidean norm of the last update of the posterior mean.", "head"),
		gainSquares: r.Counter("gvbll_log_loss_gain_squares_total", "Sum of the squares of the gains of labels: "+
			"log loss of the model as trained less that of what was served."),
		predicted: make(names), begun: make(map[scoredBy]bool), binned: map[string]bool{serve.Static: true},
	}
	for _, d := range event.DegreeSlices {
		h.slices.add(calibration.Bin{}, "degree", d.Name)
	}
	for _, name := range neighbourhoods {
		h.slices.add(calibration.Bin{}, "neighbourhood", name)
	}
	return h
}

// neighbourhoods are the slices by kind of neighbours: none, at least half of them
// context nodes, which are known from training, or most of them nodes of the stream.
var neighbourhoods = [...]string{"none", "old", "fresh"}

// add adds labels that a head was scored against where it served, or where it did not. All bins are there from the first time on.
func (h *heads) add(head string, serving bool, t *calibration.Tally) {
	h.binned[head] = h.binned[head] || serving
	by, label := scoredBy{head, serving, h.binned[head]}, strconv.FormatBool(serving)
	if t.Labels == 0 && h.begun[by] {
		return
	}
	h.scores.add(t, head, label)
	for b := range t.Bins {
		if by.binned && (t.Bins[b].Count > 0 || !h.begun[by]) {
			h.bins.add(t.Bins[b], head, label, fmt.Sprintf("%.2f", float64(b)/calibration.BinCount))
		}
	}
	h.begun[by] = true
}

func (h *heads) observe(out *event.Outcome) {
	for i := range out.Heads {
		o := &out.Heads[i]
		h.add(o.Name, i == out.ServedBy, &calibration.Tally{}) // from the first window, so that a rate sees the first label
		if o.Name == online || o.Clipped > 0 {
			h.clipped.WithLabelValues(o.Name).Add(float64(o.Clipped))
		}
		batches := h.batches.WithLabelValues(o.Name)
		if len(o.Scores) == 0 {
			continue
		}
		var served, unserved calibration.Tally
		for j := range o.Scores {
			t, by := &unserved, out.Labelled[j].By
			if by == i {
				t = &served
			}
			t.Add((*calibration.Score)(&o.Scores[j]))
			if o.Name == serve.Static {
				gain := o.Scores[j].LogLoss - out.Heads[by].Scores[j].LogLoss
				h.gainSquares.Add(gain * gain)
			}
		}
		if served.Labels > 0 {
			h.add(o.Name, true, &served)
		}
		if unserved.Labels > 0 {
			h.add(o.Name, false, &unserved)
		}
		if o.Step > 0 {
			h.step.WithLabelValues(o.Name).Set(o.Step)
		}
		if o.Version > 0 { // a static head has no updates
			batches.Inc()
		}
	}
	for i := range out.Labelled {
		h.slice(&out.Labelled[i], &out.Heads[out.Labelled[i].By].Scores[i])
	}
}

// slice counts a label once in each way of slicing the graph.
func (h *heads) slice(l *event.Labelled, score *event.Score) {
	one := calibration.Bin{Count: 1, SumConfidence: score.Confidence}
	if score.Correct {
		one.Correct = 1
	}
	neighbours := neighbourhoods[2]
	switch {
	case l.Degree == 0:
		neighbours = neighbourhoods[0]
	case 2*l.Fresh <= l.Degree:
		neighbours = neighbourhoods[1]
	}
	h.slices.add(one, "degree", event.DegreeSlices[event.DegreeSlice(l.Degree)].Name)
	h.slices.add(one, "neighbourhood", neighbours)
	h.slices.add(one, "predicted", h.predicted.of(l.Predicted))
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
