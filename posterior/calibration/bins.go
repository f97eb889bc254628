package calibration

import "math"

// BinCount is the number of bins of Bins, each 0.05 wide.
const BinCount = 20

// Bins are counters over confidence bins of equal width: bin b holds the
// confidences c with floor(20c) = b, and the last also c = 1. They add up, so
// ECE and the reliability diagram of any range of the stream come from sums. The
// zero value is empty and ready.
type Bins [BinCount]Bin

// Bin counts the predictions whose confidence lies in one interval.
type Bin struct {
	Count         int64
	Correct       int64
	SumConfidence float64
}

// Add counts one prediction of confidence 0 ≤ conf ≤ 1.
func (b *Bins) Add(conf float64, ok bool) { b[width(conf, BinCount)].add(conf, ok) }

// Merge adds the counts of other.
func (b *Bins) Merge(other *Bins) {
	for i, o := range other {
		b[i].Count += o.Count
		b[i].Correct += o.Correct
		b[i].SumConfidence += o.SumConfidence
	}
}

// ECE returns the expected calibration error of what was counted, 0 of nothing.
func (b *Bins) ECE() float64 {
	ece, _ := binErrors(b[:])
	return ece
}

func (b *Bin) add(conf float64, ok bool) {
	b.Count++
	b.SumConfidence += conf
	if ok {
		b.Correct++
	}
}

// gap is Count · (accuracy - mean confidence).
func (b *Bin) gap() float64 { return float64(b.Correct) - b.SumConfidence }

// width returns the index of the bin of conf. Confidences outside [0, 1], which
// rounding may bring, count in the nearest bin; NaN counts in the first.
func width(conf float64, bins int) int {
	if !(conf > 0) {
		return 0
	}
	return int(math.Min(conf*float64(bins), float64(bins-1)))
}

// binErrors returns the weighted mean and the largest of the bins' calibration
// errors.
func binErrors(bins []Bin) (ece, mce float64) {
	var n int64
	for i := range bins {
		b := &bins[i]
		if b.Count == 0 {
			continue
		}
		n += b.Count
		ece += math.Abs(b.gap())
		mce = max(mce, math.Abs(b.gap())/float64(b.Count))
	}
	if n > 0 {
		ece /= float64(n)
	}
	return ece, mce
}
