package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Ablations are the pool with a part taken away, or with another rule in its
// place: pool-mixture serves the mixture of the heads' probabilities, weighted by
// their discounted likelihoods, instead of the weighted product.
var Ablations = []string{"pool-no-labels", "pool-no-wide", "pool-no-bayes", "pool-no-gnn", "pool-no-refresh", "pool-mixture"}

// without returns the spec without the part that a system's name says, and
// whether it had that part.
func without(s pool.Config, system string) (pool.Config, bool) {
	before := len(s.Heads)
	drop := func(is func(pool.HeadConfig) bool) bool {
		s.Heads = slices.DeleteFunc(slices.Clone(s.Heads), is)
		return len(s.Heads) < before
	}
	switch strings.TrimPrefix(system, "pool-no-") {
	case "labels":
		return s, drop(func(h pool.HeadConfig) bool { return h.Label != nil || h.Vote != nil || h.Joint != nil })
	case "wide":
		return s, drop(func(h pool.HeadConfig) bool { return h.Wide != nil })
	case "bayes":
		return s, drop(func(h pool.HeadConfig) bool { return h.Bayes != nil })
	case "gnn":
		return s, drop(func(h pool.HeadConfig) bool {
			return h.Static != nil || h.Online != nil || h.Full != nil || h.Joint != nil
		})
	case "refresh":
		refreshes := s.Refreshes()
		s.Heads = slices.Clone(s.Heads)
		for i, h := range s.Heads {
			if h.Wide != nil {
				w := *h.Wide
				w.Refresh = false
				s.Heads[i].Wide = &w
			}
		}
		return s, refreshes
	}
	return s, true
}

// pooled is the pool of heads, or one of its ablations.
type pooled struct {
	*engine
	mixture *mixture // nil where the product serves
	bins    int
	heads   []calibration.Prequential // scores of each head by itself
}

func newPooled(s *trainer, stream *replay, protocol, system string) (*pooled, error) {
	trained, err := s.gvbll()
	if err != nil {
		return nil, err
	}
	spec, _ := without(model.DefaultPool(s.data), system)
	m := *trained
	if err := m.AddPool(s.data, spec); err != nil {
		return nil, fmt.Errorf("%s: %w", system, err)
	}
	// The warm-up is not context: the pool learns from it, before anything is scored.
	e, err := newEngine(&m, pipeline.Config{Head: pipeline.HeadPool}, stream, protocol, stream.train)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", system, err)
	}
	p := &pooled{engine: e, bins: s.settings.Bins, heads: make([]calibration.Prequential, len(spec.Heads))}
	if system == "pool-mixture" {
		p.mixture = newMixture(spec)
	}
	size := len(stream.targets(0))
	for lo := stream.train; lo < stream.context.nodes; lo += size {
		hi := min(lo+size, stream.context.nodes)
		p.serve(lo, hi)
		p.tell(lo, hi)
	}
	return p, nil
}

// predict serves the nodes of step t and scores each head by itself.
func (p *pooled) predict(t int, probs []float64) {
	p.engine.predict(t, probs)
	each := p.served(p.stream.span(t))
	labels := p.stream.stepLabels(t)
	classes := len(probs) / len(labels)
	for k := range p.heads {
		p.heads[k].AddWindow(calibration.ScoreRows(each[k], classes, labels), p.bins)
	}
	if p.mixture != nil {
		p.mixture.predict(each, probs)
	}
}

// served returns, for each head, the probabilities that it gave the nodes from lo
// to below hi, whose labels have not come.
func (p *pooled) served(lo, hi int) [][]float64 {
	each := make([][]float64, len(p.heads))
	for v := lo; v < hi; v++ {
		o := p.Served(id(v))
		for k, h := range o.Heads[1:] { // the first is the pool
			for _, x := range h.Probabilities {
				each[k] = append(each[k], float64(x))
			}
		}
	}
	return each
}

func (p *pooled) learn(t int) { p.tell(p.stream.span(t)) }

// tell tells the labels of the nodes from lo to below hi.
func (p *pooled) tell(lo, hi int) {
	out := p.label(lo, hi)
	if p.mixture != nil {
		p.mixture.learn(out.Heads[1:])
	}
}

// headScores returns each head's means over steps, and its weight.
func (p *pooled) headScores() (list []HeadScores) {
	learned := p.Pooled()
	for k := range p.heads {
		scores := scoresOf(p.heads[k].Total().Labels, p.heads[k].WindowMeans())
		list = append(list, HeadScores{Name: learned.Heads[k], Weight: learned.Weights[k], Scores: scores})
	}
	return list
}

// mixture is Σ_k ω_k p_k with ω_k ∝ exp(Σ_i γ^age log p_k[y_i]): Bayesian model
// averaging that forgets.
type mixture struct {
	members []int     // the heads that have a part in it
	score   []float64 // by head: its discounted log likelihood
	keep    float64   // γ, a batch
}

func newMixture(s pool.Config) *mixture {
	m := &mixture{keep: s.Weights.Lambda, score: make([]float64, len(s.Heads))}
	for k, h := range s.Heads {
		if !h.Shadow {
			m.members = append(m.members, k)
		}
	}
	return m
}

// predict mixes the probabilities of each head.
func (m *mixture) predict(each [][]float64, probs []float64) {
	most := m.score[m.members[0]]
	for _, k := range m.members {
		most = max(most, m.score[k])
	}
	var all float64
	for _, k := range m.members {
		all += posterior.Exp(m.score[k] - most)
	}
	clear(probs)
	for _, k := range m.members {
		axpy(probs, posterior.Exp(m.score[k]-most)/all, each[k])
	}
}

// learn takes the heads' scores of a batch of labels.
func (m *mixture) learn(heads []event.Head) {
	for k := range m.score {
		m.score[k] *= m.keep
		for _, s := range heads[k].Scores {
			m.score[k] -= s.LogLoss
		}
	}
}
