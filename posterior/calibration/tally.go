package calibration

import (
	"fmt"
	"math"
)

// Means are mean scores of a number of predictions.
type Means struct {
	Acc   float64 `json:"acc"`   // share of correct predictions
	NLL   float64 `json:"nll"`   // mean log loss, nats
	ECE   float64 `json:"ece"`   // expected calibration error
	Brier float64 `json:"brier"` // mean Brier score, 0 to 2
	// Chance is the chance level of the ECE, see [Bins.ECE]. Means over windows have none.
	Chance float64 `json:"ece_chance,omitempty"`
}

// over divides sums by n.
func (m Means) over(n int) Means {
	if n == 0 {
		return Means{}
	}
	d := float64(n)
	return Means{Acc: m.Acc / d, NLL: m.NLL / d, ECE: m.ECE / d, Brier: m.Brier / d}
}

// means returns the means of scores, with the ECE over bins of equal mass.
func means(scores []Score, bins int) Means {
	var sum Means
	for i := range scores {
		s := &scores[i]
		if s.Correct {
			sum.Acc++
		}
		sum.NLL += s.LogLoss
		sum.Brier += s.Brier
	}
	m := sum.over(len(scores))
	m.ECE = equalMassECE(scores, bins)
	return m
}

// Tally sums scores over labels, each label counting alike. The zero value is
// empty and ready to use.
type Tally struct {
	Labels  int     // scores added
	Correct int     // scores of correct predictions
	LogLoss float64 // sum, nats
	Brier   float64 // sum
	Bins    Bins    // sum of Bins[b].Count is Labels, of Bins[b].Correct is Correct
}

// Add adds one score.
func (t *Tally) Add(s *Score) {
	t.Labels++
	if s.Correct {
		t.Correct++
	}
	t.LogLoss += s.LogLoss
	t.Brier += s.Brier
	t.Bins.Add(s.Confidence, s.Correct)
}

// Merge adds the sums of other.
func (t *Tally) Merge(other *Tally) {
	t.Labels += other.Labels
	t.Correct += other.Correct
	t.LogLoss += other.LogLoss
	t.Brier += other.Brier
	t.Bins.Merge(&other.Bins)
}

// Means returns the means over labels, with the ECE over bins of equal width and its chance
// level. They are 0 before the first label.
func (t *Tally) Means() Means {
	m := Means{Acc: float64(t.Correct), NLL: t.LogLoss, Brier: t.Brier}.over(t.Labels)
	m.ECE, m.Chance = t.Bins.ECE()
	return m
}

// Prequential averages the scores of a stream of windows, each prediction having
// been made before its label was learned, in two ways: over labels ([Prequential.Total])
// and over windows ([Prequential.WindowMeans]). The zero value is empty and ready
// to use.
type Prequential struct {
	total   Tally // over labels
	windows int   // windows that had labels; 0 if and only if there are no labels
	sum     Means // over windows, of each window's means
}

// AddWindow adds the scores of one window and returns their means, with the ECE
// over that number of bins of equal mass. A window without labels counts for nothing.
func (p *Prequential) AddWindow(scores []Score, bins int) Means {
	if len(scores) == 0 {
		return Means{}
	}
	for i := range scores {
		p.total.Add(&scores[i])
	}
	m := means(scores, bins)
	p.windows++
	p.sum.Acc += m.Acc
	p.sum.NLL += m.NLL
	p.sum.ECE += m.ECE
	p.sum.Brier += m.Brier
	return m
}

// LabelMeans returns the means over labels, see [Tally.Means].
func (p *Prequential) LabelMeans() Means { return p.total.Means() }

// Total returns the sums over labels.
func (p *Prequential) Total() Tally { return p.total }

// WindowMeans returns the means over the windows that had labels of each window's
// means, with the ECE over bins of equal mass: the measures of the paper's Section
// IV-A. They are 0 before the first label.
func (p *Prequential) WindowMeans() Means { return p.sum.over(p.windows) }

// MeanAndError returns the mean of values and its standard error, which is 0 for one value.
func MeanAndError(values []float64) (mean, se float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v
	}
	mean /= n
	if len(values) < 2 {
		return mean, 0
	}
	for _, v := range values {
		d := v - mean
		se += float64(d * d)
	}
	return mean, math.Sqrt(se / (n - 1) / n)
}

// The state of a Prequential is StateCounts integers
//
//	labels, windows, then of every bin: count, correct
//
// and StateSums numbers
//
//	over windows: accuracy, NLL, ECE, Brier
//	over labels: accuracy, NLL, Brier
//	of every bin: sum of confidences
const (
	StateCounts = 2 + 2*BinCount
	StateSums   = 7 + BinCount
)

// AppendState appends the state to counts and sums.
func (p *Prequential) AppendState(counts []int64, sums []float64) ([]int64, []float64) {
	counts = append(counts, int64(p.total.Labels), int64(p.windows))
	sums = append(sums, p.sum.Acc, p.sum.NLL, p.sum.ECE, p.sum.Brier, float64(p.total.Correct), p.total.LogLoss, p.total.Brier)
	for i := range p.total.Bins {
		b := &p.total.Bins[i]
		counts = append(counts, b.Count, b.Correct)
		sums = append(sums, b.SumConfidence)
	}
	return counts, sums
}

// SetState sets the state to what AppendState appended to empty slices. On an
// error the state is as it was.
func (p *Prequential) SetState(counts []int64, sums []float64) error {
	if len(counts) != StateCounts || len(sums) != StateSums {
		panic(fmt.Sprintf("calibration: a state of %d counts and %d sums", len(counts), len(sums)))
	}
	for _, x := range sums {
		if !(x >= 0 && x <= math.MaxFloat64) {
			return fmt.Errorf("a sum of scores is %v", x)
		}
	}
	total := Tally{Labels: int(counts[0]), LogLoss: sums[5], Brier: sums[6]}
	left := counts[0] // labels that no bin has counted yet
	for i := range total.Bins {
		b := Bin{Count: counts[2+2*i], Correct: counts[2+2*i+1], SumConfidence: sums[7+i]}
		if b.Count < 0 || b.Count > left || b.Correct < 0 || b.Correct > b.Count {
			return fmt.Errorf("bin %d has %d of %d correct, with %d labels left", i, b.Correct, b.Count, left)
		}
		left -= b.Count
		total.Correct += int(b.Correct)
		total.Bins[i] = b
	}
	windows := int(counts[1])
	switch {
	case left != 0:
		return fmt.Errorf("%d of %d labels are in no bin", left, total.Labels)
	case float64(total.Correct) != sums[4]:
		return fmt.Errorf("%v labels are correct, in bins %d", sums[4], total.Correct)
	case windows < 0 || windows > total.Labels || total.Labels > 0 && windows == 0:
		return fmt.Errorf("%d labels in %d windows", total.Labels, windows)
	}
	*p = Prequential{total: total, windows: windows, sum: Means{Acc: sums[0], NLL: sums[1], ECE: sums[2], Brier: sums[3]}}
	return nil
}
