package shards

import (
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// All is a whole graph in P shards, with its trainer: what several processes do together,
// in one. Predictions are the same, to the bit, as theirs; they differ from those of an
// [pipeline.Engine], whose sums have another order, by rounding.
type All struct {
	Shards  []*Shard
	Trainer *Trainer
	run     Runner
	chain   event.Hash // see [event.Hash.Join]

	// Of the window:
	parts [][][]float32    // by receiving shard, then by sending shard
	out   []*event.Outcome // by shard
	errs  []error
	rows  []*Rows

	due []afterWindow // of the last windows, the oldest first: at most Config.LearnLag + 1

	err error
}

// Runner calls each(i) for i from 0 to below n, in any order and on any goroutines, and
// returns when all calls have returned. Results do not depend on it.
type Runner func(n int, each func(i int))

// afterWindow is what a window gives to the one that is Config.LearnLag + 1 later.
type afterWindow struct {
	served [][]byte // by the shards, see [Shard.AppendServed]
	heads  *Heads   // by the trainer, nil if they are the same as after the window before
}

// NewAll returns a graph in P shards, at window 0. It fails as [NewShard] does. If run
// is nil, the shards are stepped one after the other.
func NewAll(m *model.Model, cfg pipeline.Config, P int, run Runner) (*All, error) {
	trainer, err := NewTrainer(m, cfg, P)
	if err != nil {
		return nil, err
	}
	cfg.PendingMemory /= int64(P)
	var shards []*Shard
	for p := range P {
		s, err := NewShard(m, cfg, p, P)
		if err != nil {
			return nil, err
		}
		shards = append(shards, s)
	}
	return allOf(shards, trainer, run), nil
}

func allOf(shards []*Shard, trainer *Trainer, run Runner) *All {
	if run == nil {
		run = func(n int, each func(i int)) {
			for i := range n {
				each(i)
			}
		}
	}
	P := len(shards)
	s := &All{
		Shards: shards, Trainer: trainer, run: run, parts: make([][][]float32, P),
		out: make([]*event.Outcome, P), errs: make([]error, P), rows: make([]*Rows, P),
	}
	for q := range s.parts {
		s.parts[q] = make([][]float32, P)
	}
	return s
}

// Step processes the next window, as [pipeline.Engine.Step] does. Predictions are in canonical order,
// refusals in that of each shard, one shard after the other.
func (s *All) Step(w *event.Window) *event.Outcome {
	P := len(s.Shards)
	s.run(P, func(p int) { s.Shards[p].Enter(w) })
	owners := s.Shards[0].windows.ahead[0].owner
	for q := range P {
		for p := range P {
			s.parts[q][p] = s.Shards[p].Part(q)
		}
	}
	var due afterWindow
	if len(s.due) > s.Trainer.cfg.LearnLag {
		due, s.due = s.due[0], s.due[1:]
	}
	s.run(P, func(p int) {
		if s.errs[p] = s.Shards[p].Hear(due.served); s.errs[p] == nil {
			s.out[p], s.errs[p] = s.Shards[p].Serve(s.parts[p], due.heads)
		}
	})
	next := afterWindow{served: make([][]byte, P)}
	for p, shard := range s.Shards {
		s.fail(s.errs[p])
		s.rows[p] = shard.Rows()
		next.served[p] = shard.AppendServed(nil)
	}
	if s.err != nil {
		return &event.Outcome{Window: w.Number, Model: s.Trainer.model.ID}
	}
	lead, learned, err := s.Trainer.Learn(s.rows)
	s.fail(err)
	next.heads = learned
	s.due = append(s.due, next)
	return s.join(owners, lead)
}

// join makes one outcome of those of all shards and the trainer.
func (s *All) join(owners []uint8, lead *event.Outcome) *event.Outcome {
	out := *s.out[0] // counts and levels
	out.Heads, out.Labelled, out.Watched, out.ServedBy, out.Lead, out.Drift, out.Posterior = lead.Heads, lead.Labelled, lead.Watched, lead.ServedBy, lead.Lead, lead.Drift, lead.Posterior
	out.Coverage = lead.Coverage
	out.Predictions = make([]event.Prediction, 0, len(owners))
	next := make([]int, len(s.Shards))
	for _, p := range owners {
		out.Predictions = append(out.Predictions, s.out[p].Predictions[next[p]])
		next[p]++
	}
	chains := make([]event.Hash, len(s.Shards))
	out.Refused = nil
	for p, o := range s.out {
		out.Refused = append(out.Refused, o.Refused...)
		chains[p] = o.Chain
	}
	s.chain = s.chain.Join(chains)
	out.Chain = s.chain
	return &out
}

// Parts returns the outcomes of the shards, in their order, of which the last Step made its
// own.
func (s *All) Parts() []*event.Outcome { return s.out }

func (s *All) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Err returns the first error, nil for none, see [pipeline.Engine.Err].
func (s *All) Err() error {
	for _, shard := range s.Shards {
		s.fail(shard.Err())
	}
	return s.err
}

// Recycle does nothing: an audit's outcomes are left to the collector.
func (s *All) Recycle(*event.Outcome) {}

// Close frees the blocks of the shards, see [pipeline.Config.Blocks]. The graph cannot be used
// afterwards.
func (s *All) Close() {
	for _, shard := range s.Shards {
		shard.pending.Close()
	}
}
