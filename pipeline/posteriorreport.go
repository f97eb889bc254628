package pipeline

import (
	"math"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
)

// PosteriorReport compares the posterior of the online head with the training posterior,
// its anchor.
type PosteriorReport struct {
	Version   uint64     // batches that the first head has learned
	Hash      event.Hash // of the state of all heads
	Posterior posterior.Gaussian
	Classes   []ClassPosterior // in the model's order
	Distance  float64          // ‖M - M*‖, Frobenius norm
	KL        float64          // of the posterior from the anchor, nats
}

// ClassPosterior summarises the posterior of one class's weights.
type ClassPosterior struct {
	Class     string  `json:"class"`
	Precision float64 `json:"precision"` // mean of 1/σ²
	Variance  float64 `json:"variance"`  // mean of σ²
	Distance  float64 `json:"distance"`  // Euclidean distance of the means from the anchor's
}

// PosteriorReport returns the posterior as it is now. The result shares no memory with
// the engine.
func (e *Engine) PosteriorReport() *PosteriorReport {
	e.queue.Settle()
	q, anchor := e.serving.Online().Posterior().Clone(), &e.model.Prior
	b := &PosteriorReport{
		Version: e.serving.Heads()[0].Version(), Hash: e.queue.Last.Posterior, Posterior: q, Classes: make([]ClassPosterior, q.Classes),
	}
	for c := range b.Classes {
		b.Classes[c].Class = e.model.Classes[c]
	}
	n := float64(q.Dim)
	for i := range q.Mean {
		c := &b.Classes[i%q.Classes]
		moved := q.Mean[i] - anchor.Mean[i]
		c.Precision += q.Precision[i] / n
		c.Variance += q.Variance(i) / n
		c.Distance += float64(moved * moved)
	}
	b.Distance, _ = q.Distance(anchor)
	b.KL = q.KL(anchor)
	for c := range b.Classes {
		b.Classes[c].Distance = math.Sqrt(b.Classes[c].Distance)
	}
	return b
}

// Apart returns the distance between the posteriors of two engines: the Frobenius norms
// of the differences of their means and variances.
func (e *Engine) Apart(other *Engine) (mean, variance float64) {
	e.queue.Settle()
	other.queue.Settle()
	return e.serving.Online().Posterior().Distance(other.serving.Online().Posterior())
}
