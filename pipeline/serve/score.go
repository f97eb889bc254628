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
	heads     heads.Serving
	batch     *heads.Batch
	bins      int        // of a window's ECE
	watched   []int32    // classes
	summaries []Summary  // by head
	also      []*Summary // of observers

	rows     []float32           // scratch: the heads' probabilities for a label
	losses   []float64           // scratch: log losses, by head and label
	scores   []calibration.Score // scratch: by head and label
	briers   []float64           // scratch: by head
	recycled [][]event.Score     // of an outcome that was recycled
}

// NewScorer returns a scorer of a serving's batches. The named classes are watched.
func NewScorer(m *model.Model, bins int, by heads.Serving, b *heads.Batch, named []string) *Scorer {
	s := &Scorer{classes: m.Classes, heads: by, batch: b, bins: bins, watched: m.Watched(named...)}
	for _, h := range by.Heads() {
		s.summaries = append(s.summaries, Summary{Head: h.Name()})
	}
	return s
}

// All returns the scores of all heads, and then those of observers.
func (s *Scorer) All() []Summary {
	all := slices.Clone(s.summaries)
	for _, x := range s.also {
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
	c, list := len(s.classes), s.heads.Heads()
	s.scoreHeads(len(list), func(i int) []float32 {
		all := s.probabilities(i, 0, len(list))
		for k, class := range s.watched {
			out.Labelled[i].Watched[k] = all[int(s.batch.ServedBy[i])*c+int(class)]
		}
		return all
	})
	out.Heads, out.Watched = make([]event.Head, len(list)), s.watched
	for h, head := range list {
		out.Heads[h].Name = head.Name()
		if len(s.batch.Labels) > 0 {
			out.Heads[h].Scores = s.take(h, &s.summaries[h])
		}
	}
	for i := range out.Labelled {
		l := &out.Labelled[i]
		l.Predicted = s.classes[out.Heads[l.By].Scores[i].Class]
	}
}

// scoreHeads scores what given returns for each label of the batch: the probabilities of so many heads.
func (s *Scorer) scoreHeads(heads int, given func(i int) []float32) {
	n, c := len(s.batch.Labels), len(s.classes)
	s.scores, s.losses, s.briers = kernel.Room(s.scores, heads*n), kernel.Room(s.losses, heads*n), kernel.Room(s.briers, heads)
	for i, y := range s.batch.Labels {
		all := given(i)
		calibration.Briers(s.briers, all, c, y)
		for h := range heads {
			p := all[h*c:][:c]
			best := MostProbable(p)
			s.losses[h*n+i] = float64(p[y])
			s.scores[h*n+i] = calibration.Score{
				Class: int32(best), Confidence: float64(p[best]), Correct: best == int(y), Brier: s.briers[h],
			}
		}
	}
	calibration.LogLosses(s.losses)
	for i, loss := range s.losses {
		s.scores[i].LogLoss = loss
	}
}

// Also returns the scores, of this name, that an observer has beside those of the heads.
func (s *Scorer) Also(name string) *Summary {
	x := &Summary{Head: name}
	s.also = append(s.also, x)
	return x
}

// ScoreAlso scores the probabilities that an observer gives for each label of the batch, adds them up, and
// returns them.
func (s *Scorer) ScoreAlso(x *Summary, given func(i int) []float32) []event.Score {
	s.scoreHeads(1, given)
	return s.take(0, x)
}

// take adds the scores of head h to the summary, and returns them.
func (s *Scorer) take(h int, summary *Summary) (list []event.Score) {
	n := len(s.batch.Labels)
	scores := s.scores[h*n : (h+1)*n]
	summary.AddWindow(scores, s.bins)
	if last := len(s.recycled) - 1; last >= 0 {
		list, s.recycled = s.recycled[last], s.recycled[:last]
	}
	list = kernel.Room(list, n)
	for i, score := range scores {
		list[i] = event.Score(score)
	}
	return list
}

// Served returns the probabilities that the serving head gave for label i of the batch.
// They are valid until the next call.
func (s *Scorer) Served(i int) []float32 { return s.probabilities(i, int(s.batch.ServedBy[i]), 1) }

// LossAmong returns the log loss of the prediction that was served for label i of the batch,
// given that the class is among the first ones.
func (s *Scorer) LossAmong(i, class, first int) float64 {
	served := s.Served(i)
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

// probabilities returns those of so many heads from the first one on for label i, valid until the next call.
func (s *Scorer) probabilities(i, first, heads int) []float32 {
	c := len(s.classes)
	s.rows = kernel.Room(s.rows, heads*c)
	s.heads.Probabilities(s.rows, s.batch.Outputs[i*s.heads.Width()+first*c:][:heads*c])
	return s.rows
}
