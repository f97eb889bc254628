package pipeline

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// scorer computes prequential scores: it scores predictions as they were served, when
// their labels come and before any head learns from these.
type scorer struct {
	classes   []string
	heads     scoredHeads
	outputs   int // of a label in batch
	batch     *batch
	bins      int        // of a window's ECE
	summaries []Summary  // by head
	extra     []*Summary // of observers

	probs    []float64           // of the labels, and then their log losses
	row      []float32           // one head's probabilities
	scores   []calibration.Score // one head's
	recycled [][]event.Score     // of an outcome that was recycled
}

// scoredHeads is what a [scorer] asks of the heads.
type scoredHeads interface {
	heads() []head
	probabilities(dst, outputs []float32)
}

// newScorer returns a scorer of batches that have so many outputs a label.
func newScorer(m *model.Model, cfg Config, by scoredHeads, outputs int, b *batch) *scorer {
	s := &scorer{classes: m.Classes, heads: by, outputs: outputs, batch: b, bins: cfg.Bins}
	for _, h := range by.heads() {
		s.summaries = append(s.summaries, Summary{Head: h.Name()})
	}
	return s
}

// all returns the scores of all heads, and then those of observers.
func (s *scorer) all() []Summary {
	all := slices.Clone(s.summaries)
	for _, x := range s.extra {
		all = append(all, *x)
	}
	return all
}

// recycle reuses the memory of an outcome's scores.
func (s *scorer) recycle(out *event.Outcome) {
	for _, h := range out.Heads {
		if cap(h.Scores) > 0 {
			s.recycled = append(s.recycled, h.Scores)
		}
	}
}

// State declares the summaries.
func (s *scorer) State(schema *snapshot.Schema) {
	var list []*Summary
	for h := range s.summaries {
		list = append(list, &s.summaries[h])
	}
	declareSummaries(schema, "summaries", list, len(list))
}

// score scores every head.
func (s *scorer) score(out *event.Outcome) {
	out.Heads = make([]event.Head, len(s.heads.heads()))
	for h, head := range s.heads.heads() {
		out.Heads[h].Name = head.Name()
		if len(s.batch.labels) == 0 {
			continue
		}
		out.Heads[h].Scores = s.scoreHead(&s.summaries[h], func(i int) []float32 { return s.probabilities(h, i) })
	}
	for i := range out.Labelled {
		l := &out.Labelled[i]
		l.Predicted = s.classes[out.Heads[l.By].Scores[i].Class]
	}
}

// served returns the probabilities that the serving head gave for label i of the batch.
// They are valid until the next call.
func (s *scorer) served(i int) []float32 { return s.probabilities(int(s.batch.servedBy[i]), i) }

// lossAmong returns the log loss of the prediction that was served for label i of the batch,
// given that the class is among the first ones.
func (s *scorer) lossAmong(i, class, first int) float64 {
	served := s.served(i)
	p := []float64{float64(served[class])}
	if first < len(served) {
		var sum float64
		for _, x := range served[:first] {
			sum += float64(x)
		}
		p[0] /= max(sum, math.SmallestNonzeroFloat64)
	}
	calibration.LogLosses(p)
	return p[0]
}

// probabilities returns those of a head for label i, valid until the next call.
func (s *scorer) probabilities(head, i int) []float32 {
	c := len(s.classes)
	s.row = kernel.Room(s.row, c)
	s.heads.probabilities(s.row, s.batch.outputs[i*s.outputs+head*c:][:c])
	return s.row
}

// scoreHead scores the probabilities that given returns for each label of the batch, and
// adds the scores to the head's summary.
func (s *scorer) scoreHead(summary *Summary, given func(i int) []float32) []event.Score {
	n := len(s.batch.labels)
	s.scores, s.probs = kernel.Room(s.scores, n), kernel.Room(s.probs, n)
	for i, y := range s.batch.labels {
		p := given(i)
		best := mostProbable(p)
		s.probs[i] = float64(p[y])
		s.scores[i] = calibration.Score{
			Class: int32(best), Confidence: float64(p[best]), Correct: best == int(y), Brier: calibration.Brier(p, y),
		}
	}
	calibration.LogLosses(s.probs)
	for i, loss := range s.probs {
		s.scores[i].LogLoss = loss
	}
	summary.AddWindow(s.scores, s.bins)

	var scores []event.Score
	if last := len(s.recycled) - 1; last >= 0 {
		scores, s.recycled = s.recycled[last], s.recycled[:last]
	}
	scores = kernel.Room(scores, n)
	for i, score := range s.scores {
		scores[i] = event.Score(score)
	}
	return scores
}
