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
	return run(ctx, c, e, cfg, func(ctx context.Context, w *worker) (membership, error) {
		n := w.cfg.Terms.Names
		if err := c.MayWrite(ctx, n.Predictions, n.DeadLetters, n.Ledger); err != nil {
			return nil, err
		}
		go topics.WatchRisks(ctx, c, n, watchEvery(&w.cfg.Checkpoints.Bases), w.cfg.Logger,
			func(ctx context.Context) (map[string]time.Time, error) { return needed(ctx, w.client, w.cfg) }, w.cfg.AtRisk)
		return w.join()
	})
}

// run runs a worker that takes its place in the elections when it begins. The context that this gets ends with the worker.
func run(ctx context.Context, c *kafka.Client, e replay.Engine, cfg Config,
	join func(context.Context, *worker) (membership, error),
) error {
	w, err := newWorker(ctx, c, e, cfg)
	if err == nil {
		defer w.saver.unlock()
		during, stop := context.WithCancel(ctx)
		defer stop()
		err = w.explainPurged(ctx, w.Run(ctx, func() (membership, error) { return join(during, w) }))
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // no transaction of this worker was open
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, publish.ErrOwned) && !errors.Is(err, kafka.ErrFenced) {
		return topics.NameCompaction(ctx, c, cfg.Terms.Names, err)
	}
	return err
}

// worker is a replayer that follows the ledger until it is elected, and then continues
// as [owner]. One goroutine steps and tells the events.
type worker struct {
	cfg    *Config
	client *kafka.Client
	replay *replay.Replayer
	member membership
	saver  *saver
	bases  *bases // nil if none are written
	// partitions are the partition counts of the output topics at the start: a key stays
	// in its partition while the worker runs, even if partitions are added.
	partitions map[string]int
	// newest is the ledger's last record when this worker began, nil for none. Later
	// windows must be of this worker's terms.
	newest *ledger.Record
	// begins is the epoch that this worker begins when it owns the graph, nil for none.
	// Until then it follows windows of other terms.
	begins *ledger.Beginning
	tried  tried
	// back says that this epoch may go back to terms that another epoch has left.
	back bool
	// committed is the last window known to be in the ledger. In a worker that follows
	// the ledger it is the one before next; an owner steps ahead of it.
	committed commitPoint

	elected bool // this worker, by the newest election
	// For the election, which reads them from another goroutine.
	owns    atomic.Bool
	stepped atomic.Int64 // next
}

// commitPoint is a window that is in the ledger, and the offset of its record or of
// an earlier one's; both are -1 for none.
type commitPoint struct{ window, offset int64 }

// newWorker returns a worker that has read the ledger's last record and
// nothing else.
func newWorker(ctx context.Context, c *kafka.Client, e replay.Engine, cfg Config) (*worker, error) {
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
	cfg.setDefaults()
	cfg.Events = replay.Join(logEvents(cfg.Logger), cfg.Events)
	w := &worker{cfg: &cfg, client: c, replay: replay.New(c, cfg.Replay(), e), committed: commitPoint{-1, -1}}
	if cfg.acceptGap {
		w.replay.Gap().Accept()
	}
	if w.newest = cfg.Newest; w.newest == nil {
		if w.newest, err = ledger.Newest(ctx, c, cfg.Terms.Names.LedgerAt()); err != nil {
			return nil, err
		}
	}
	if err := w.checkBegin(ctx); err != nil {
		return nil, err
	}
	if w.bases, err = newBases(ctx, w); err != nil {
		return nil, err
	}
	if w.saver, err = newSaver(ctx, c, w.cfg); err == nil {
		w.saver.bases = w.bases
	}
	return w, err
}

// checkBegin returns a [topics.GoneError] if the ledger is empty though a graph was served under
// its name.
func (w *worker) checkBegin(ctx context.Context) error {
	switch {
	case w.newest != nil && w.cfg.BeginAgain:
		w.cfg.Logger.Warn("the ledger is not empty, and this worker goes on from it: leave out --begin-again", "windows", w.newest.Window+1)
		return nil
	case w.newest != nil || w.cfg.BeginAgain || w.cfg.acceptGap:
		return nil
	}
	if err := topics.CheckLedger(ctx, w.client, w.cfg.Terms.Names); err != nil {
		return err
	}
	return cmp.Or(w.cfg.checkNoCheckpoint(), w.checkNoBase(ctx))
}

// Run joins the election, recovers meanwhile, and serves once it is the owner.
func (w *worker) Run(ctx context.Context, join func() (membership, error)) (err error) {
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	if w.member, err = join(); err != nil {
		return err
	}
	defer w.member.Leave()
	defer w.tried.stopLoading()
	if err := w.start(ctx, fetching); err != nil {
		return err
	}
	if err = w.standBy(ctx); err == nil {
		err = w.own(ctx)
	}
	err = ledger.Explain(ctx, w.client, w.cfg.Terms.Names.LedgerAt(), w.committed.window, err)
	w.member.Leave()             // another can take over while the last checkpoint is written
	var short *ledger.ShortError // of windows that this worker's state has
	w.saver.close(w, err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) || errors.As(err, &short))
	return err
}

// membership is a place in the elections of the graph's owner.
type membership interface {
	// Elected delivers the outcome of each election, see [kafka.Membership.Elected].
	Elected() <-chan kafka.Election
	// Leave gives up the place: another worker can be elected.
	Leave()
}

// join takes part in the election of the graph's owner: the member of the group that
// is assigned the ledger's partition.
func (w *worker) join() (membership, error) {
	return w.client.Join(kafka.MembershipConfig{
		Group: w.cfg.Terms.Names.Ledger, Topic: w.cfg.Terms.Names.Ledger, Session: w.cfg.Session, About: w.cfg.About,
		Standing: func() kafka.Standing { return kafka.Standing{Owner: w.owns.Load(), Progress: w.stepped.Load()} },
	})
}

// start compares this worker's terms with the ledger's, and begins at the newest
// checkpoint.
func (w *worker) start(ctx, fetching context.Context) error {
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
func (w *worker) open(ctx, fetching context.Context) error {
	err := w.replay.Restore(ctx, fetching)
	if err != nil {
		return err
	}
	w.committed = commitPoint{w.replay.Next() - 1, w.replay.Ledger.Last()}
	w.saver.newest = w.replay.Next()
	w.stepped.Store(w.replay.Next())
	if w.partitions, err = w.client.Partitions(ctx, w.cfg.Terms.Names.Predictions, w.cfg.Terms.Names.DeadLetters); err != nil {
		return err
	}
	return w.checkState()
}

// checkNoCheckpoint returns a [topics.GoneError] if there is a checkpoint of this graph though
// its ledger is empty.
func (c *Config) checkNoCheckpoint() error {
	list, err := c.Checkpoints.Find(c.Terms.Names.Own())
	if err != nil {
		return nil // of a folder that cannot be read, the start says so
	}
	for _, entry := range list {
		e, at, _, err := c.Checkpoints.Read(entry.Path)
		if err != nil {
			continue // damaged, or of other models: not what this worker would go on from
		}
		replay.Release(e)
		if slices.ContainsFunc(at.Consumed, func(g ledger.Range) bool { return g.Topic == c.Terms.Names.Nodes }) {
			return &topics.GoneError{
				Ledger: c.Terms.Names.Ledger,
				Found:  []string{fmt.Sprintf("a checkpoint of its first %d windows, %s", at.Window, entry.Path)},
			}
		}
	}
	return nil
}

// standBy follows the ledger, stepping the windows that the owner has committed,
// until this worker is elected and has reached the ledger's end.
func (w *worker) standBy(ctx context.Context) error {
	began, first := time.Now(), w.replay.Next()
	if w.newest != nil {
		w.cfg.Events(replay.Replaying{Windows: w.newest.Window + 1, Checkpoint: w.replay.Next()})
	}
	recovered := false
	for {
		select {
		case e := <-w.member.Elected():
			if err := w.noteElection(e); err != nil {
				return err
			}
		default:
		}
		next := w.replay.Ledger.Next // which asks for the end
		if recovered && !w.elected {
			w.followTrial(ctx)
			next = w.wait
		}
		r, err := next(ctx)
		if err != nil {
			return err
		}
		if r == nil {
			if !recovered {
				recovered = true
				w.cfg.Events(replay.Recovered{
					Engine: w.replay.Engine, Windows: w.replay.Next(), Checkpoint: first,
					Took: time.Since(began),
				})
			}
			w.cfg.Events(replay.Following{})
			if w.elected {
				return nil
			}
		} else if err := w.follow(ctx, r); err != nil {
			return err
		}
		select {
		case err := <-w.tried.loaded():
			if err := w.take(ctx, err); err != nil {
				return err
			}
		default:
		}
		if err := w.saver.poll(w); err != nil {
			return err
		}
	}
}

// wait waits briefly for the ledger's next record, and no longer once there is an election.
func (w *worker) wait(ctx context.Context) (r *ledger.Record, err error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		r, err = w.replay.Ledger.Wait(waiting)
	}()
	select {
	case <-over:
		return r, err
	case e := <-w.member.Elected():
		stop()
		if <-over; ctx.Err() == nil && errors.Is(err, waiting.Err()) {
			err = nil
		}
		return r, cmp.Or(w.noteElection(e), err)
	}
}

// noteElection takes note of who owns the graph.
func (w *worker) noteElection(e kafka.Election) error {
	if e.Err != nil {
		return e.Err
	}
	w.elected = e.Owner
	if !w.elected {
		w.cfg.Logger.Info("standing by: another worker owns this graph")
	}
	return nil
}

// follow steps a window of the ledger.
func (w *worker) follow(ctx context.Context, r *ledger.Record) error {
	w.cfg.Events(replay.Following{Behind: r.Stepped})
	if err := w.awaitModel(ctx, r.Model); err != nil {
		return err
	}
	if w.newest == nil || r.Window > w.newest.Window {
		if err := w.checkLater(ctx, r); err != nil {
			return err
		}
	}
	began := time.Now()
	out, err := w.replay.Step(ctx, r)
	if err != nil {
		return err
	}
	w.stepped.Store(w.replay.Next())
	w.cfg.Events(replay.Stepped{Outcome: out, Cause: r.Cause, Replayed: true, Trial: w.replay.Last().Trial, Took: time.Since(began)})
	w.replay.Inputs.Release()
	w.committed = commitPoint{r.Window, w.replay.Ledger.Last()}
	w.bases.followed(r, w.newest)
	return nil
}

// own makes this worker the owner, and serves until the context ends.
func (w *worker) own(ctx context.Context) error {
	began := time.Now()
	o, err := w.takeOver(ctx)
	if err != nil {
		return err
	}
	crash.Point(crash.Recovered)
	w.cfg.Logger.Info("serving: this worker owns the graph now", "windows", w.replay.Next(), "took",
		time.Since(began).Round(time.Millisecond))
	w.cfg.Events(replay.TookOver{Windows: w.replay.Next(), Took: time.Since(began)})
	return o.serve(ctx, o.loop)
}

// takeOver fences the former owner, and replays what it committed before.
func (w *worker) takeOver(ctx context.Context) (*owner, error) {
	crash.Point(crash.BeforeFence)
	producer, err := w.client.NewProducer(ctx, kafka.ProducerConfig{
		TransactionalID: w.cfg.Terms.Names.Own(),
		Topics: []string{
			w.cfg.Terms.Names.Predictions, w.cfg.Terms.Names.ToLabel,
			w.cfg.Terms.Names.DeadLetters, w.cfg.Terms.Names.Ledger,
		},
		TransactionTimeout:      w.cfg.Publishing.TransactionTimeout,
		LeastTransactionTimeout: w.cfg.Publishing.CommitInterval + time.Second,
		Compression:             w.cfg.Publishing.Compression,
	})
	if err != nil {
		return nil, err
	}
	crash.Point(crash.AfterFence)
	w.owns.Store(true)
	if err := w.followToEnd(ctx); err != nil {
		return nil, err
	}
	if !w.replay.Gap().Accepts() { // else it was looked for before
		if err := w.replay.CheckWhole(ctx); err != nil {
			return nil, err
		}
	}
	w.followTrial(ctx)
	return newOwner(w, producer), w.assignOwnRoles()
}

// followToEnd steps the windows that the former owner committed before it was fenced.
// From then on only this worker writes to the ledger.
func (w *worker) followToEnd(ctx context.Context) error {
	for {
		r, err := w.replay.Ledger.Next(ctx)
		if r == nil || err != nil {
			return err
		}
		if err := w.follow(ctx, r); err != nil {
			return err
		}
		if err := w.saver.poll(w); err != nil {
			return err
		}
	}
}
