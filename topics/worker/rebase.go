package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// Rebased is the result of [Rebase].
type Rebased struct {
	Epoch      int64  `json:"epoch"`         // in which the ledger is
	Began      bool   `json:"began"`         // Rebase began it
	Window     int64  `json:"first_window"`  // its first one, if Rebase began it
	Why        string `json:"why,omitempty"` // likewise
	ledger.Gap        // that was accepted, likewise
	// Checkpoint is the first window that was not in the checkpoint which the state came
	// from, 0 for none.
	Checkpoint int64         `json:"checkpoint,omitempty"`
	Took       time.Duration `json:"-"`
}

// Rebase begins the next epoch of a ledger, of the engine, settings and models of cfg,
// unless the ledger's end has these already. It replays the windows of the ledger with
// the cuts that they had, fences the owner, and commits a window without records, whose
// hashes are those of the new state. Nothing is published again. why, if not empty,
// says in the operator's words why the epoch begins.
//
// A worker that has Rebase in its Config does the same when it becomes the owner, and
// then serves.
func Rebase(ctx context.Context, c *kafka.Client, e replay.Engine, cfg Config, why string) (Rebased, error) {
	cfg.Rebase = true
	w, err := newWorker(ctx, c, e, cfg)
	if err != nil {
		return Rebased{}, err
	}
	return w.rebase(ctx, why)
}

// Restored begins an epoch, on the ledger's own terms, where the inputs are copies whose records have other offsets than the
// ledger says: its first record says which. If they have the same, it does nothing. It refuses while a worker is up.
func Restored(ctx context.Context, c *kafka.Client, e replay.Engine, cfg Config, why string) (Rebased, error) {
	if err := checkNoWorker(ctx, c, &cfg, "end them first"); err != nil {
		return Rebased{}, err
	}
	moves, err := ledger.ReadMoves(ctx, c, cfg.Terms.Names.LedgerAt())
	if err != nil {
		return Rebased{}, err
	}
	if cfg.moved, err = moves.FindMoved(ctx, c); err != nil || cfg.moved == nil {
		return Rebased{}, err
	}
	w, err := newWorker(ctx, c, e, cfg)
	if err != nil {
		return Rebased{}, err
	}
	w.begins = cfg.Terms.Beginning("the inputs are copies")
	w.begins.Moved = cfg.moved
	return w.rebase(ctx, why)
}

// checkNoWorker returns an error if workers of the ledger are up, with what to do.
func checkNoWorker(ctx context.Context, c *kafka.Client, cfg *Config, remedy string) error {
	members, err := c.Members(ctx, cfg.Terms.Names.Ledger, cfg.Terms.Names.Ledger)
	if err == nil && len(members) > 0 {
		err = fmt.Errorf("%d workers of ledger %s are up: %s", len(members), cfg.Terms.Names.Ledger, remedy)
	}
	return err
}

// rebase is Rebase, and [AcceptGap] if the worker may accept one.
func (w *worker) rebase(ctx context.Context, why string) (done Rebased, err error) {
	began := time.Now()
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	defer w.saver.unlock()
	defer func() {
		w.saver.close(w, err == nil)
		if err == nil && done.Some() {
			err = checkSaved(w.saver.newest, w.replay)
		}
	}()
	if w.newest == nil && !w.replay.Gap().Accepts() {
		return done, fmt.Errorf("ledger %s is empty: the first worker begins it with its own settings", w.cfg.Terms.Names.Ledger)
	}
	w.back = true
	if w.newest != nil {
		done.Epoch = w.newest.Epoch
	}
	if err := w.start(ctx, fetching); err != nil || w.begins == nil && !w.replay.Gap().Accepts() {
		return done, err
	}
	if w.newest == nil && w.replay.Next() == 0 {
		return done, fmt.Errorf("ledger %s is empty, and no checkpoint in %s is of it, this program's engine and these settings: give "+
			"--state-dir with one, of this worker or another", w.cfg.Terms.Names.Ledger, w.cfg.Checkpoints.Dir)
	}
	done.Checkpoint = w.replay.Next()
	if err := w.followToEnd(ctx); err != nil { // the owner serves meanwhile
		return done, err
	}
	w.cfg.Events(replay.Recovered{Engine: w.replay.Engine, Windows: w.replay.Next(), Checkpoint: done.Checkpoint, Took: time.Since(began)})
	var o *owner
	if w.replay.Gap().Accepts() {
		o, err = w.acceptGap(ctx, done.Checkpoint)
	} else {
		o, err = w.takeOver(ctx)
	}
	if err != nil {
		return done, err
	}
	if w.begins == nil {
		done.Epoch = w.replay.Last().Epoch
		return done, nil
	}
	if why != "" {
		w.begins.Why = why
	}
	done.Began, done.Window, done.Why, done.Gap = true, w.replay.Next(), w.begins.Why, w.begins.Gap
	err = o.serve(ctx, o.beginEpoch)
	// Brokers answer a commit before all readers see it: who starts now would find the epoch that was left.
	for r := (*ledger.Record)(nil); err == nil && (r == nil || r.Window < done.Window); {
		r, err = w.replay.Ledger.Wait(ctx)
	}
	done.Epoch, done.Took = w.replay.Last().Epoch, time.Since(began)
	return done, err
}

// checkEnd compares this worker's terms with those of the ledger's last record. If they
// differ, and the worker was told to, it prepares an epoch; otherwise it fails, at once
// instead of after the replay.
func (w *worker) checkEnd(ctx context.Context) error {
	if w.newest == nil {
		return nil
	}
	m, err := w.replay.Stretch().Compare(ctx, w.newest)
	switch {
	case m == nil || err != nil:
		return err
	case w.replay.Gap().Accepts():
		return fmt.Errorf("%s; a gap is accepted with the ledger's own terms", m.Line)
	case !w.cfg.Rebase:
		return errors.New(m.Line)
	case !w.back:
		if err := w.checkLeft(ctx); err != nil {
			return err
		}
	}
	w.begins = w.cfg.Terms.Beginning(m.Why)
	w.cfg.Logger.Info("the ledger has other terms, so an epoch will begin", "why", m.Why)
	return nil
}

// checkLeft returns an error if windows up to the newest were served on this worker's terms,
// and another epoch has left them. Otherwise two workers that both have Rebase, of a rolling
// update that is half done, would take the ledger from each other for ever. checkLater
// checks windows behind the newest, in which another worker of the same terms may have begun
// their epoch.
func (w *worker) checkLeft(ctx context.Context) error {
	own := make(map[string]bool) // by the settings of a record
	var left, after *ledger.Record
	past := replay.NewStretch(w.client, w.cfg.Replay().Terms)
	var wrong error
	err := ledger.Scan(ctx, w.client, w.cfg.Terms.Names.LedgerAt(), func(r *ledger.Record) bool {
		if r.Window > w.newest.Window {
			return false
		}
		same, known := own[r.Settings]
		if !known {
			if wrong = past.Read(ctx, &r.Terms); wrong != nil {
				return false
			}
			same = past.Settings().Own
			own[r.Settings] = same
		}
		if same && w.cfg.Terms.Has(r.Model) {
			left, after = r, nil
		} else if left != nil && r.Begins != nil {
			after = r
		}
		return true
	})
	if err = errors.Join(err, wrong); err != nil || left == nil {
		return err
	}
	if after == nil {
		return fmt.Errorf("ledger %s: model %s served up to window %d, and another was promoted: start with --model "+
			"for that one, or go back on purpose with 'gvbll rebase'", w.cfg.Terms.Names.Ledger, left.Model, left.Window)
	}
	return fmt.Errorf("ledger %s had these settings and this model up to window %d, and epoch %d left them (%.200q): "+
		"start with those of epoch %d, or go back on purpose with 'gvbll rebase'", w.cfg.Terms.Names.Ledger, left.Window,
		after.Epoch, after.Begins.Why, after.Epoch)
}

// checkLater checks a window that another worker served after this one began. If that
// began an epoch, a worker of the epoch's terms goes on, and any other ends.
func (w *worker) checkLater(ctx context.Context, r *ledger.Record) error {
	if r.Begins == nil && (w.begins != nil || w.cfg.Terms.Has(r.Model)) {
		return nil
	}
	m, err := w.replay.Stretch().Compare(ctx, r)
	switch {
	case err != nil:
		return err
	case m == nil:
		w.begins = nil
		return nil
	case r.Begins != nil:
		return fmt.Errorf("%s: epoch %d began at window %d, after this worker started", m.Line, r.Epoch, r.Window)
	}
	return errors.New(m.Line)
}

// beginEpoch steps a window without records, whose ledger record begins the epoch.
func (o *owner) beginEpoch(ctx context.Context) error {
	crash.Point(crash.BeforeEpoch)
	if err := o.advance(ctx, intake.Cut{Cause: "rebase"}, 0); err != nil {
		return err
	}
	o.worker.begins = nil
	o.cfg.Logger.Info("an epoch began", "epoch", o.replay.Last().Epoch, "window", o.replay.Next()-1)
	crash.Point(crash.InEpoch)
	return nil
}
