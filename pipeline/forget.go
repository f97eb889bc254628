package pipeline

// Apart returns how far the serving posterior of exact is from that of e, as
// Frobenius norms of the differences of mean and variance.
func (e *Engine) Apart(exact *Engine) (mean, variance float64) {
	return e.online.Posterior().Distance(exact.online.Posterior())
}
