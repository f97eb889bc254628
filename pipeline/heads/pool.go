package heads

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel/double"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// PoolHeads is the model's pool of heads: it predicts rows and learns batches of them, and
// knows no graph. Outputs are log probabilities, the pool's, then each head's and those of
// its products, followed by the counts of labels around the node, n_v and q_v, C numbers
// each, and n_v by kind of edge, C for each mean, if a head reads it.
type PoolHeads struct {
	pool    *pool.Pool
	Spec    pool.Config
	classes int
	kinds   int               // means by which labels around a node are counted, see pool.Rows
	list    []Head            // the pool, then its heads and its products
	idle    *posterior.Online // result of online if the pool has no such head; it never learns

	buffer []byte // scratch of hash
}

var _ Learner = (*PoolHeads)(nil)

// NewPoolHeads returns the model's pool of heads as trained.
func NewPoolHeads(m *model.Model, cfg Config) (*PoolHeads, error) {
	p, err := m.NewPool()
	if err != nil {
		return nil, err
	}
	made := &PoolHeads{pool: p, Spec: p.Config(), classes: len(m.Classes)}
	if l := p.Layout(); l.Need&pool.NeedKinds != 0 {
		made.kinds = l.Shape.Means
	}
	if p.Online() == nil {
		made.idle = posterior.NewOnline(m.Prior, cfg.Update)
	}
	for k, name := range p.Names() {
		made.list = append(made.list, pooledHead{made, k, name})
	}
	return made, nil
}

func (p *PoolHeads) Heads() []Head { return p.list }

// pooledHead is the pool, number 0, one of its heads, from 1 on, or a product of its mixture,
// behind the heads. The state of all is that of number 0.
type pooledHead struct {
	of     *PoolHeads
	number int
	name   string
}

func (h pooledHead) Name() string { return h.name }

// Version returns the number of batches learned, 0 for a static head.
func (h pooledHead) Version() uint64 {
	if n := h.number; n > 0 && n <= len(h.of.Spec.Heads) && h.of.Spec.Heads[n-1].Static != nil {
		return 0
	}
	return h.of.pool.Version()
}

func (h pooledHead) AppendState(b []byte) []byte {
	if h.number > 0 {
		return b
	}
	return h.of.pool.AppendState(b)
}

func (h pooledHead) SetState(b []byte) error {
	if h.number > 0 {
		if len(b) > 0 {
			return fmt.Errorf("%d bytes, want none: a head's state is part of the pool's", len(b))
		}
		return nil
	}
	return h.of.pool.SetState(b)
}

// ServingHead is the pool itself.
func (p *PoolHeads) ServingHead() uint8 { return 0 }

func (p *PoolHeads) Width() int { return p.pool.LogProbsPerRow() + (2+p.kinds)*p.classes }

// appendServed appends what of a row's outputs the pool learns from: the log probabilities
// and the counts of labels.
func (p *PoolHeads) appendServed(to *pool.Batch, outputs []float32) {
	logps := p.pool.LogProbsPerRow()
	to.LogProbs = append(to.LogProbs, outputs[:logps]...)
	to.Labelled = append(to.Labelled, outputs[logps:logps+p.classes]...)
	to.Second = append(to.Second, outputs[logps+p.classes:logps+2*p.classes]...)
	to.Kinds = append(to.Kinds, outputs[logps+2*p.classes:]...)
}

func (p *PoolHeads) Layout() pool.Layout { return p.pool.Layout() }

// Learn updates the pool.
func (p *PoolHeads) Learn(b *pool.Batch, heads []event.Head) {
	for k, r := range p.pool.Learn(*b).Heads {
		heads[1+k].Clipped, heads[1+k].Step = r.Clipped, r.Step
	}
}

// AppendHeads appends the predictive state of the pool, or what the last batch changed of it.
func (p *PoolHeads) AppendHeads(b []byte, change bool) []byte {
	if change {
		return p.pool.AppendPredictiveChange(b)
	}
	return p.pool.AppendPredictive(b)
}

// SetHeads sets what appendHeads appended. The pool does not learn from there on.
func (p *PoolHeads) SetHeads(b []byte) error { return p.pool.SetPredictive(b) }

// Hash hashes the last hash and the part of the state that the batch changed, since the
// whole state may be large.
func (p *PoolHeads) Hash(last event.Hash) event.Hash {
	p.buffer = p.pool.AppendChange(append(p.buffer[:0], last[:]...))
	return sha256.Sum256(p.buffer)
}

func (p *PoolHeads) Online() *posterior.Online {
	if p.idle != nil {
		return p.idle
	}
	return p.pool.Online()
}

func (p *PoolHeads) PoolOfHeads() *pool.Pool { return p.pool }

// Probabilities exponentiates log probabilities.
func (p *PoolHeads) Probabilities(dst, logp []float32) {
	var some [64]float64
	for len(logp) > 0 {
		n := min(len(some), len(logp))
		double.Raise(some[:n], logp[:n], math.Inf(-1))
		double.Exponentials(some[:n])
		for i, q := range some[:n] {
			dst[i] = float32(q)
		}
		dst, logp = dst[n:], logp[n:]
	}
}

// Pooled is the learned state of a pool, without that of its heads.
type Pooled struct {
	Heads   []string  // names
	Weights []float64 // by head, as in what is served; 0 for heads that are only scored
	Bias    []float64 // by class, likewise
	// Parts are the heads and then the products of the mixture that is served, and Shares
	// the share of each. A pool without a mixture has one product: its parts are the heads,
	// and Shares is nil.
	Parts  []string
	Shares []float64
	// LabelRates are the rates of labels by class, the largest 1; nil where all are alike.
	LabelRates []float64
	// Regret is the pool's log loss over all labels, less that of its best head in
	// hindsight, in nats.
	Regret float64
	// Compatibility, C × C, has in row c the share of each class among the labelled
	// neighbours of nodes of class c. It is nil if no head learns it.
	Compatibility []float64
}

func (p *PoolHeads) Learned() *Pooled {
	parts := p.pool.Names()[1:]
	l := &Pooled{Heads: parts[:len(p.Spec.Heads)], Parts: parts, Shares: p.pool.Shares(), Regret: p.pool.Regret(), Compatibility: slices.Clone(p.pool.Compatibility())}
	l.Weights, l.Bias = p.pool.Weights()
	return l
}

func (p *PoolHeads) OutputsName() string { return "pending.said" }

func (p *PoolHeads) Valid(output float32) bool { return IsFinite(output) }

// matches accepts any hash, since it depends on all batches that led to the state.
func (p *PoolHeads) matches(event.Hash) bool { return true }
