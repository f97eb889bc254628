// Package worker is the loop that owns a graph: it fetches events, cuts windows, steps
// the engine, and commits the outcomes. It knows Kafka and no model; the engine that it
// drives knows a model and no Kafka.
//
// The workers of a graph elect one owner. The others follow its ledger, stepping the same
// windows and comparing hashes (topics/replay), so that the next owner only has to fence
// the last one and continue at the ledger's end. A worker that starts does the same from its
// newest checkpoint on.
//
// The stages overlap: each input fetches and decodes ahead ([intake.Inputs]), the owner's loop
// cuts, steps and encodes, and what comes of a window is committed beside later ones
// (topics/publish). This does not change any outcome: the loop alone decides what is in a
// window, and the other stages keep the windows in order.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
)

// Run runs a worker until the context ends, and then returns nil with every stepped window
// committed. If it ends for any other reason it returns an error of one line.
func Run(ctx context.Context, c *kafka.Client, e replay.Engine, cfg Config) error {
	w, err := newWorker(ctx, c, e, cfg)
	if err == nil {
		defer w.Saver.Unlock()
		watching, stop := context.WithCancel(ctx)
		defer stop()
		go topics.WatchRisks(watching, c, w.Cfg.Terms.Names, w.watchEvery(), w.Cfg.Logger, w.needed, w.Cfg.AtRisk)
		err = w.explainPurged(ctx, w.Run(ctx, w.join))
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // no transaction of this worker was open
	}
	return err
}

// Worker is a replayer that follows the ledger until it is elected, and then continues
// as [Owner]. One goroutine steps and tells the events.
type Worker struct {
	Cfg    *Config
	client *kafka.Client
	Replay *replay.Replayer
	member Membership
	Saver  *Saver
	bases  *bases // nil if none are written
	source Source // of windows, once this worker is the owner
	// partitions are the partition counts of the output topics at the start: a key stays
	// in its partition while the worker runs, even if partitions are added.
	partitions map[string]int
	// newest is the ledger's last record when this worker began, nil for none. Later
	// windows must be of this worker's terms.
	newest *ledger.Record
	// begins is the epoch that this worker begins when it owns the graph, nil for none.
	// Until then it follows windows of other terms.
	begins *ledger.Beginning
	// loading is the model that is being loaded for a trial, nil for none, and missing the
	// last one that could not be.
	loading *loading
	missing string
	// back says that this epoch may go back to terms that another epoch has left.
	back bool
	// committed is the last window known to be in the ledger. In a worker that follows
	// the ledger it is the one before next; an owner steps ahead of it.
	committed commitPoint

	elected bool // this worker, by the newest election
	// For the election, which reads them from another goroutine.
	Owns    atomic.Bool
	Stepped atomic.Int64 // next
}

// commitPoint is a window that is in the ledger, and the offset of its record or of
// an earlier one's; both are -1 for none.
type commitPoint struct{ window, offset int64 }

// newWorker returns a worker of a whole graph that has read the ledger's last record and
// nothing else.
func newWorker(ctx context.Context, c *kafka.Client, e replay.Engine, cfg Config) (*Worker, error) {
	missing, err := topics.Missing(ctx, c, cfg.Terms.Names)
	if err != nil {
		return nil, err
	}
	if slices.Contains(missing, cfg.Terms.Names.Ledger) && !cfg.BeginAgain {
		if err := topics.CheckLedger(ctx, c, cfg.Terms.Names); err != nil {
			return nil, err
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("missing topics %v: run 'gvbll topics --create', or let the worker do it with --create-topics 1", missing)
	}
	if err := topics.CheckWhole(ctx, c, cfg.Terms.Names); err != nil {
		return nil, err
	}
	w, err := NewTask(ctx, c, e, cfg, newByPolicy)
	if err != nil {
		return nil, err
	}
	if err := w.checkBegin(ctx); err != nil {
		return nil, err
	}
	if w.Saver, err = NewSaver(ctx, c, w.Cfg); err == nil {
		w.bases = newBases(w)
		w.Saver.bases = w.bases
	}
	return w, err
}

// NewTask returns a worker that has read the last record of its part of the ledger, and nothing
// else. It has no saver yet.
func NewTask(ctx context.Context, c *kafka.Client, e replay.Engine, cfg Config, from func(*replay.Replayer) Source) (w *Worker, err error) {
	cfg.SetDefaults()
	cfg.Events = replay.Join(LogEvents(cfg.Logger), cfg.Events)
	p := replay.New(c, cfg.Replay(), e)
	w = &Worker{Cfg: &cfg, client: c, Replay: p, source: from(p)}
	w.newest, err = ledger.Newest(ctx, c, cfg.Terms.LedgerAt())
	return w, err
}

// checkBegin returns a [topics.GoneError] if the ledger is empty though a graph was served under
// its name.
func (w *Worker) checkBegin(ctx context.Context) error {
	switch {
	case w.newest != nil && w.Cfg.BeginAgain:
		w.Cfg.Logger.Warn("the ledger is not empty, and this worker goes on from it: leave out --begin-again", "windows", w.newest.Window+1)
		return nil
	case w.newest != nil || w.Cfg.BeginAgain:
		return nil
	}
	if err := topics.CheckLedger(ctx, w.client, w.Cfg.Terms.Names); err != nil {
		return err
	}
	return cmp.Or(w.checkNoCheckpoint(), w.checkNoBase(ctx))
}

// Run joins the election, recovers meanwhile, and serves once it is the owner.
func (w *Worker) Run(ctx context.Context, join func() (Membership, error)) (err error) {
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	if w.member, err = join(); err != nil {
		return err
	}
	defer w.member.Leave()
	defer w.stopLoading()
	if err := w.start(ctx, fetching); err != nil {
		return err
	}
	if err = w.source.Await(ctx, w.pollElection); err == nil {
		err = w.standBy(ctx)
	}
	if err == nil {
		err = w.own(ctx)
	}
	err = ledger.Explain(ctx, w.client, w.Cfg.Terms.LedgerAt(), w.committed.window, err)
	w.member.Leave()             // another can take over while the last checkpoint is written
	var short *ledger.ShortError // of windows that this worker's state has
	w.Saver.Close(w, err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) || errors.As(err, &short))
	return err
}

// Membership is a place in the elections of the owner of a worker's task.
type Membership interface {
	// Elected delivers the outcome of each election, see [kafka.Membership.Elected].
	Elected() <-chan kafka.Election
	// Leave gives up the place: another worker can be elected.
	Leave()
}

// join takes part in the election of the graph's owner: the member of the group that
// is assigned the ledger's partition.
func (w *Worker) join() (Membership, error) {
	return w.client.Join(kafka.MembershipConfig{
		Group: w.Cfg.Terms.Names.Ledger, Topic: w.Cfg.Terms.Names.Ledger, Session: w.Cfg.Session, About: w.Cfg.About,
		Standings: func() []kafka.Standing { return []kafka.Standing{{Owner: w.Owns.Load(), Progress: w.Stepped.Load()}} },
	})
}

// start compares this worker's terms with the ledger's, and begins at the newest
// checkpoint.
func (w *Worker) start(ctx, fetching context.Context) error {
	err := w.checkEnd(ctx)
	gone := errors.Is(err, replay.ErrSettingsGone) // a checkpoint may have them
	if err != nil && !gone {
		return err
	}
	if err := w.open(ctx, fetching); err != nil || !gone {
		return err
	}
	return w.checkEnd(ctx)
}

// open starts after the newest checkpoint, or at the ledger's beginning.
func (w *Worker) open(ctx, fetching context.Context) error {
	inputs, err := w.Replay.Restore(ctx)
	if err != nil {
		return err
	}
	if w.Replay.Next == 0 {
		if w.Replay.Excluded, err = w.source.Exclusions(ctx); err != nil {
			return err
		}
	}
	w.committed = commitPoint{w.Replay.Next - 1, w.Replay.Ledger.Last()}
	w.Saver.Newest = w.Replay.Next
	w.Stepped.Store(w.Replay.Next)
	if w.partitions, err = w.client.Partitions(ctx, w.Cfg.Terms.Names.Predictions, w.Cfg.Terms.Names.DeadLetters); err != nil {
		return err
	}
	if err := w.Replay.OpenInputs(fetching, inputs); err != nil {
		return err
	}
	return w.checkState()
}

// checkNoCheckpoint returns a [topics.GoneError] if there is a checkpoint of this graph though
// its ledger is empty.
func (w *Worker) checkNoCheckpoint() error {
	list, err := w.Cfg.Checkpoints.Find(w.Cfg.Terms.Names.Ledger)
	if err != nil {
		return nil // of a folder that cannot be read, the start says so
	}
	for _, entry := range list {
		e, at, _, err := w.Replay.Read(entry.Path)
		if err != nil {
			continue // damaged, or of other models: not what this worker would go on from
		}
		replay.Release(e)
		if slices.ContainsFunc(at.Consumed, func(g ledger.Range) bool { return g.Topic == w.Cfg.Terms.Names.Nodes }) {
			return &topics.GoneError{Ledger: w.Cfg.Terms.Names.Ledger, Found: []string{fmt.Sprintf("a checkpoint of its first %d windows, %s", at.Window, entry.Path)}}
		}
	}
	return nil
}

// standBy follows the ledger, stepping the windows that the owner has committed,
// until this worker is elected and has reached the ledger's end.
func (w *Worker) standBy(ctx context.Context) error {
	began, first := time.Now(), w.Replay.Next
	w.replaying()
	recovered := false
	for {
		select {
		case e := <-w.member.Elected():
			if err := w.noteElection(e); err != nil {
				return err
			}
		default:
		}
		r, err := w.Replay.Ledger.Next(ctx)
		if err == nil && r == nil {
			if !recovered {
				recovered = true
				w.Cfg.Events(replay.Recovered{Engine: w.Replay.Engine, Windows: w.Replay.Next, Checkpoint: first, Took: time.Since(began)})
			}
			w.Cfg.Events(replay.Following{})
			if w.elected {
				return nil
			}
			w.followTrial(ctx)
			r, err = w.Replay.Ledger.Wait(ctx)
		}
		if err != nil {
			return err
		}
		if r != nil {
			if err := w.follow(ctx, r); err != nil {
				return err
			}
		}
		select {
		case err := <-w.loaded():
			if err := w.take(ctx, err); err != nil {
				return err
			}
		default:
		}
		if err := w.Saver.Poll(w); err != nil {
			return err
		}
	}
}

// pollElection takes note of an election, and reports whether this worker is elected. If it is,
// it is the owner from here on.
func (w *Worker) pollElection() (owns bool, err error) {
	select {
	case e := <-w.member.Elected():
		err = w.noteElection(e)
	default:
	}
	if w.elected && err == nil {
		w.Owns.Store(true)
	}
	return w.elected, err
}

// noteElection takes note of who owns the graph.
func (w *Worker) noteElection(e kafka.Election) error {
	if e.Err != nil {
		return e.Err
	}
	w.elected = e.Owns(w.Cfg.Terms.Partition)
	if !w.elected && w.Owns.Load() { // it has sent what an owner sends
		return publish.ErrOwned
	}
	if !w.elected {
		w.Cfg.Logger.Info("standing by: another worker owns this graph")
	}
	return nil
}

// follow steps a window of the ledger.
func (w *Worker) follow(ctx context.Context, r *ledger.Record) error {
	w.Cfg.Events(replay.Following{Behind: r.Stepped})
	if err := w.awaitModel(ctx, r.Model); err != nil {
		return err
	}
	if w.newest == nil || r.Window > w.newest.Window {
		if err := w.checkLater(ctx, r); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := w.source.Follow(ctx, r); err != nil {
		return err
	}
	out, err := w.Replay.Step(ctx, r)
	if err != nil {
		return err
	}
	w.Stepped.Store(w.Replay.Next)
	w.Cfg.Events(replay.Stepped{Outcome: out, Cause: r.Cause, Replayed: true, Trial: w.Replay.Last.Trial, Took: time.Since(began)})
	w.Replay.Inputs.Release()
	w.committed = commitPoint{r.Window, w.Replay.Ledger.Last()}
	w.bases.followed(r, w.newest)
	return nil
}

// replaying reports the windows that are to be replayed.
func (w *Worker) replaying() {
	if w.newest != nil {
		w.Cfg.Events(replay.Replaying{Windows: w.newest.Window + 1, Checkpoint: w.Replay.Next})
	}
}

// own makes this worker the owner, and serves until the context ends.
func (w *Worker) own(ctx context.Context) error {
	began := time.Now()
	o, err := w.takeOver(ctx)
	if err != nil {
		return err
	}
	crash.Point(crash.Recovered)
	w.Cfg.Logger.Info("serving: this worker owns the graph now", "windows", w.Replay.Next, "took", time.Since(began).Round(time.Millisecond))
	w.Cfg.Events(replay.TookOver{Windows: w.Replay.Next, Took: time.Since(began)})
	return o.serve(ctx, o.loop)
}

// takeOver fences the former owner, and replays what it committed before.
func (w *Worker) takeOver(ctx context.Context) (*Owner, error) {
	crash.Point(crash.BeforeFence)
	producer, err := w.client.NewProducer(ctx, kafka.ProducerConfig{
		TransactionalID:    w.Cfg.Terms.TransactionalID(),
		Topics:             []string{w.Cfg.Terms.Names.Predictions, w.Cfg.Terms.Names.ToLabel, w.Cfg.Terms.Names.DeadLetters, w.Cfg.Terms.Names.Ledger},
		TransactionTimeout: w.Cfg.Publishing.TransactionTimeout,
		Compression:        w.Cfg.Publishing.Compression,
	})
	if err != nil {
		return nil, err
	}
	crash.Point(crash.AfterFence)
	w.Owns.Store(true)
	if err := w.followToEnd(ctx); err != nil {
		return nil, err
	}
	if err := w.source.Check(ctx); err != nil {
		return nil, err
	}
	w.followTrial(ctx)
	return newOwner(w, producer), w.assignOwnRoles()
}

// followToEnd steps the windows that the former owner committed before it was fenced.
// From then on only this worker writes to the ledger.
func (w *Worker) followToEnd(ctx context.Context) error {
	for {
		r, err := w.Replay.Ledger.Next(ctx)
		if r == nil || err != nil {
			return err
		}
		if err := w.follow(ctx, r); err != nil {
			return err
		}
		if err := w.Saver.Poll(w); err != nil {
			return err
		}
	}
}
