package heads

import (
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Paper is the serving with the paper's heads: GVBLL-Online, which learns by Proposition
// 1, and GVBLL-Static, which stays as trained. The online head serves, unless a
// [fallback] chooses the static one. Outputs are the probabilities of both.
type Paper struct {
	classes    int
	updated    *posterior.Online     // the online head
	both       []posterior.Head      // by place
	list       []Head                // the same
	posteriors []*posterior.Gaussian // theirs
	beside     beside
	first      *posterior.Predictive
	second     *posterior.Predictive // on the other thread
	Serves     uint8                 // the place of the head that serves
	buffer     []byte
	reports    [2]posterior.Report // of the newest update
}

// The paper's heads by their places.
const (
	ByOnline = 0
	ByStatic = 1
)

var _ Serving = (*Paper)(nil)

// Layout is that of batches whose LogProbs are the probabilities as served.
func (p *Paper) Layout() pool.Layout {
	return pool.Layout{
		Shape: pool.Shape{Classes: p.classes, Embedding: p.updated.Posterior().Dim}, Need: pool.NeedEmbedded, LogProbs: p.Width(),
	}
}

// NewPaper returns the paper's heads as trained.
func NewPaper(m *model.Model, cfg Config) *Paper {
	online := posterior.NewOnline(m.Prior, cfg.Update)
	p := &Paper{
		classes: m.Prior.Classes, updated: online,
		both:       []posterior.Head{ByOnline: online, ByStatic: posterior.NewStatic(m.Prior)},
		posteriors: []*posterior.Gaussian{ByOnline: online.Posterior(), ByStatic: &m.Prior},
		beside:     cfg.Beside,
		first:      posterior.NewPredictive(m.Prior.Classes, cfg.Samples),
		second:     posterior.NewPredictive(m.Prior.Classes, cfg.Samples),
	}
	for _, h := range p.both {
		p.list = append(p.list, h)
	}
	return p
}

func (p *Paper) Heads() []Head { return p.list }

func (p *Paper) ServingHead() uint8 { return p.Serves }

func (p *Paper) Width() int { return len(p.both) * p.classes }

func (p *Paper) Serve(_ []int32, rows posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	d, width := len(rows.Z)/max(rows.Len(), 1), p.Width()
	predict := func(by *posterior.Predictive) func(from, to int) {
		return func(from, to int) {
			part := posterior.Rows{Z: rows.Z[from*d : to*d], Tau: rows.Tau[from:to]}
			by.Serve(p.posteriors, int(p.Serves), part, outputs[from*width:to*width], split[from:to])
		}
	}
	p.beside.share(rows.Len(), predict(p.first), predict(p.second))
}

func (p *Paper) PredictOne(_ View, rows posterior.Rows, outputs []float32) posterior.Uncertainty {
	split := make([]posterior.Uncertainty, 1)
	p.Serve(nil, rows, outputs, split)
	return split[0]
}

func (p *Paper) PredictTrials(_ []View, rows posterior.Rows, outputs []float32) {
	p.Serve(nil, rows, outputs, make([]posterior.Uncertainty, rows.Len()))
}

func (p *Paper) Probabilities(dst, outputs []float32) { copy(dst, outputs) }

func (p *Paper) Prepare(b *Batch, to *pool.Batch) {
	to.LogProbs = append(to.LogProbs[:0], b.Outputs...)
	b.copyTo(to)
	to.N = len(to.Labels)
}

func (p *Paper) Learning(b *pool.Batch) (parts []func()) {
	for i, h := range p.both {
		parts = append(parts, func() { p.reports[i] = h.Learn(b.Embedded, b.Labels) })
	}
	return parts
}

func (p *Paper) Learnt(_ event.Hash, heads []event.Head) event.Hash {
	for i, r := range p.reports {
		heads[i].Clipped, heads[i].Step = r.Clipped, r.Step
	}
	return p.hash()
}

func (p *Paper) hash() (hash event.Hash) {
	hash, p.buffer = hashOf(p.list, p.buffer)
	return hash
}

func (p *Paper) Online() *posterior.Online { return p.updated }

func (p *Paper) PoolOfHeads() *pool.Pool { return nil }

func (p *Paper) Learned() *Pooled { return nil }

func (p *Paper) OutputsName() string { return "pending.probabilities" }

func (p *Paper) Valid(output float32) bool { return IsProbability(output) }

func (p *Paper) matches(hash event.Hash) bool { return hash == p.hash() }

// State declares nothing: all state is in the heads.
func (p *Paper) State(*snapshot.Schema) {}
