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
	for i, o := range other {
		b[i].Count += o.Count
		b[i].Correct += o.Correct
		b[i].SumConfidence += o.SumConfidence
	}
}

// ECE returns the expected calibration error over the bins, 0 if they are empty.
func (b *Bins) ECE() (ece float64) {
	var n int64
	for i := range b {
		n += b[i].Count
		ece += math.Abs(b[i].gap())
	}
	if n > 0 {
		ece /= float64(n)
	}
	return ece
}

// ECEByChance returns the mean and the standard deviation of the ECE that n predictions
// have by chance alone, were each right as often as its confidence says. The mean is not
// 0, because each bin's gap counts by its size: with confidences spread over B bins, it is
// about .3·√(B/n), which is .08 for 200 labels in 14 bins. So only an ECE well above it
// says that confidences are wrong.
//
// The gap of bin b, a sum of n_b independent terms, is taken to be normal with variance
// v_b = n_b c_b (1-c_b), c_b being its mean confidence. Then its size has the mean
// √(2v_b/π) and the variance (1-2/π)v_b.
func (b *Bins) ECEByChance() (mean, deviation float64) {
	var n, variance float64
	for i := range b {
		if b[i].Count == 0 {
			continue
		}
		count, sum := float64(b[i].Count), b[i].SumConfidence
		v := max(sum*(1-sum/count), 0)
		n += count
		mean += math.Sqrt(2 / math.Pi * v)
		variance += float64((1 - 2/math.Pi) * v)
	}
	if n > 0 {
		mean, deviation = mean/n, math.Sqrt(variance)/n
	}
	return mean, deviation
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
