package pipeline

import "math"

// Apart returns how far the serving posterior of exact is from that of e, as
// Frobenius norms of the differences of mean and variance.
func (e *Engine) Apart(exact *Engine) (mean, variance float64) {
	a, b := e.online.Posterior(), exact.online.Posterior()
	for i := range a.Mean {
		mean = math.Hypot(mean, a.Mean[i]-b.Mean[i])
		variance = math.Hypot(variance, 1/max(a.Precision[i], leastPrecision)-1/max(b.Precision[i], leastPrecision))
	}
	return mean, variance
}
