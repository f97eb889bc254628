package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/posterior/pool"
)

// ablations are the pool without one of its parts.
var ablations = []string{"pool-no-labels", "pool-no-wide", "pool-no-bayes", "pool-no-gnn", "pool-no-replay"}

// The pool told for which share of each class labels come, as --label-rates has it, and the pool that counts it.
const (
	poolRates   = "pool-rates"
	poolCounted = "pool-counted"
)

// without returns the pool's config without the part that an ablation is named after, and
// whether it had that part.
func without(c pool.Config, system string) (pool.Config, bool) {
	before := len(c.Heads)
	drop := func(is func(pool.HeadConfig) bool) bool {
		c.Heads = slices.DeleteFunc(slices.Clone(c.Heads), is)
		return len(c.Heads) < before
	}
	switch strings.TrimPrefix(system, "pool-no-") {
	case "labels":
		return c, drop(func(h pool.HeadConfig) bool {
			return pool.Config{Heads: []pool.HeadConfig{h}}.Needs()&(pool.NeedLabelled|pool.NeedSecond|pool.NeedKinds) != 0
		})
	case "wide":
		return c, drop(func(h pool.HeadConfig) bool { return h.Wide != nil })
	case "bayes":
		return c, drop(func(h pool.HeadConfig) bool { return h.Bayes != nil })
	case "gnn":
		return c, drop(func(h pool.HeadConfig) bool {
			return h.Static != nil || h.Online != nil
		})
	case "replay":
		replays := c.Replays()
		c.Heads = slices.Clone(c.Heads)
		for i, h := range c.Heads {
			if h.Wide != nil {
				w := *h.Wide
				w.Replay = 0
				c.Heads[i].Wide = &w
			}
		}
		return c, replays > 0
	}
	return c, true
}

// pooled is the pool of heads or one of its ablations.
type pooled struct {
	*engine
	bins  int
	heads []calibration.Prequential // scores of each head and product by itself
}

func newPooled(tr *trainer, stream *replay, protocol, system string) (*pooled, error) {
	trained, err := tr.gvbll()
	if err != nil {
		return nil, err
	}
	cfg, _ := without(model.DefaultPool(tr.data), system)
	if cfg, err = tr.start(cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", system, err)
	}
	m := *trained
	if err := m.AddPool(tr.data, cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", system, err)
	}
	// Only the training nodes are context. The warm-up is served and learned, so that the
	// pool learns from it before anything is scored.
	engine := pipeline.Config{Head: pipeline.HeadPool, LearnLag: tr.settings.LearnLag}
	switch system {
	case poolRates:
		engine.LabelRates = tr.settings.Rates
	case poolCounted:
		engine.LabelRates = pipeline.CountedRates
	}
	e, err := newEngine(&m, engine, stream, protocol, stream.train)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", system, err)
	}
	p := &pooled{engine: e, bins: tr.settings.Bins, heads: make([]calibration.Prequential, len(e.Summaries())-1)}
	size := len(stream.stepLabels(0))
	for lo := stream.train; lo < stream.context.nodes; lo += size {
		hi := min(lo+size, stream.context.nodes)
		p.serve(lo, hi)
		p.step(nil, stream.labelsOf(stream.early(lo, hi)))
	}
	return p, nil
}

// predict implements system, and scores each head by itself.
func (p *pooled) predict(t int, probs []float64) {
	p.engine.predict(t, probs)
	each := p.served(p.stream.span(t))
	labels := p.stream.stepLabels(t)
	classes := len(p.Model().Classes)
	for k := range p.heads {
		if rows, known := labelled(each[k], classes, labels); len(known) > 0 {
			p.heads[k].AddWindow(calibration.ScoreRows(rows, classes, known), p.bins)
		}
	}
}

// served returns, by head, the probabilities served for the nodes from lo to below hi,
// n × classes. The nodes must be pending.
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

// headScores returns each head's means over steps, and its weight at the end.
func (p *pooled) headScores() (list []headScores) {
	learned := p.Pooled()
	for k := range p.heads {
		scores := scoresOf(p.heads[k].Total().Labels, p.heads[k].WindowMeans())
		h := headScores{Name: learned.Parts[k], Scores: scores}
		if k < len(learned.Weights) {
			h.Weight = learned.Weights[k]
		}
		if learned.Shares != nil {
			h.Share = learned.Shares[k]
		}
		list = append(list, h)
	}
	return list
}
