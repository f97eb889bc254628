package calibration

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// Score rates one prediction by the label that came for it.
type Score struct {
	Class      int32   // predicted class
	Confidence float64 // its probability
	Correct    bool    // Class is the label
	LogLoss    float64 // -log p(label) in nats, p(label) being at least 1e-12
	Brier      float64 // Σ_c (p_c - [c = label])²
}

// ScoreRows scores n predictions by their labels. probs is n × classes, flat and
// row-major.
func ScoreRows(probs []float64, classes int, labels []int32) []Score {
	if classes <= 0 || len(probs) != len(labels)*classes {
		panic(fmt.Sprintf("calibration: %d probabilities over %d classes for %d labels", len(probs), classes, len(labels)))
	}
	scores, losses := make([]Score, len(labels)), make([]float64, len(labels))
	for i, y := range labels {
		row := probs[i*classes : (i+1)*classes]
		class, confidence := Top(row)
		scores[i] = Score{Class: int32(class), Confidence: confidence, Correct: class == int(y), Brier: brier(row, y)}
		losses[i] = row[y]
	}
	LogLosses(losses)
	for i, loss := range losses {
		scores[i].LogLoss = loss
	}
	return scores
}

// Top returns the predicted class of a row of probabilities and its confidence.
func Top[F float32 | float64](row []F) (class int, confidence F) {
	for c, p := range row {
		if p > row[class] {
			class = c
		}
	}
	return class, row[class]
}

// leastProbability bounds the log loss of a label by 27.6 nats, so that one label
// that was predicted impossible does not make the mean infinite.
const leastProbability = 1e-12

// LogLosses replaces every p, the probability of a label, by its log loss
// -log max(p, 1e-12) in nats.
func LogLosses(p []float64) {
	for i, x := range p {
		p[i] = max(x, leastProbability)
	}
	double.Logarithms(p)
	for i, x := range p {
		p[i] = -x
	}
}

// Briers writes the Brier score of each row of so many classes to scores. Four rows are summed beside each other, as each
// sum waits for its last term.
func Briers(scores []float64, rows []float32, classes int, label int32) {
	row := func(k int) []float32 { return rows[k*classes : (k+1)*classes] }
	k := 0
	for ; k+4 <= len(scores); k += 4 {
		s, r := (*[4]float64)(scores[k:]), [4][]float32{row(k), row(k + 1), row(k + 2), row(k + 3)}
		*s = [4]float64{}
		for c := range classes {
			is := 0.0
			if c == int(label) {
				is = 1
			}
			for e := range s {
				off := float64(r[e][c]) - is
				s[e] += float64(off * off)
			}
		}
	}
	for ; k < len(scores); k++ {
		scores[k] = brier(row(k), label)
	}
}

// brier returns the Brier score of one row.
func brier[F float32 | float64](row []F, label int32) (sum float64) {
	for c, p := range row {
		off := float64(p)
		if c == int(label) {
			off--
		}
		sum += float64(off * off)
	}
	return sum
}
