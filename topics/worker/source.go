package worker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
)

// source says where an owner's windows end.
type source interface {
	// begin is called before the first window of all is stepped. It returns the nodes that the
	// replay leaves out from its beginning.
	begin(ctx context.Context, w *worker) (exclusions, error)
	// await is called before the ledger is replayed. It waits until it can be.
	await(ctx context.Context, w *worker) error
	// replay is called before a window of the ledger is stepped.
	replay(ctx context.Context, w *worker, r *ledger.Record) error
	// resume is called once, between the replay of the ledger and the first window.
	resume(ctx context.Context, o *owner) error
	// step steps the windows that are there. It is called again after every fetch, and when
	// the channel delivers.
	step(ctx context.Context, o *owner) (wake <-chan time.Time, err error)
	// finish is called instead of step when the owner ends. It steps what cannot be left.
	finish(ctx context.Context, o *owner) error
	// acknowledged returns what waits until a window may be committed.
	acknowledged(w *worker) func(ctx context.Context, window int64) error
}

// byPolicy cuts windows where the policy says.
type byPolicy struct{ timer *time.Timer }

func newByPolicy() byPolicy {
	p := byPolicy{time.NewTimer(0)}
	p.timer.Stop()
	return p
}

func (byPolicy) begin(ctx context.Context, w *worker) (exclusions, error) {
	return w.replay.readExclusions(ctx, math.MaxInt64)
}

func (byPolicy) await(context.Context, *worker) error { return nil }

func (byPolicy) replay(context.Context, *worker, *ledger.Record) error { return nil }

func (byPolicy) resume(_ context.Context, o *owner) error {
	o.replay.inputs.Resume(o.cfg.Policy, o.replay.next)
	return nil
}

func (p byPolicy) step(ctx context.Context, o *owner) (wake <-chan time.Time, err error) {
	for {
		c := o.replay.inputs.Cut(o.cfg.Policy, o.replay.next)
		if c.Cause == "" {
			if c.Within > 0 {
				p.timer.Reset(c.Within)
				wake = p.timer.C
			}
			return wake, nil
		}
		if c.Cause == intake.Lingered { // perhaps only while the window before was stepped
			if more, err := o.replay.inputs.AddReady(time.Now()); more || err != nil {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		if err := o.prepareForget(ctx, c); err != nil {
			return nil, err
		}
		if err := o.advance(ctx, c); err != nil {
			return nil, err
		}
		if err := o.w.saver.poll(o.w); err != nil {
			return nil, err
		}
	}
}

func (byPolicy) finish(context.Context, *owner) error { return nil }

func (byPolicy) acknowledged(*worker) func(context.Context, int64) error {
	return func(context.Context, int64) error { return nil }
}

// byCuts takes the windows of a shard from the cuts that a lead has written. Windows whose cuts are
// there are entered ahead, see [share].
type byCuts struct {
	cuts  *ledger.Cuts // nil before the first window
	next  chan placedCut
	wake  chan time.Time
	ahead []*windowAhead // entered and not stepped, the oldest first
	spare []*windowAhead // memory of others
}

// windowAhead is a window that is entered before earlier ones are stepped.
type windowAhead struct {
	cut    *ledger.Cut
	window event.Window
	claims intake.Claims
	took   time.Duration // the entering
}

// placedCut is a cut and the place behind it, or the error that ended reading.
type placedCut struct {
	*ledger.Cut
	place ledger.Place
	err   error
}

// aheadCuts bounds how many cuts are read ahead. A lead does not cut many windows ahead.
const aheadCuts = 16

func newByCuts() *byCuts {
	return &byCuts{next: make(chan placedCut, aheadCuts), wake: make(chan time.Time, 1)}
}

// shareOf returns the engine of a shard's worker.
func shareOf(w *worker) *share { return w.replay.engine.(*share) }

// begin begins the newest run.
func (s *byCuts) begin(ctx context.Context, w *worker) (x exclusions, err error) {
	e := shareOf(w)
	if e.run, err = w.replay.readRun(ctx); err != nil {
		return x, err
	}
	e.at = e.run.position(w.cfg.Task)
	return w.replay.readForgotten(ctx, e.run.since)
}

// await waits, if the shard's ledger has no window of the run, until it has one or this worker
// owns the shard: then it sends from the first window on.
func (s *byCuts) await(ctx context.Context, w *worker) error {
	e := shareOf(w)
	end, err := ledger.OpenEnd(ctx, w.client, w.cfg.ledgerAt())
	if err != nil {
		return err
	}
	r, err := ledger.Newest(ctx, w.client, w.cfg.ledgerAt())
	if err != nil {
		return err
	}
	if r == nil || r.Epoch >= e.run.epoch {
		return nil
	}
	w.cfg.Logger.Info("an epoch began: all shards replay the graph's windows together", "epoch", e.run.epoch, "windows", e.run.since)
	for r == nil || r.Epoch < e.run.epoch {
		select {
		case x := <-w.member.Elected():
			if err := w.noteElection(x); err != nil {
				return err
			}
		default:
		}
		if w.elected {
			w.owns.Store(true) // another owner would have to begin the replay again
			e.live = true
			return nil
		}
		if r, err = end.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open opens the cuts behind the last window that was stepped.
func (s *byCuts) open(ctx context.Context, w *worker) (err error) {
	if s.cuts == nil {
		s.cuts, err = ledger.OpenCuts(ctx, w.client, w.cfg.Names.LedgerAt(0), shareOf(w).place)
	}
	return err
}

// replay follows the chain of cuts: the window that the shard has committed must have been cut
// as it says.
func (s *byCuts) replay(ctx context.Context, w *worker, r *ledger.Record) error {
	if err := s.open(ctx, w); err != nil {
		return err
	}
	c, err := s.cuts.Next(ctx)
	switch {
	case err != nil:
		return err
	case c == nil:
		return fmt.Errorf("ledger %s: shard %d has committed window %d, and no cut of it is there: restore partition 0 from a backup or a mirror", w.cfg.Names.Ledger, w.cfg.Task, r.Window)
	case shareOf(w).run.check(c) != nil:
		return shareOf(w).run.check(c)
	case c.Window != r.Window || c.Forgets != r.Forgets || !slices.Equal(c.Ranges, r.Ranges):
		return fmt.Errorf("ledger %s: shard %d has committed other records in window %d than the cut of window %d has: partition 0 or %d is of another graph", w.cfg.Names.Ledger, w.cfg.Task, r.Window, c.Window, w.cfg.Task)
	}
	shareOf(w).place, shareOf(w).forgets = s.cuts.Place(), c.Forgets
	return nil
}

func (s *byCuts) resume(ctx context.Context, o *owner) error {
	if err := s.open(ctx, o.w); err != nil {
		return err
	}
	if err := checkDone(ctx, o.w); err != nil {
		return err
	}
	share := shareOf(o.w)
	share.live, share.meanwhile = true, func() error { return s.enterThose(ctx, o) }
	go s.read(ctx)
	return nil
}

// checkDone returns an error if a cut says that all shards were done with a window that this
// shard's part of the ledger does not have: its predictions are published. If it has the window by
// now, another worker has written it: this one was halted, and woken.
func checkDone(ctx context.Context, w *worker) error {
	c, err := ledger.NewestCut(ctx, w.client, w.cfg.Names.LedgerAt(0))
	if err != nil || c == nil || c.Done == nil || c.Done.Window < w.replay.next {
		return err
	}
	r, err := ledger.Newest(ctx, w.client, w.cfg.ledgerAt())
	switch {
	case err != nil:
		return err
	case r != nil && r.Window >= c.Done.Window:
		return ErrOwned
	}
	return fmt.Errorf("ledger %s partition %d ends before window %d, and the cut of window %d says that all shards were done with window %d: the windows in between are lost: restore the topic from a backup or a mirror", w.cfg.Names.Ledger, w.cfg.Task, w.replay.next, c.Window, c.Done.Window)
}

// read reads cuts until the context ends.
func (s *byCuts) read(ctx context.Context) {
	for {
		c, err := s.cuts.Wait(ctx)
		if c == nil && err == nil {
			continue
		}
		select {
		case s.next <- placedCut{c, s.cuts.Place(), err}:
		case <-ctx.Done():
			return
		}
		s.wakeUp()
		if err != nil {
			return
		}
	}
}

func (s *byCuts) wakeUp() {
	select {
	case s.wake <- time.Now():
	default:
	}
}

// step enters windows, and steps one, so that the owner's loop does what else there is in between.
func (s *byCuts) step(ctx context.Context, o *owner) (<-chan time.Time, error) {
	if err := s.enterThose(ctx, o); err != nil || len(s.ahead) == 0 {
		return s.wake, err
	}
	s.wakeUp()
	return s.wake, s.stepOldest(ctx, o)
}

// enterThose enters the windows whose cuts are there and that may be entered. When a checkpoint is
// due it enters none ahead, since there is no snapshot of one that has entered and is not served.
func (s *byCuts) enterThose(ctx context.Context, o *owner) error {
	for ctx.Err() == nil && shareOf(o.w).mayEnter(!o.w.saver.due) {
		select {
		case c := <-s.next:
			if c.err != nil {
				return c.err
			}
			if err := s.enter(ctx, o, c); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// finish steps the windows that are entered: only then is there a snapshot.
func (s *byCuts) finish(ctx context.Context, o *owner) error {
	for len(s.ahead) > 0 {
		if err := s.stepOldest(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// enter claims the records of a cut, and enters their window. It may be called while another one
// is stepped.
func (s *byCuts) enter(ctx context.Context, o *owner, c placedCut) error {
	began, share := time.Now(), shareOf(o.w)
	if err := share.run.check(c.Cut); err != nil {
		return err
	}
	if c.Window < share.run.since {
		return fmt.Errorf("ledger %s: epoch %d began at window %d, and partition %d ends before window %d: restore it from a backup or a mirror", o.cfg.Names.Ledger, share.run.epoch, share.run.since, o.cfg.Task, c.Window)
	}
	if err := o.replay.checkCut(ctx, c.Cut); err != nil {
		return err
	}
	stepped := o.replay.inputs.PutAside()
	defer func() { o.replay.inputs.TakeUp(stepped) }()
	o.replay.noteClasses(c.Record())
	o.replay.unstepped = true
	if err := o.replay.inputs.Replay(ctx, c.Ranges); err != nil {
		return fmt.Errorf("ledger %s, window %d: %w", o.cfg.Names.Ledger, c.Window, err)
	}
	x := &windowAhead{}
	if last := len(s.spare) - 1; last >= 0 {
		x, s.spare = s.spare[last], s.spare[:last]
	}
	o.replay.gatherTo(&x.window, c.Window)
	x.cut, x.claims = c.Cut, o.replay.inputs.PutAside()
	s.ahead = append(s.ahead, x)
	share.place, share.forgets = c.place, c.Forgets
	err := share.enter(&x.window)
	x.took = time.Since(began)
	return err
}

// stepOldest steps the window that was entered first, and passes on its effects.
func (s *byCuts) stepOldest(ctx context.Context, o *owner) error {
	x := s.ahead[0]
	s.ahead = slices.Delete(s.ahead, 0, 1)
	o.replay.inputs.TakeUp(x.claims)
	o.replay.gathered, o.ranges, o.ends = &x.window, append(o.ranges[:0], x.cut.Ranges...), x.cut.Forgets
	if x.cut.Begins != nil && x.cut.Window > 0 {
		o.w.begins, o.forgot = x.cut.Begins, o.replay.excluded.forgottenAt(x.cut.Window)
		defer func() { o.w.begins, o.forgot = nil, nil }()
	}
	if err := o.stepOwn(ctx, x.cut.Cause, time.Now().Add(-x.took)); err != nil {
		return err
	}
	o.replay.unstepped = len(s.ahead) > 0
	s.spare = append(s.spare, x)
	return nil
}

func (s *byCuts) acknowledged(w *worker) func(context.Context, int64) error {
	return shareOf(w).acknowledged
}
