// Package calibration measures predicted class probabilities against labels.
//
// Probabilities are n × C, flat and row-major; labels are classes from 0. The
// prediction of a row is its most probable class, the lowest of equal ones, and
// its confidence is that class's probability. Shape misuse panics; no rows give
// zeros.
package calibration

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gvbll/gvbll/posterior"
)

// Scores are the measures of one batch.
type Scores struct {
	N     int     // rows
	Acc   float64 // share of right predictions
	NLL   float64 // mean LogLoss, nats
	Brier float64 // mean Brier, 0 to 2
	ECE   float64 // over bins of equal mass, as in the paper's Section IV-A
}

// Measure scores a batch; bins is the number of equal-mass bins of the ECE.
func Measure(probs []float64, classes int, labels []int32, bins int) Scores {
	s := Scores{N: len(labels)}
	conf, ok := Confidences(probs, classes, labels)
	for i, y := range labels {
		row := probs[i*classes : (i+1)*classes]
		s.NLL += LogLoss(row, y)
		s.Brier += Brier(row, y)
		if ok[i] {
			s.Acc++
		}
	}
	if s.N > 0 {
		n := float64(s.N)
		s.Acc, s.NLL, s.Brier = s.Acc/n, s.NLL/n, s.Brier/n
	}
	s.ECE = ECEMass(conf, ok, bins)
	return s
}

// Confidences returns every row's confidence and whether its prediction is the
// label.
func Confidences(probs []float64, classes int, labels []int32) (conf []float64, ok []bool) {
	if classes <= 0 || len(probs) != len(labels)*classes {
		panic(fmt.Sprintf("calibration: %d probabilities over %d classes for %d labels", len(probs), classes, len(labels)))
	}
	conf, ok = make([]float64, len(labels)), make([]bool, len(labels))
	for i, y := range labels {
		class, c := Top(probs[i*classes : (i+1)*classes])
		conf[i], ok[i] = c, class == int(y)
	}
	return conf, ok
}

// Top returns a row's prediction and its confidence.
func Top(row []float64) (class int, conf float64) {
	for c, p := range row {
		if p > row[class] {
			class = c
		}
	}
	return class, row[class]
}

// leastProbability keeps the loss of a label that was held impossible finite.
const leastProbability = 1e-12

// LogLoss returns -log p(label) of one row in nats, p no less than 1e-12.
func LogLoss(row []float64, label int32) float64 {
	return -posterior.Log(max(row[label], leastProbability))
}

// LogLosses replaces probabilities, each that of a row's label, by what LogLoss
// makes of them.
func LogLosses(p []float64) {
	for i, x := range p {
		p[i] = max(x, leastProbability)
	}
	posterior.Logarithms(p)
	for i, x := range p {
		p[i] = -x
	}
}

// Brier returns Σ_c (p_c - [c = label])² of one row.
func Brier[F float32 | float64](row []F, label int32) (sum float64) {
	for c, p := range row {
		off := float64(p)
		if c == int(label) {
			off--
		}
		sum += float64(off * off)
	}
	return sum
}

// Entropy returns the mean of -Σ p log p over rows, in nats.
func Entropy(probs []float64, classes int) (h float64) {
	if classes <= 0 || len(probs)%classes != 0 {
		panic(fmt.Sprintf("calibration: %d probabilities over %d classes", len(probs), classes))
	}
	for _, p := range probs {
		if p > 0 {
			h -= float64(p * math.Log(p))
		}
	}
	if len(probs) > 0 {
		h /= float64(len(probs) / classes)
	}
	return h
}

// MeanConfidence returns the mean of conf.
func MeanConfidence(conf []float64) (mean float64) {
	for _, c := range conf {
		mean += c
	}
	if len(conf) > 0 {
		mean /= float64(len(conf))
	}
	return mean
}

// ECEMass returns the expected calibration error over bins of equal mass:
// Σ_b |I_b|/n · |acc(I_b) - conf(I_b)|. Rows are sorted by confidence, equal
// ones by index, and cut in min(bins, n) runs, the first n mod bins of which
// have one row more (numpy's array_split).
func ECEMass(conf []float64, ok []bool, bins int) (ece float64) {
	n := check(conf, ok, bins)
	s := sorters.Get().(*sorter)
	defer sorters.Put(s)
	order := s.ascending(conf)
	bins = min(bins, n)
	for b := range bins {
		size := n / bins
		if b < n%bins {
			size++
		}
		var run Bin
		for _, i := range order[:size] {
			run.add(conf[i], ok[i])
		}
		order = order[size:]
		ece += math.Abs(run.gap()) / float64(n)
	}
	return ece
}

// ECEWidth returns the expected calibration error over bins of equal width, and
// the largest |acc(I_b) - conf(I_b)| of a bin, the maximum calibration error.
// The bin of c is floor(c·bins); c = 1 is in the last.
func ECEWidth(conf []float64, ok []bool, bins int) (ece, mce float64) {
	check(conf, ok, bins)
	all := make([]Bin, bins)
	for i, c := range conf {
		all[width(c, bins)].add(c, ok[i])
	}
	return binErrors(all)
}

// AURC returns the area under the risk-coverage curve, (1/n) Σ_k r_k, r_k the
// error rate of the k most confident rows (equal confidences by index).
func AURC(conf []float64, ok []bool) (area float64) {
	n := check(conf, ok, 1)
	var wrong float64
	for k, i := range sorted(conf, func(a, b float64) int { return cmp.Compare(b, a) }) {
		if !ok[i] {
			wrong++
		}
		area += wrong / float64(k+1) / float64(n)
	}
	return area
}

func check(conf []float64, ok []bool, bins int) int {
	if len(conf) != len(ok) || bins <= 0 {
		panic(fmt.Sprintf("calibration: %d confidences, %d answers, %d bins", len(conf), len(ok), bins))
	}
	return len(conf)
}
