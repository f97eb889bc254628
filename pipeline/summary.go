package pipeline

import (
	"math"

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

// rated are the confidences of a window's labels, and whether these said that they
// were right.
type rated struct {
	confidence []float64
	right      []bool
}

func (r *rated) add(confidence float64, right bool) {
	r.confidence, r.right = append(r.confidence, confidence), append(r.right, right)
}

func (r *rated) clear() { r.confidence, r.right = r.confidence[:0], r.right[:0] }

// add takes a window's labels, whose ECE is over so many bins of equal mass, and
// needs memory for them.
func (s *Summary) add(labels []event.Score, bins int, memory *rated) {
	memory.clear()
	var batch Scores
	for _, l := range labels {
		memory.add(l.Confidence, l.Correct)
		batch.NLL += l.LogLoss
		batch.Brier += l.Brier
		s.Labels++
		if l.Correct {
			batch.Acc++
			s.total.Acc++
		}
		s.total.NLL += l.LogLoss
		s.total.Brier += l.Brier
		s.bins.Add(l.Confidence, l.Correct)
	}
	n := float64(len(labels))
	s.windows++
	s.sum.Acc += batch.Acc / n
	s.sum.NLL += batch.NLL / n
	s.sum.Brier += batch.Brier / n
	s.sum.ECE += calibration.ECEMass(memory.confidence, memory.right, bins)
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

// Bins returns the counts by confidence that the ECE of Stream is of.
func (s *Summary) Bins() calibration.Bins { return s.bins }

// How many numbers appendState appends.
const (
	summaryCounts = 2 + 2*calibration.BinCount
	summarySums   = 7 + calibration.BinCount
)

// appendState appends all that is added up.
func (s *Summary) appendState(counts []int64, sums []float64) ([]int64, []float64) {
	counts = append(counts, int64(s.Labels), int64(s.windows))
	sums = append(sums, s.sum.Acc, s.sum.NLL, s.sum.ECE, s.sum.Brier, s.total.Acc, s.total.NLL, s.total.Brier)
	for _, b := range s.bins {
		counts = append(counts, b.Count, b.Correct)
		sums = append(sums, b.SumConfidence)
	}
	return counts, sums
}

// setState is the inverse of appendState.
func (s *Summary) setState(counts []int64, sums []float64) error {
	for _, x := range sums {
		if !(x >= 0 && x <= math.MaxFloat64) {
			return damaged("head %s: a sum of scores is %v", s.Head, x)
		}
	}
	s.Labels, s.windows = int(counts[0]), int(counts[1])
	s.sum = Scores{Acc: sums[0], NLL: sums[1], ECE: sums[2], Brier: sums[3]}
	s.total = Scores{Acc: sums[4], NLL: sums[5], Brier: sums[6]}
	counts, sums = counts[2:], sums[7:]
	labels := int64(s.Labels)
	for i := range s.bins {
		b := calibration.Bin{Count: counts[2*i], Correct: counts[2*i+1], SumConfidence: sums[i]}
		if b.Count < 0 || b.Count > labels || b.Correct < 0 || b.Correct > b.Count {
			return damaged("head %s: bin %d has %d of %d right", s.Head, i, b.Correct, b.Count)
		}
		labels -= b.Count
		s.bins[i] = b
	}
	if labels != 0 || s.windows < 0 || s.windows > s.Labels {
		return damaged("head %s: %d labels in %d windows, %d of them in no bin", s.Head, s.Labels, s.windows, labels)
	}
	return nil
}
