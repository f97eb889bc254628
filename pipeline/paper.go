package pipeline

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// paper is the serving with the paper's heads: GVBLL-Online, which learns by Proposition
// 1, and GVBLL-Static, which stays as trained. The online head serves, unless a
// [fallback] chooses the static one. Outputs are the probabilities of both.
type paper struct {
	classes    int
	updated    *posterior.Online     // the online head
	both       []posterior.Head      // by place
	list       []head                // the same
	posteriors []*posterior.Gaussian // theirs
	beside     beside
	first      *posterior.Predictive
	second     *posterior.Predictive // on the other thread
	serves     uint8                 // the place of the head that serves
	buffer     []byte
}

// The paper's heads by their places.
const (
	byOnline = 0
	byStatic = 1
)

var (
	_ serving = (*paper)(nil)
	_ sliced  = (*paper)(nil)
	_ leading = (*paper)(nil)
)

// layout is that of batches whose LogProbs are the probabilities as served.
func (p *paper) layout() pool.Layout {
	return pool.Layout{
		Shape: pool.Shape{Classes: p.classes, Embedding: p.updated.Posterior().Dim}, Need: pool.NeedEmbedded, LogProbs: p.width(),
	}
}

// The paper's heads read nothing around a node.

func (p *paper) gather([]int32, *surroundings) {}

func (p *paper) serveGathered(_ *surroundings, rows posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	p.serve(nil, rows, outputs, split)
}

func (p *paper) gatherPart(joined []joined, _ []int32, to *pool.Part) {
	to.Positions = to.Positions[:0]
	for _, j := range joined {
		to.Positions = append(to.Positions, j.place)
	}
	to.Refreshed = kernel.Room(to.Refreshed, len(joined))
	clear(to.Refreshed)
}

func (p *paper) completePart(b *batch, to *pool.Part) { p.prepare(b, &to.Batch) }

// appendHeads appends the place of the head that serves, and the state of the online one. A
// batch changes all of it.
func (p *paper) appendHeads(b []byte, _ bool) []byte {
	return p.updated.AppendState(append(b, p.serves))
}

func (p *paper) setHeads(b []byte) error {
	if len(b) == 0 || b[0] > byStatic {
		return fmt.Errorf("%d bytes are no state of the paper's heads", len(b))
	}
	p.serves = b[0]
	return p.updated.SetState(b[1:])
}

func newPaper(m *model.Model, cfg Config) *paper {
	online := posterior.NewOnline(m.Prior, cfg.Update)
	p := &paper{
		classes: m.Prior.Classes, updated: online,
		both:       []posterior.Head{byOnline: online, byStatic: posterior.NewStatic(m.Prior)},
		posteriors: []*posterior.Gaussian{byOnline: online.Posterior(), byStatic: &m.Prior},
		beside:     cfg.beside(),
		first:      posterior.NewPredictive(m.Prior.Classes, cfg.Samples),
		second:     posterior.NewPredictive(m.Prior.Classes, cfg.Samples),
	}
	for _, h := range p.both {
		p.list = append(p.list, h)
	}
	return p
}

func (p *paper) heads() []head { return p.list }

func (p *paper) servingHead() uint8 { return p.serves }

func (p *paper) width() int { return len(p.both) * p.classes }

func (p *paper) serve(_ []int32, rows posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	d, width := len(rows.Z)/max(rows.Len(), 1), p.width()
	predict := func(by *posterior.Predictive) func(from, to int) {
		return func(from, to int) {
			part := posterior.Rows{Z: rows.Z[from*d : to*d], Tau: rows.Tau[from:to]}
			by.Serve(p.posteriors, int(p.serves), part, outputs[from*width:to*width], split[from:to])
		}
	}
	p.beside.share(rows.Len(), predict(p.first), predict(p.second))
}

func (p *paper) predictOne(_ view, rows posterior.Rows, outputs []float32) posterior.Uncertainty {
	split := make([]posterior.Uncertainty, 1)
	p.serve(nil, rows, outputs, split)
	return split[0]
}

func (p *paper) probabilities(dst, outputs []float32) { copy(dst, outputs) }

func (p *paper) prepare(b *batch, to *pool.Batch) {
	to.N, to.LogProbs = len(b.labels), append(to.LogProbs[:0], b.outputs...)
	b.copyTo(to)
}

func (p *paper) learn(b *pool.Batch, heads []event.Head) {
	for i, h := range p.both {
		r := h.Learn(b.Embedded, b.Labels)
		heads[i].Clipped, heads[i].Step = r.Clipped, r.Step
	}
}

func (p *paper) hash(event.Hash) (hash event.Hash) {
	hash, p.buffer = hashOf(p.list, p.buffer)
	return hash
}

func (p *paper) online() *posterior.Online { return p.updated }

func (p *paper) poolOfHeads() *pool.Pool { return nil }

func (p *paper) learned() *Pooled { return nil }

func (p *paper) outputsName() string { return "pending.probabilities" }

func (p *paper) valid(output float32) bool { return isProbability(output) }

func (p *paper) matches(hash event.Hash) bool { return hash == p.hash(hash) }

// State declares nothing: all state is in the heads.
func (p *paper) State(*snapshot.Schema) {}
