package calibration

import "math"

// BinCount is the number of bins of Bins, each 0.05 wide.
const BinCount = 20

// Bins counts predictions in bins of equal width: bin b holds the confidences c
// with floor(20c) = b, and the last bin also c = 1. The zero value is empty and
// ready to use.
type Bins [BinCount]Bin

// Bin counts the predictions whose confidence lies in one interval.
type Bin struct {
	Count         int64   `json:"count"`
	Correct       int64   `json:"correct"`
	SumConfidence float64 `json:"confidence"`
}

// BinOf returns the bin of a confidence. Rounding may bring a confidence slightly
// outside [0, 1]: it counts in the nearest bin. NaN counts in the first.
func BinOf(confidence float64) int {
	if !(confidence > 0) {
		return 0
	}
	return int(math.Min(confidence*BinCount, BinCount-1))
}

// Add counts one prediction.
func (b *Bins) Add(confidence float64, correct bool) { b[BinOf(confidence)].add(confidence, correct) }

// Merge adds the counts of other.
func (b *Bins) Merge(other *Bins) {
	for i := range other {
		b[i].merge(&other[i])
	}
}

// Between returns the predictions in the bins from number from on, below number to, as one bin.
func (b *Bins) Between(from, to int) (all Bin) {
	for i := from; i < to; i++ {
		all.merge(&b[i])
	}
	return all
}

// ECE returns the expected calibration error over the bins, and its chance level: what
// calibrated probabilities, each right as often as it says, have at most by chance with as many
// labels and such confidences. Both are 0 without labels. The ECE of calibrated probabilities is
// not 0, because each bin's gap counts by its size: its mean is about .3·√(B/n) where n labels
// spread over B bins. So only an ECE above the chance level says that probabilities are wrong.
//
// The gap of bin b, a sum of n_b independent terms, is taken to be normal with variance
// v_b = n_b c_b (1-c_b), c_b being its mean confidence. Then its size has the mean
// √(2v_b/π) and the variance (1-2/π)v_b. The chance level is three standard deviations
// above the mean; fewer than one in a hundred streams of calibrated probabilities exceed it.
func (b *Bins) ECE() (ece, chance float64) {
	return gaps(BinCount, func(i int) (rows, hits, sum float64) {
		return float64(b[i].Count), float64(b[i].Correct), b[i].SumConfidence
	})
}

// gaps returns the ECE over bins of rows, of which some are hits, and its chance level, given the
// sum of the probabilities of a hit.
func gaps(bins int, bin func(i int) (rows, hits, sum float64)) (ece, chance float64) {
	var n, mean, variance float64
	for i := range bins {
		rows, hits, sum := bin(i)
		if rows == 0 {
			continue
		}
		v := max(sum*(1-sum/rows), 0)
		n += rows
		ece += math.Abs(hits - sum)
		mean += math.Sqrt(2 / math.Pi * v)
		variance += float64((1 - 2/math.Pi) * v)
	}
	if n == 0 {
		return 0, 0
	}
	return ece / n, (mean + float64(3*math.Sqrt(variance))) / n
}

func (b *Bin) merge(other *Bin) {
	b.Count += other.Count
	b.Correct += other.Correct
	b.SumConfidence += other.SumConfidence
}

func (b *Bin) add(confidence float64, correct bool) {
	b.Count++
	b.SumConfidence += confidence
	if correct {
		b.Correct++
	}
}

// gap returns Count · (accuracy - mean confidence).
func (b *Bin) gap() float64 { return float64(b.Correct) - b.SumConfidence }
