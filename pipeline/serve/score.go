package serve

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Scorer computes prequential scores: it scores predictions as they were served, when
// their labels come and before any head learns from these.
type Scorer struct {
	classes   []string
	heads     scoredHeads
	outputs   int // of a label in batch
	batch     *heads.Batch
	bins      int        // of a window's ECE
	watched   []int32    // classes
	summaries []Summary  // by head
	extra     []*Summary // of observers

	probs    []float64           // of the labels, and then their log losses
	row      []float32           // one head's probabilities
	scores   []calibration.Score // one head's
	recycled [][]event.Score     // of an outcome that was recycled
}

// scoredHeads is what a [Scorer] asks of the heads.
type scoredHeads interface {
	Heads() []heads.Head
	Probabilities(dst, outputs []float32)
}

// NewScorer returns a scorer of batches that have so many outputs a label.
func NewScorer(m *model.Model, bins int, by scoredHeads, outputs int, b *heads.Batch) *Scorer {
	s := &Scorer{classes: m.Classes, heads: by, outputs: outputs, batch: b, bins: bins, watched: m.Watched()}
	for _, h := range by.Heads() {
		s.summaries = append(s.summaries, Summary{Head: h.Name()})
	}
	return s
}

// All returns the scores of all heads, and then those of observers.
func (s *Scorer) All() []Summary {
	all := slices.Clone(s.summaries)
	for _, x := range s.extra {
		all = append(all, *x)
	}
	return all
}

// Recycle reuses the memory of an outcome's scores.
func (s *Scorer) Recycle(out *event.Outcome) {
	for _, h := range out.Heads {
		if cap(h.Scores) > 0 {
			s.recycled = append(s.recycled, h.Scores)
		}
	}
}

// State declares the summaries.
func (s *Scorer) State(schema *snapshot.Schema) {
	var list []*Summary
	for h := range s.summaries {
		list = append(list, &s.summaries[h])
	}
	declareSummaries(schema, "summaries", list, len(list))
}

// Score scores every head.
func (s *Scorer) Score(out *event.Outcome) {
	out.Heads, out.Watched = make([]event.Head, len(s.heads.Heads())), s.watched
	for h, head := range s.heads.Heads() {
		out.Heads[h].Name = head.Name()
		if len(s.batch.Labels) == 0 {
			continue
		}
		out.Heads[h].Scores = s.scoreHead(&s.summaries[h], func(i int) []float32 {
			p := s.probabilities(h, i)
			if int(s.batch.ServedBy[i]) == h {
				for k, c := range s.watched {
					out.Labelled[i].Watched[k] = p[c]
				}
			}
			return p
		})
	}
	for i := range out.Labelled {
		l := &out.Labelled[i]
		l.Predicted = s.classes[out.Heads[l.By].Scores[i].Class]
	}
}

// served returns the probabilities that the serving head gave for label i of the batch.
// They are valid until the next call.
func (s *Scorer) served(i int) []float32 { return s.probabilities(int(s.batch.ServedBy[i]), i) }

// LossAmong returns the log loss of the prediction that was served for label i of the batch,
// given that the class is among the first ones.
func (s *Scorer) LossAmong(i, class, first int) float64 {
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
func (s *Scorer) probabilities(head, i int) []float32 {
	c := len(s.classes)
	s.row = kernel.Room(s.row, c)
	s.heads.Probabilities(s.row, s.batch.Outputs[i*s.outputs+head*c:][:c])
	return s.row
}

// scoreHead scores the probabilities that given returns for each label of the batch, and
// adds the scores to the head's summary.
func (s *Scorer) scoreHead(summary *Summary, given func(i int) []float32) []event.Score {
	n := len(s.batch.Labels)
	s.scores, s.probs = kernel.Room(s.scores, n), kernel.Room(s.probs, n)
	for i, y := range s.batch.Labels {
		p := given(i)
		best := MostProbable(p)
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
