package shards

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/shards/cuts"
	"github.com/gvbll/gvbll/topics/shards/exchange"
	"github.com/gvbll/gvbll/topics/worker"
)

// sequencer is task 0 of a sharded graph. Its own loop cuts windows: it asks the policy as the owner of
// a whole graph does, writes the cut to the ledger and reads it back before it goes on. A trainer
// in a goroutine of its own learns the windows that were cut, see trainer.
//
// A sequencer that stands by follows the cuts, so that its inputs stand where the next window begins.
// Nothing fences a sequencer. One that was replaced and does not know it may still write a cut; then
// two sequencers have cut one window, and the first cut in the log counts for everybody. The sequencer
// whose cut is not taken gives up its task: its inputs are ahead of the graph.
type sequencer struct {
	sharded  *Config
	client   *kafka.Client
	seat     worker.Membership
	caughtUp func()
	cfg      *worker.Config

	inputs  *intake.Inputs
	cuts    *cuts.Cuts
	done    *cuts.Done
	terms   *replay.Replayer // compares the terms of cuts
	known   *cuts.Complete   // the newest complete window that a cut names
	ranges  []ledger.Range   // of the current cut; reused
	trainer *trainer
	epoch   run
	// joint says that the shards replay the windows before the run began. Then the heads of
	// these windows are to be sent before the end of the cuts is reached.
	joint   bool
	elected bool // this worker, by the newest election
	ends    bool // the next cut begins an epoch

	owns    atomic.Bool
	learned atomic.Pointer[trainer] // for the other goroutines
}

func newSequencer(cfg *Config, c *kafka.Client, seat worker.Membership, caughtUp func()) *sequencer {
	own := cfg.config(0)
	own.Events = replay.Serial(replay.Join(worker.LogEvents(own.Logger), own.Events)) // the trainer calls them too
	return &sequencer{sharded: cfg, client: c, seat: seat, caughtUp: caughtUp, cfg: &own, terms: replay.New(c, own.Replay(), nil)}
}

// standing implements taskLoop: progress is what was learned.
func (l *sequencer) standing() kafka.Standing {
	s := kafka.Standing{Owner: l.owns.Load()}
	if k := l.learned.Load(); k != nil {
		s.Progress = k.learned.Load()
	}
	return s
}

// missing implements taskLoop.
func (l *sequencer) missing() *exchange.Missing {
	if k := l.learned.Load(); k != nil {
		return k.rows.Load().Missing()
	}
	return nil
}

// run implements taskLoop.
func (l *sequencer) run(ctx context.Context) (err error) {
	defer l.owns.Store(false)
	fetching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	at, err := l.open(ctx, fetching)
	if err != nil {
		return err
	}
	l.learned.Store(l.trainer)
	go l.trainer.run(fetching)
	if err = l.standBy(ctx, at); err == nil {
		err = l.cutWindows(ctx)
	}
	l.seat.Leave() // another can take over while the last checkpoint is written
	stop(err)
	if learning := l.trainer.close(err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err())); err == nil || errors.Is(err, errTrainer) {
		err = learning
	}
	return err
}

// open begins at the newest checkpoint, or at the beginning, and returns the number of the next
// cut.
func (l *sequencer) open(ctx, fetching context.Context) (at trainerPosition, err error) {
	if l.cfg.Checkpoints.Since, err = readSince(ctx, l.client, l.cfg.Terms.Names); err != nil {
		return at, err
	}
	if l.trainer, at, err = openTrainer(ctx, l); err != nil {
		return at, err
	}
	defer func() {
		if err != nil { // the task may be given to this worker again
			l.trainer.release()
		}
	}()
	if l.cuts, err = cuts.OpenCuts(ctx, l.client, l.cfg.Terms.Names.LedgerAt(0), at.Cuts); err != nil {
		return at, err
	}
	l.known = at.Done
	l.inputs, err = intake.Open(fetching, l.client, l.terms.Intake(), at.Position)
	return at, err
}

// standBy follows the cuts until this worker is elected and has reached their end.
func (l *sequencer) standBy(ctx context.Context, at trainerPosition) error {
	reached, began, first := false, time.Now(), at.Window
	for {
		select {
		case e := <-l.seat.Elected():
			if err := l.noteElection(e); err != nil {
				return err
			}
		case <-l.trainer.ended:
			return errTrainer
		default:
		}
		c, err := l.cuts.Next(ctx)
		if err == nil && c == nil {
			if !reached {
				reached = true
				l.cfg.Events(replay.Recovered{Windows: l.cuts.Place().Window, Checkpoint: first, Took: time.Since(began)})
			}
			if l.elected {
				return nil
			}
			if l.trainer.learned.Load() >= l.cuts.Place().Window {
				l.caughtUp()
			}
			c, err = l.cuts.Wait(ctx)
		}
		if err != nil {
			return err
		}
		if c != nil {
			if err := l.follow(ctx, c); err != nil {
				return err
			}
		}
	}
}

// noteElection takes note of who owns the task.
func (l *sequencer) noteElection(e kafka.Election) error {
	l.elected = e.Err == nil && e.Owns(0)
	switch {
	case e.Err != nil:
		return e.Err
	case l.elected && l.joint:
		l.goLive()
	case !l.elected && l.owns.Load():
		return publish.ErrOwned
	}
	return nil
}

// goLive lets the trainer send heads that nobody has sent.
func (l *sequencer) goLive() {
	if l.owns.CompareAndSwap(false, true) {
		close(l.trainer.live)
	}
}

// follow takes a cut that another sequencer has written.
func (l *sequencer) follow(ctx context.Context, c *cuts.Cut) error {
	if err := l.epoch.check(c); err != nil {
		return err
	}
	if c.Window >= l.epoch.since {
		if err := checkCut(ctx, l.terms, c); err != nil {
			return err
		}
	}
	l.ends = c.Forgets
	if c.Done != nil {
		l.known = c.Done
	}
	if err := l.inputs.Replay(ctx, c.Ranges); err != nil {
		return fmt.Errorf("ledger %s, window %d: %w", l.cfg.Terms.Names.Ledger, c.Window, err)
	}
	l.inputs.Release()
	return l.handOver(ctx)
}

// errTrainer says that the trainer has ended, which says why itself.
var errTrainer = errors.New("the trainer has ended")

// handOver passes the window that was cut last to the trainer.
func (l *sequencer) handOver(ctx context.Context) error {
	c := cutWindow{place: l.cuts.Place(), inputs: l.inputs.Position(), settings: l.terms.SettingsToWrite().All, done: l.known}
	for {
		select {
		case l.trainer.cut <- c:
			return nil
		case e := <-l.seat.Elected(): // the trainer may wait for what this sequencer is to send
			if err := l.noteElection(e); err != nil {
				return err
			}
		case <-l.trainer.ended:
			return errTrainer
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// cutWindows cuts windows until the context ends or another worker is elected.
func (l *sequencer) cutWindows(ctx context.Context) error {
	began := time.Now()
	if err := l.checkEnd(ctx); err != nil {
		return err
	}
	cutter, err := cuts.NewCutter(ctx, l.cuts)
	if err != nil {
		return err
	}
	l.goLive()
	if l.done, err = cuts.OpenDone(ctx, l.client, l.cfg.Terms.Names.Ledger, l.sharded.shards, l.known); err != nil {
		return err
	}
	next := l.cuts.Place().Window
	l.cfg.Logger.Info("serving: this worker cuts the graph's windows now", "windows", next, "took", time.Since(began).Round(time.Millisecond))
	l.cfg.Events(replay.TookOver{Windows: next, Took: time.Since(began)})
	following, stop := context.WithCancel(ctx)
	defer stop()
	progress, failed := make(chan struct{}, 1), make(chan error, 1)
	go l.followDone(following, progress, failed)
	l.inputs.Resume(l.cfg.Policy, next)
	timer := time.NewTimer(0)
	defer timer.Stop()
	lag := time.NewTicker(worker.LagEvery)
	defer lag.Stop()
	for {
		within, err := l.cutAll(ctx, cutter)
		if err != nil {
			return err
		}
		var wake <-chan time.Time
		if within > 0 {
			timer.Reset(within)
			wake = timer.C
		}
		select {
		case f := <-l.inputs.Nodes.Ready():
			err = l.inputs.Nodes.Add(f, time.Now())
		case f := <-l.inputs.Labels.Ready():
			err = l.inputs.Labels.Add(f, time.Now())
		case f := <-l.inputs.Commands.Ready():
			err = l.inputs.Commands.Add(f, time.Now())
		case e := <-l.seat.Elected():
			err = l.noteElection(e)
		case <-progress:
		case <-l.trainer.progress:
		case err = <-failed:
		case <-l.trainer.ended:
			return errTrainer
		case <-lag.C:
			replay.ReportLag(l.inputs, l.cfg.Events)
		case <-wake:
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// checkEnd returns an error if a shard has committed a window of which there is no cut: to cut it
// once more would be to cut it otherwise.
func (l *sequencer) checkEnd(ctx context.Context) error {
	newest, errs := make([]*ledger.Record, l.sharded.shards), make([]error, l.sharded.shards)
	var all sync.WaitGroup
	for i := range newest {
		all.Go(func() { newest[i], errs[i] = ledger.Newest(ctx, l.client, l.cfg.Terms.Names.LedgerAt(i+1)) })
	}
	all.Wait()
	if err := cmp.Or(errs...); err != nil { // one line
		return err
	}
	last, shard := int64(-1), 0
	for i, r := range newest {
		if r != nil && r.Window > last {
			last, shard = r.Window, i+1
		}
	}
	for { // what was cut before that
		c, err := l.cuts.Next(ctx)
		if err != nil {
			return err
		}
		if c == nil {
			break
		}
		if err := l.follow(ctx, c); err != nil {
			return err
		}
	}
	if next := l.cuts.Place().Window; last >= next {
		return fmt.Errorf("ledger %s partition 0 ends before window %d, and shard %d has committed window %d: the cuts in between are lost: restore the topic from a backup or a mirror", l.cfg.Terms.Names.Ledger, next, shard, last)
	}
	return nil
}

// followDone reads what the shards commit until the context ends.
func (l *sequencer) followDone(ctx context.Context, progress chan<- struct{}, failed chan<- error) {
	for {
		if err := l.done.Wait(ctx); err != nil {
			failed <- err
			return
		}
		select {
		case progress <- struct{}{}:
		default:
		}
	}
}

// cutAll cuts windows until the policy wants no more, or the shards are too far behind. It returns
// the time after which to ask the policy again, 0 for after the next fetch.
func (l *sequencer) cutAll(ctx context.Context, cutter *cuts.Cutter) (time.Duration, error) {
	for ctx.Err() == nil {
		window := l.cuts.Place().Window
		if l.ends {
			if slices.Min(l.done.Last()) < window-1 || l.trainer.learned.Load() < window {
				return 0, nil
			}
			return 0, l.beginEpoch(ctx, cutter)
		}
		// Shards that have sent the rows of a window are done with it before they commit it.
		done := max(slices.Min(l.done.Last()), l.trainer.learned.Load()-1)
		if window-1-done >= l.sharded.Depth {
			return 0, nil
		}
		c := l.inputs.Cut(l.cfg.Policy, window)
		if c.Cause == "" {
			return c.Within, nil
		}
		if err := l.write(ctx, cutter, c); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// write claims the records of a window and writes its cut.
func (l *sequencer) write(ctx context.Context, cutter *cuts.Cutter, c intake.Cut) error {
	l.ranges = l.inputs.Claim(c, l.ranges[:0])
	cut := l.newCut(c.Cause)
	var err error
	if cut.Ranges = l.ranges; c.OfCommands() {
		if cut.Forgets, err = l.obeysForget(ctx); err != nil {
			return err
		}
	}
	if cut.Window == 0 {
		l.begins(cut, "the ledger begins")
		cut.Graph = rand.Text()
	}
	if err := l.append(ctx, cutter, cut); err != nil {
		return err
	}
	l.inputs.Release()
	l.ends = cut.Forgets
	return l.handOver(ctx)
}

// newCut returns a cut of the next window, without records.
func (l *sequencer) newCut(cause string) *cuts.Cut {
	if d := l.done.Complete(); d != nil {
		l.known = d
	}
	return &cuts.Cut{
		Window: l.cuts.Place().Window, Cause: cause, Ranges: []ledger.Range{}, Model: l.cfg.Terms.Model, Terms: ledger.Terms{Settings: l.terms.SettingsToWrite().Hash}, Done: l.known,
	}
}

// begins makes a cut the first of an epoch.
func (l *sequencer) begins(cut *cuts.Cut, why string) {
	cut.Configuration, cut.Classes, cut.Inputs = l.terms.SettingsToWrite().All, l.cfg.Terms.Classes, l.inputs.Begins()
	cut.Begins = l.cfg.Terms.Beginning(why)
}

// append appends a cut to the log. It returns an error if that is not the one that was taken.
func (l *sequencer) append(ctx context.Context, cutter *cuts.Cutter, cut *cuts.Cut) error {
	taken, err := cutter.Cut(ctx, cut)
	if err == nil && taken.Hash != cut.Hash {
		err = fmt.Errorf("%w: window %d was cut by it first", publish.ErrOwned, taken.Window)
	}
	return err
}

// obeysForget reports whether there are commands to forget nodes among the claimed ones, and
// these can be obeyed: all windows can be replayed.
func (l *sequencer) obeysForget(ctx context.Context) (bool, error) {
	commands, _ := l.inputs.Commands.Gather(nil, nil)
	if !slices.ContainsFunc(commands, func(c event.Command) bool { return replay.Forgets(&c) }) {
		return false, nil
	}
	return l.terms.BeginningsThere(ctx)
}

// beginEpoch writes a cut that begins an epoch. All shards have committed the windows before, and
// nothing of the exchange up to here is needed any more.
func (l *sequencer) beginEpoch(ctx context.Context, cutter *cuts.Cutter) error {
	crash.Point(crash.BeforeEpoch)
	ends, err := l.client.Offsets(ctx, l.cfg.Terms.Names.Exchange)
	if err != nil {
		return err
	}
	cut := l.newCut("forget")
	l.begins(cut, "nodes are forgotten")
	cut.Exchange = make([]int64, l.sharded.shards+2)
	for at, b := range ends {
		if int(at.Partition) < len(cut.Exchange) {
			cut.Exchange[at.Partition] = b.End
		}
	}
	if err := l.append(ctx, cutter, cut); err != nil {
		return err
	}
	crash.Point(crash.InEpoch)
	return &epochError{cut.Epoch, cut.Window}
}

// Trainer learns for the shards of a graph.
type Trainer interface {
	// Learn learns the labels of the next window from the rows of all shards, in their order,
	// and returns the heads, nil if no label was learned. The outcome, which has labels and
	// scores and no predictions, is valid until the next Learn begins, and so are the heads.
	Learn(window int64, rows [][]byte) (out *event.Outcome, heads []byte, err error)
	// Err is as in [replay.Engine].
	Err() error
	// Snapshot is as in [replay.Keeper].
	Snapshot(meta map[string]string) replay.Snapshot
}
