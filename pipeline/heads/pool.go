package heads

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel/double"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

func (p *Pool) Heads() []Head { return p.list }

// pooledHead is the pool, number 0, one of its heads, from 1 on, or a product of its mixture,
// behind the heads. The state of all is that of number 0.
type pooledHead struct {
	of     *Pool
	number int
	name   string
}

func (h pooledHead) Name() string { return h.name }

// Version returns the number of batches learned, 0 for a static head.
func (h pooledHead) Version() uint64 {
	if n := h.number; n > 0 && n <= len(h.of.spec.Heads) && h.of.spec.Heads[n-1].Static != nil {
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
func (p *Pool) ServingHead() uint8 { return 0 }

func (p *Pool) Width() int { return p.pool.LogProbsPerRow() + (2+p.kinds)*p.classes }

// appendServed appends what of a row's outputs the pool learns from: the log probabilities
// and the counts of labels.
func (p *Pool) appendServed(to *pool.Batch, outputs []float32) {
	logps := p.pool.LogProbsPerRow()
	to.LogProbs = append(to.LogProbs, outputs[:logps]...)
	to.Labelled = append(to.Labelled, outputs[logps:logps+p.classes]...)
	to.Second = append(to.Second, outputs[logps+p.classes:logps+2*p.classes]...)
	to.Kinds = append(to.Kinds, outputs[logps+2*p.classes:]...)
}

func (p *Pool) Layout() pool.Layout { return p.pool.Layout() }

func (p *Pool) Learning(b *pool.Batch) []func() {
	p.reports = make([]posterior.Report, len(p.list)-1)
	return p.pool.Learning(*b, p.reports)
}

// Learnt hashes the last hash and the part of the state that the batch changed, since the
// whole state may be large.
func (p *Pool) Learnt(last event.Hash, heads []event.Head) event.Hash {
	for k, r := range p.reports {
		heads[1+k].Clipped, heads[1+k].Step = r.Clipped, r.Step
	}
	p.buffer = p.pool.AppendChange(append(p.buffer[:0], last[:]...))
	return sha256.Sum256(p.buffer)
}

func (p *Pool) Online() *posterior.Online {
	if p.idle != nil {
		return p.idle
	}
	return p.pool.Online()
}

func (p *Pool) PoolOfHeads() *pool.Pool { return p.pool }

// Probabilities exponentiates log probabilities.
func (p *Pool) Probabilities(dst, logp []float32) {
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

func (p *Pool) Learned() *Pooled {
	parts := p.pool.Names()[1:]
	l := &Pooled{
		Heads: parts[:len(p.spec.Heads)], Parts: parts, Shares: p.pool.Shares(), Regret: p.pool.Regret(),
		Compatibility: slices.Clone(p.pool.Compatibility()),
	}
	l.Weights, l.Bias = p.pool.Weights()
	return l
}

func (p *Pool) OutputsName() string { return "pending.said" }

func (p *Pool) Valid(output float32) bool { return IsFinite(output) }

// matches accepts any hash, since it depends on all batches that led to the state.
func (p *Pool) matches(event.Hash) bool { return true }
