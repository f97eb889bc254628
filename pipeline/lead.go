package pipeline

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Lead learns for the shards of a graph: it scores the labels that all of them joined, as
// one engine would, and updates the heads. It has no graph.
//
// Its state is a function of the model, the settings and the rows of all windows, see
// [Rows], to the bit.
type Lead struct {
	model     *model.Model
	cfg       Config
	shards    int
	heads     leading
	scorer    *scorer
	sets      []*leadSets // one with Config.Coverage, or none
	observers []observer

	batch    batch      // what scores need of the labels: outputs, servedBy, labels
	prepared pool.Batch // what the heads learn

	next      int64      // number of the next window
	posterior event.Hash // of the heads' state
	chain     event.Hash // of the heads after every window
	buffer    []byte
	recycled  []event.Labelled
	snapshot  *Snapshot // the open one, or nil
}

// leading is heads that learn, for others to predict with.
type leading interface {
	learner
	probabilities(dst, outputs []float32)
	valid(output float32) bool // see [serving]
	// appendHeads appends what serve needs of the heads' state, see [sliced], or what the
	// last batch changed of it.
	appendHeads(b []byte, change bool) []byte
}

// NewLead returns the lead of a graph of P shards, at window 0. It fails as [NewShard] does.
func NewLead(m *model.Model, cfg Config, P int) (*Lead, error) {
	cfg, err := cfg.sharded(P)
	if err != nil {
		return nil, err
	}
	l := &Lead{model: m, cfg: cfg, shards: P}
	if cfg.servesPool(m) {
		if l.heads, err = newPoolHeads(m, cfg); err != nil {
			return nil, err
		}
	} else {
		p := newPaper(m, cfg)
		l.heads = p
		if cfg.Fallback >= 0 {
			none := newPending(m.Prior.Dim, p.width(), cfg)
			l.observers = append(l.observers, &fallback{threshold: cfg.Fallback, heads: p, pending: none})
		}
	}
	l.scorer = newScorer(m, cfg, l.heads, l.heads.layout().LogProbs, &l.batch)
	if cfg.Coverage.Target > 0 {
		x, err := newLeadSets(m, cfg, l.scorer)
		if err != nil {
			return nil, err
		}
		l.sets, l.observers = []*leadSets{x}, append(l.observers, x)
	}
	if !cfg.Unwatched {
		d, err := newDetectors(m, &posterior.Rows{})
		if err != nil {
			return nil, err
		}
		l.observers = append(l.observers, d)
	}
	l.posterior, l.buffer = hashOf(l.heads.heads(), l.buffer)
	return l, nil
}

// Learn learns the labels of the next window, given the rows of all shards, in their order.
// It returns the outcome, with the labels and their scores, and the heads after the batch,
// nil if these are the same as before: if there were no labels, and the thresholds of sets did
// not change. Learn keeps nothing of rows but strings.
//
// Drift is looked for in labels alone; detectors that need embeddings see none.
func (l *Lead) Learn(rows []*Rows) (*event.Outcome, *Heads, error) {
	if len(rows) != l.shards {
		panic(fmt.Sprintf("pipeline: rows of %d shards, there are %d", len(rows), l.shards))
	}
	out := &event.Outcome{Window: l.next, Model: l.model.ID}
	if err := l.gather(rows, out); err != nil {
		return nil, nil, fmt.Errorf("labels of window %d: %w", l.next, err)
	}
	before := l.headsOf(0, nil).Thresholds
	l.scorer.score(out)
	for _, o := range l.observers {
		o.scored(out)
	}
	var state []byte
	if len(out.Labelled) > 0 {
		l.heads.learn(&l.prepared, out.Heads)
		l.posterior = l.heads.hash(l.posterior)
		state = l.heads.appendHeads(nil, true)
	}
	heads := l.headsOf(l.next, state)
	if state == nil && slices.Equal(heads.Thresholds, before) {
		heads = nil
	}
	for h, head := range l.heads.heads() {
		out.Heads[h].Version = head.Version()
	}
	out.Posterior = l.posterior
	l.extendChain(out)
	l.next++
	return out, heads, nil
}

// gather puts the rows of all shards in the order of their labels.
func (l *Lead) gather(rows []*Rows, out *event.Outcome) error {
	parts := make([]*pool.Part, len(rows))
	joined, n := rows[0].Joined, 0
	for p, r := range rows {
		if r.Joined != joined {
			return fmt.Errorf("shard %d joined %d, shard 0 joined %d: they do not hold the same graph", p, r.Joined, joined)
		}
		n += len(r.labelled)
		parts[p] = &r.part
	}
	if n != joined {
		return fmt.Errorf("%d rows of %d: the shards do not hold the same graph", n, joined)
	}
	if err := l.prepared.Merge(parts); err != nil {
		return err
	}
	if cap(l.recycled) < n {
		l.recycled = make([]event.Labelled, n)
	}
	out.Labelled, l.recycled = l.recycled[:n], nil
	for _, r := range rows {
		for i, at := range r.part.Positions {
			out.Labelled[at] = r.labelled[i]
		}
	}
	for _, x := range l.sets {
		if err := x.gather(rows, n); err != nil {
			return err
		}
	}
	b := &l.batch
	b.labels, b.outputs, b.servedBy = l.prepared.Labels, l.prepared.LogProbs, b.servedBy[:0]
	for i := range out.Labelled {
		b.servedBy = append(b.servedBy, uint8(out.Labelled[i].By))
	}
	return nil
}

// extendChain folds the heads after a window into the chain.
func (l *Lead) extendChain(out *event.Outcome) {
	b := append(l.buffer[:0], l.chain[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(out.Window))
	b = append(b, out.Posterior[:]...)
	l.buffer = b
	l.chain = sha256.Sum256(b)
	out.Chain = l.chain
}

// Heads returns the heads as they are.
func (l *Lead) Heads() *Heads { return l.headsOf(l.next-1, l.heads.appendHeads(nil, false)) }

func (l *Lead) headsOf(window int64, state []byte) *Heads {
	h := &Heads{Window: window, Hash: l.posterior, State: state}
	for _, x := range l.sets {
		h.Thresholds = x.predictor.Thresholds()
	}
	return h
}

// Config returns the lead's settings, with defaults filled in.
func (l *Lead) Config() Config { return l.cfg }

// Model returns the model.
func (l *Lead) Model() *model.Model { return l.model }

// Next returns the number of the next window.
func (l *Lead) Next() int64 { return l.next }

// Chain returns the hash of the heads after every window so far.
func (l *Lead) Chain() event.Hash { return l.chain }

// Err returns nil: a lead has no files.
func (l *Lead) Err() error { return nil }

// Posterior is [Engine.Posterior].
func (l *Lead) Posterior() (now, trained *posterior.Gaussian) {
	return l.heads.online().Posterior(), &l.model.Prior
}

// Summaries is [Engine.Summaries].
func (l *Lead) Summaries() []Summary { return l.scorer.all() }

// Pooled is [Engine.Pooled].
func (l *Lead) Pooled() *Pooled { return l.heads.learned() }

// Recycle gives an outcome of this lead back, see [Engine.Recycle].
func (l *Lead) Recycle(out *event.Outcome) {
	l.scorer.recycle(out)
	if cap(out.Labelled) > cap(l.recycled) {
		l.recycled = out.Labelled[:0]
	}
}
