package pool

import (
	"math"

	"github.com/gvbll/gvbll/posterior"
)

// logProbability replaces logits by their softmax and returns the logarithm of
// entry y.
func logProbability(a []float64, y int) float64 {
	most := math.Inf(-1)
	for _, x := range a {
		most = max(most, x)
	}
	own := a[y] - most
	var total float64
	for c, x := range a {
		a[c] = posterior.Exp(x - most)
		total += a[c]
	}
	for c := range a {
		a[c] /= total
	}
	return own - posterior.Log(total)
}

// logSoftmax replaces logits by the logarithms of their softmax.
func logSoftmax(a []float64) {
	most := math.Inf(-1)
	for _, x := range a {
		most = max(most, x)
	}
	var total float64
	for _, x := range a {
		total += posterior.Exp(x - most)
	}
	by := most + posterior.Log(total)
	for c := range a {
		a[c] -= by
	}
}
