package table

import (
	"math"

	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
)

// gvbll is the paper's own model (Algorithm 1): frozen encoder and temperature,
// MAP predictions, and a head that learns from each step or stays as Phase 1 left
// it.
type gvbll struct {
	head   posterior.Head
	q      *posterior.Gaussian // in force
	anchor *posterior.Gaussian // (M*, Σ*)
	rows   []posterior.Rows    // by step
	stream *stage
}

func newStatic(s *school, stream *stage, protocol string) (*gvbll, error) {
	m, err := s.bayesian()
	if err != nil {
		return nil, err
	}
	return newGVBLL(m, posterior.NewStatic(m.Prior), &m.Prior, stream, protocol), nil
}

func newOnline(s *school, stream *stage, protocol string, update posterior.Config) (*gvbll, error) {
	m, err := s.bayesian()
	if err != nil {
		return nil, err
	}
	head := posterior.NewOnline(m.Prior, update)
	return newGVBLL(m, head, head.Posterior(), stream, protocol), nil
}

func newGVBLL(m *model.Model, head posterior.Head, q *posterior.Gaussian, stream *stage, protocol string) *gvbll {
	g := &gvbll{head: head, q: q, anchor: &m.Prior, stream: stream}
	d := m.Prior.Dim
	for _, z := range stream.embeddings(m.Encoder, protocol) {
		rows := posterior.Rows{Z: z, Tau: make([]float64, len(z)/d)}
		for i := range rows.Tau {
			rows.Tau[i] = m.Temperature.At(z[i*d : (i+1)*d])
		}
		g.rows = append(g.rows, rows)
	}
	return g
}

func (g *gvbll) predict(t int, probs []float64) { g.head.Predict(g.rows[t], probs) }
func (g *gvbll) learn(t int)                    { g.head.Learn(g.rows[t], g.stream.stepLabels(t)) }

// drift is how far the posterior has come, ‖M - M*‖, and how sure it is: the
// mean of Σ.
func (g *gvbll) drift() (distance, variance float64) {
	for i, m := range g.q.Mean {
		d := m - g.anchor.Mean[i]
		distance += float64(d * d)
		variance += 1 / max(g.q.Precision[i], 1e-12) // a dimension may be forgotten entirely
	}
	return math.Sqrt(distance), variance / float64(len(g.q.Mean))
}
