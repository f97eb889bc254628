package shards

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/snapshots"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Trainer learns for the shards of a graph: it scores the labels that all of them joined, as
// one engine would, and updates the heads. It has no graph.
//
// Its state is a function of the model, the settings and the rows of all windows, see
// [Rows], to the bit.
type Trainer struct {
	model     *model.Model
	cfg       pipeline.Config
	shards    int
	heads     trainable
	queue     *heads.LearnQueue // without a lag: the shards have it
	scorer    *serve.Scorer
	sets      []*trainerSets // one with Config.Coverage, or none
	observers []serve.Observer

	batch    heads.Batch // what scores need of the labels: outputs, servedBy, labels
	prepared pool.Batch  // what the heads learn

	next     int64      // number of the next window
	chain    event.Hash // of the heads after every window
	buffer   []byte
	recycled []event.Labelled
	snapshot *snapshots.Snapshot // the open one, or nil
}

// trainable is heads that learn, for others to predict with.
type trainable interface {
	heads.Learner
	Probabilities(dst, outputs []float32)
	Valid(output float32) bool // see [heads.Serving]
	// AppendHeads appends what serve needs of the heads' state, see [shardHeads], or what the
	// last batch changed of it.
	AppendHeads(b []byte, change bool) []byte
}

var (
	_ trainable = (*heads.Paper)(nil)
	_ trainable = (*heads.PoolHeads)(nil)
)

// NewTrainer returns the trainer of a graph of P shards, at window 0. It fails as [NewShard] does.
func NewTrainer(m *model.Model, cfg pipeline.Config, P int) (*Trainer, error) {
	cfg, err := shardedConfig(cfg, P)
	if err != nil {
		return nil, err
	}
	l := &Trainer{model: m, cfg: cfg, shards: P}
	if cfg.ServesPool(m) {
		if l.heads, err = heads.NewPoolHeads(m, cfg.Heads()); err != nil {
			return nil, err
		}
	} else {
		p := heads.NewPaper(m, cfg.Heads())
		l.heads = p
		if cfg.Fallback >= 0 {
			none := serve.NewPending(m.Prior.Dim, p.Width(), cfg.Waiting())
			l.observers = append(l.observers, serve.NewFallback(cfg.Fallback, p, none))
		}
	}
	l.scorer = serve.NewScorer(m, cfg.Bins, l.heads, l.heads.Layout().LogProbs, &l.batch)
	if cfg.Coverage.Target > 0 {
		x, err := newTrainerSets(m, cfg, l.scorer)
		if err != nil {
			return nil, err
		}
		l.sets, l.observers = []*trainerSets{x}, append(l.observers, x)
	}
	if !cfg.Unwatched {
		l.observers = append(l.observers, serve.NewDetectors(m, &posterior.Rows{}))
	}
	l.queue = heads.NewLearnQueue(l.heads, heads.Config{})
	return l, nil
}

// Learn learns the labels of the next window, given the rows of all shards, in their order.
// It returns the outcome, with the labels and their scores, and the heads after the batch,
// nil if these are the same as before: if there were no labels, and the thresholds of sets did
// not change. Learn keeps nothing of rows but strings.
//
// Drift is looked for in labels alone; detectors that need embeddings see none.
func (l *Trainer) Learn(rows []*Rows) (*event.Outcome, *Heads, error) {
	if len(rows) != l.shards {
		panic(fmt.Sprintf("shards: rows of %d shards, there are %d", len(rows), l.shards))
	}
	out := &event.Outcome{Window: l.next, Model: l.model.ID}
	if err := l.gather(rows, out); err != nil {
		return nil, nil, fmt.Errorf("labels of window %d: %w", l.next, err)
	}
	before := l.headsOf(0, nil).Thresholds
	l.scorer.Score(out)
	for _, o := range l.observers {
		o.Scored(out)
	}
	if len(out.Labelled) > 0 {
		l.queue.Put(l.next, func(to *pool.Batch) { *to, l.prepared = l.prepared, *to })
	}
	l.queue.Begin(l.next)
	l.queue.Settle()
	var state []byte
	if len(out.Labelled) > 0 {
		state = l.heads.AppendHeads(nil, true)
	}
	heads := l.headsOf(l.next, state)
	if state == nil && slices.Equal(heads.Thresholds, before) {
		heads = nil
	}
	l.queue.Report(out)
	l.extendChain(out)
	l.next++
	return out, heads, nil
}

// gather puts the rows of all shards in the order of their labels.
func (l *Trainer) gather(rows []*Rows, out *event.Outcome) error {
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
	b.Labels, b.Outputs, b.ServedBy = l.prepared.Labels, l.prepared.LogProbs, b.ServedBy[:0]
	for i := range out.Labelled {
		b.ServedBy = append(b.ServedBy, uint8(out.Labelled[i].By))
	}
	return nil
}

// extendChain folds the heads after a window into the chain.
func (l *Trainer) extendChain(out *event.Outcome) {
	b := append(l.buffer[:0], l.chain[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(out.Window))
	b = append(b, out.Posterior[:]...)
	l.buffer = b
	l.chain = sha256.Sum256(b)
	out.Chain = l.chain
}

// Heads returns the heads as they are.
func (l *Trainer) Heads() *Heads { return l.headsOf(l.next-1, l.heads.AppendHeads(nil, false)) }

func (l *Trainer) headsOf(window int64, state []byte) *Heads {
	h := &Heads{Window: window, Hash: l.queue.Last.Posterior, State: state}
	for _, x := range l.sets {
		h.Thresholds = x.Predictor.Thresholds()
	}
	return h
}

// Config returns the trainer's settings, with defaults filled in.
func (l *Trainer) Config() pipeline.Config { return l.cfg }

// Model returns the model.
func (l *Trainer) Model() *model.Model { return l.model }

// Next returns the number of the next window.
func (l *Trainer) Next() int64 { return l.next }

// Err returns nil: a trainer has no files.
func (l *Trainer) Err() error { return nil }

// Posterior is [pipeline.Engine.Posterior].
func (l *Trainer) Posterior() (now, trained *posterior.Gaussian) {
	return l.heads.Online().Posterior(), &l.model.Prior
}

// Summaries is [pipeline.Engine.Summaries].
func (l *Trainer) Summaries() []serve.Summary { return l.scorer.All() }

// Pooled is [pipeline.Engine.Pooled].
func (l *Trainer) Pooled() *heads.Pooled { return l.heads.Learned() }

// Recycle gives an outcome of this trainer back, see [pipeline.Engine.Recycle].
func (l *Trainer) Recycle(out *event.Outcome) {
	l.scorer.Recycle(out)
	if cap(out.Labelled) > cap(l.recycled) {
		l.recycled = out.Labelled[:0]
	}
}

// Snapshot begins a snapshot of the trainer's state, as [pipeline.Pair.Snapshot] does, for [RestoreTrainer].
func (l *Trainer) Snapshot(meta map[string]string) *snapshots.Snapshot {
	return snapshots.Take(meta, snapshots.Under("", savedTrainer{l}))
}

// RestoreTrainer returns the trainer of a [snapshots.Snapshot] of size bytes, as [pipeline.RestorePair] does.
func RestoreTrainer(m *model.Model, cfg pipeline.Config, P int, r io.ReaderAt, size int64) (*Trainer, map[string]string, error) {
	l, err := NewTrainer(m, cfg, P)
	if err != nil {
		return nil, nil, err
	}
	meta, err := snapshots.RestoreAlone(savedTrainer{l}, m.ID, r, size)
	return l, meta, err
}

// State declares the trainer's state without its strings.
func (l savedTrainer) State(s *snapshot.Schema) {
	heads.DeclareHeads(s, l.heads, &l.queue.Last.Posterior)
	l.queue.State(s, l.next)
	l.scorer.State(s)
	serve.DeclareObservers(s, l.observers, l.cfg.Unwatched, l.model)
}

func (l savedTrainer) Rest() {}

func (l savedTrainer) Open() **snapshots.Snapshot { return &l.snapshot }

func (l savedTrainer) AppendBlocks(list []int64) []int64 { return list }

// Strings returns the trainer's strings.
func (l savedTrainer) Strings() []snapshots.String {
	return append(snapshots.Strings(l.cfg.Settings(), l.model.ID, &l.next, &l.chain, &l.queue.Last.Posterior), snapshots.Fixed("shard", "lead", "give the snapshot of the lead"))
}

// savedTrainer is a trainer as snapshots save it.
type savedTrainer struct{ *Trainer }
