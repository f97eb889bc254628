package pipeline

import (
	"math"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
)

// Belief is the posterior that serves, beside the one it started from.
type Belief struct {
	Version   uint64
	Hash      event.Hash // of the state of all heads
	Posterior posterior.Gaussian
	Deviation []float64 // σ, d_e × C
	Classes   []ClassBelief
	Distance  float64 // ‖M - M*‖, Frobenius norm
	KL        float64 // of the posterior from the anchor, nats
}

// ClassBelief is what the posterior holds of one class's weights.
type ClassBelief struct {
	Class     string
	Precision float64 // mean of 1/σ²
	Variance  float64 // mean of σ²
	Distance  float64 // Euclidean, of the means from the anchor's
}

// Belief returns the posterior as it is now, in memory of its own.
func (e *Engine) Belief() *Belief {
	q, anchor := e.serving.online().Posterior().Clone(), &e.model.Prior
	b := &Belief{Version: e.serving.heads()[0].Version(), Hash: e.posterior, Posterior: q, Deviation: make([]float64, len(q.Mean)), Classes: make([]ClassBelief, q.Classes)}
	for c := range b.Classes {
		b.Classes[c].Class = e.model.Classes[c]
	}
	n := float64(q.Dim)
	for i := range q.Mean {
		c := &b.Classes[i%q.Classes]
		moved := q.Mean[i] - anchor.Mean[i]
		c.Precision += q.Precision[i] / n
		c.Variance += q.Variance(i) / n
		b.Deviation[i] = math.Sqrt(q.Variance(i))
		c.Distance += float64(moved * moved)
	}
	b.Distance, _ = q.Distance(anchor)
	b.KL = q.KL(anchor)
	for c := range b.Classes {
		b.Classes[c].Distance = math.Sqrt(b.Classes[c].Distance)
	}
	return b
}

// Apart returns how far the posterior of another engine is from that of e, as
// Frobenius norms of the differences of mean and variance.
func (e *Engine) Apart(other *Engine) (mean, variance float64) {
	return e.serving.online().Posterior().Distance(other.serving.online().Posterior())
}
