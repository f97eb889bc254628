package pipeline

import (
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Scores are prequential measures of one head: NLL in nats, Brier summed over
// classes.
type Scores struct {
	Acc   float64 `json:"acc"`
	NLL   float64 `json:"nll"`
	ECE   float64 `json:"ece"`
	Brier float64 `json:"brier"`
}

// Summary adds up one head's scores. Batches is the paper's way (Section
// IV-A): the mean over the windows that had labels, with equal-mass ECE.
// Stream weighs every label alike, with ECE over confidence bins of equal
// width. Both score what was served, before its label.
type Summary struct {
	Head    string
	Labels  int
	windows int
	sum     Scores // over windows
	total   Scores // over labels; ECE unused
	bins    calibration.Bins
}

func (s *Summary) add(batch calibration.Scores, labels []event.Score) {
	s.windows++
	s.sum.Acc += batch.Acc
	s.sum.NLL += batch.NLL
	s.sum.ECE += batch.ECE
	s.sum.Brier += batch.Brier
	for _, l := range labels {
		s.Labels++
		if l.Correct {
			s.total.Acc++
		}
		s.total.NLL += l.LogLoss
		s.total.Brier += l.Brier
		s.bins.Add(l.Confidence, l.Correct)
	}
}

// Batches returns the means over windows; zeros before the first label.
func (s *Summary) Batches() Scores {
	if s.windows == 0 {
		return Scores{}
	}
	n := float64(s.windows)
	return Scores{Acc: s.sum.Acc / n, NLL: s.sum.NLL / n, ECE: s.sum.ECE / n, Brier: s.sum.Brier / n}
}

// Stream returns the means over labels; zeros before the first.
func (s *Summary) Stream() Scores {
	if s.Labels == 0 {
		return Scores{}
	}
	n := float64(s.Labels)
	return Scores{Acc: s.total.Acc / n, NLL: s.total.NLL / n, ECE: s.bins.ECE(), Brier: s.total.Brier / n}
}
