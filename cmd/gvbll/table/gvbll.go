package table

import (
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/posterior"
)

// gvbll is the paper's own model (Algorithm 1): frozen encoder and temperature,
// MAP predictions, and a posterior that learns from each step.
type gvbll struct{ *engine }

func newOnline(s *trainer, stream *replay, protocol string, update posterior.Config) (gvbll, error) {
	m, err := s.gvbll()
	if err != nil {
		return gvbll{}, err
	}
	cfg := pipeline.Config{Head: pipeline.HeadPaper, Update: update, Fallback: -1} // the online head always serves
	e, err := newEngine(m, cfg, stream, protocol, stream.context.nodes)
	return gvbll{e}, err
}

// newStatic returns the same without updates: it is told no labels of the stream.
func newStatic(s *trainer, stream *replay, protocol string) (static, error) {
	g, err := newOnline(s, stream, protocol, s.settings.Update)
	return static{gvbll: g}, err
}

type static struct{ gvbll }

func (static) learn(int) {}

// drift returns how far the posterior has moved, ‖M - M*‖, and how sure it is: the
// mean of Σ.
func (g gvbll) drift() (distance, variance float64) {
	q, anchor := g.Posterior()
	for i := range q.Mean {
		variance += q.Variance(i)
	}
	distance, _ = q.Distance(anchor)
	return distance, variance / float64(len(q.Mean))
}
