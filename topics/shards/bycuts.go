package shards

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/shards/cuts"
	"github.com/gvbll/gvbll/topics/worker"
)

// byCuts takes the windows of a shard from the cuts that a sequencer has written. Windows whose cuts are
// there are entered ahead, see [share].
type byCuts struct {
	replayer *replay.Replayer
	owner    *worker.Owner // nil before the worker is one
	cuts     *cuts.Cuts    // nil before the first window
	next     chan placedCut
	wake     chan time.Time
	ahead    []*windowAhead // entered and not stepped, the oldest first
}

// windowAhead is a window that is entered before earlier ones are stepped.
type windowAhead struct {
	cut    *cuts.Cut
	window event.Window
	claims intake.Claims
	took   time.Duration // the entering
}

// placedCut is a cut and the place behind it, or the error that ended reading.
type placedCut struct {
	*cuts.Cut
	place cuts.Place
	err   error
}

// aheadCuts bounds how many cuts are read ahead. A sequencer does not cut many windows ahead.
const aheadCuts = 16

func newByCuts(p *replay.Replayer) worker.Source {
	return &byCuts{replayer: p, next: make(chan placedCut, aheadCuts), wake: make(chan time.Time, 1)}
}

// share returns the engine of the shard's worker.
func (s *byCuts) share() *share { return s.replayer.Engine.(*share) }

// Exclusions begins the newest run.
func (s *byCuts) Exclusions(ctx context.Context) (x replay.Exclusions, err error) {
	e, p := s.share(), s.replayer
	if e.run, err = readRun(ctx, p.Client, p.Cfg.Terms.Names); err != nil {
		return x, err
	}
	e.at = e.run.position(p.Cfg.Terms.Partition)
	return readForgotten(ctx, p, e.run.since)
}

// Await waits, if the shard's ledger has no window of the run, until it has one or this worker
// owns the shard: then it sends from the first window on.
func (s *byCuts) Await(ctx context.Context, elected func() (bool, error)) error {
	e, p := s.share(), s.replayer
	end, err := ledger.OpenEnd(ctx, p.Client, p.Cfg.Terms.LedgerAt())
	if err != nil {
		return err
	}
	r, err := ledger.Newest(ctx, p.Client, p.Cfg.Terms.LedgerAt())
	if err != nil {
		return err
	}
	if r == nil || r.Epoch >= e.run.epoch {
		return nil
	}
	p.Cfg.Logger.Info("an epoch began: all shards replay the graph's windows together", "epoch", e.run.epoch, "windows", e.run.since)
	for r == nil || r.Epoch < e.run.epoch {
		if owns, err := elected(); owns || err != nil {
			e.live = err == nil // another owner would have to begin the replay again
			return err
		}
		if r, err = end.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open opens the cuts behind the last window that was stepped.
func (s *byCuts) open(ctx context.Context) (err error) {
	if s.cuts == nil {
		s.cuts, err = cuts.OpenCuts(ctx, s.replayer.Client, s.replayer.Cfg.Terms.Names.LedgerAt(0), s.share().place)
	}
	return err
}

// Follow follows the chain of cuts: the window that the shard has committed must have been cut
// as it says.
func (s *byCuts) Follow(ctx context.Context, r *ledger.Record) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	e, name, task := s.share(), s.replayer.Cfg.Terms.Names.Ledger, s.replayer.Cfg.Terms.Partition
	c, err := s.cuts.Next(ctx)
	switch {
	case err != nil:
		return err
	case c == nil:
		return fmt.Errorf("ledger %s: shard %d has committed window %d, and no cut of it is there: restore partition 0 from a backup or a mirror", name, task, r.Window)
	case e.run.check(c) != nil:
		return e.run.check(c)
	case c.Window != r.Window || c.Forgets != r.Forgets || !slices.Equal(c.Ranges, r.Ranges):
		return fmt.Errorf("ledger %s: shard %d has committed other records in window %d than the cut of window %d has: partition 0 or %d is of another graph", name, task, r.Window, c.Window, task)
	}
	e.place, e.forgets = s.cuts.Place(), c.Forgets
	return nil
}

// Check implements worker.Source. The sequencer compares the shards' ends with its cuts.
func (*byCuts) Check(context.Context) error { return nil }

func (s *byCuts) Resume(ctx context.Context, o *worker.Owner) error {
	s.owner = o
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := checkDone(ctx, s.replayer); err != nil {
		return err
	}
	e := s.share()
	e.live, e.meanwhile = true, func() error { return s.enterThose(ctx) }
	go s.read(ctx)
	return nil
}

// checkDone returns an error if a cut says that all shards were done with a window that this
// shard's part of the ledger does not have: its predictions are published. If it has the window by
// now, another worker has written it: this one was halted, and woken.
func checkDone(ctx context.Context, p *replay.Replayer) error {
	c, err := cuts.NewestCut(ctx, p.Client, p.Cfg.Terms.Names.LedgerAt(0))
	if err != nil || c == nil || c.Done == nil || c.Done.Window < p.Next {
		return err
	}
	r, err := ledger.Newest(ctx, p.Client, p.Cfg.Terms.LedgerAt())
	switch {
	case err != nil:
		return err
	case r != nil && r.Window >= c.Done.Window:
		return publish.ErrOwned
	}
	return fmt.Errorf("ledger %s partition %d ends before window %d, and the cut of window %d says that all shards were done with window %d: the windows in between are lost: restore the topic from a backup or a mirror", p.Cfg.Terms.Names.Ledger, p.Cfg.Terms.Partition, p.Next, c.Window, c.Done.Window)
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

// Step enters windows, and steps one, so that the owner's loop does what else there is in between.
func (s *byCuts) Step(ctx context.Context) (<-chan time.Time, error) {
	if err := s.enterThose(ctx); err != nil || len(s.ahead) == 0 {
		return s.wake, err
	}
	s.wakeUp()
	return s.wake, s.stepOldest(ctx)
}

// enterThose enters the windows whose cuts are there and that may be entered. When a checkpoint is
// due it enters none ahead, since there is no snapshot of one that has entered and is not served.
func (s *byCuts) enterThose(ctx context.Context) error {
	for ctx.Err() == nil && s.share().mayEnter(!s.owner.Saves()) {
		select {
		case c := <-s.next:
			if c.err != nil {
				return c.err
			}
			if err := s.enter(ctx, c); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// Finish steps the windows that are entered: only then is there a snapshot.
func (s *byCuts) Finish(ctx context.Context) error {
	for len(s.ahead) > 0 {
		if err := s.stepOldest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// enter claims the records of a cut, and enters their window. It may be called while another one
// is stepped.
func (s *byCuts) enter(ctx context.Context, c placedCut) error {
	began, share, p := time.Now(), s.share(), s.replayer
	if err := share.run.check(c.Cut); err != nil {
		return err
	}
	if c.Window < share.run.since {
		return fmt.Errorf("ledger %s: epoch %d began at window %d, and partition %d ends before window %d: restore it from a backup or a mirror", p.Cfg.Terms.Names.Ledger, share.run.epoch, share.run.since, p.Cfg.Terms.Partition, c.Window)
	}
	if err := checkCut(ctx, p, c.Cut); err != nil {
		return err
	}
	stepped := p.Inputs.PutAside()
	defer func() { p.Inputs.TakeUp(stepped) }()
	p.NoteClasses(c.Classes)
	p.Unstepped = true
	if err := p.Inputs.Replay(ctx, c.Ranges); err != nil {
		return fmt.Errorf("ledger %s, window %d: %w", p.Cfg.Terms.Names.Ledger, c.Window, err)
	}
	x := &windowAhead{cut: c.Cut}
	p.GatherTo(&x.window, c.Window)
	x.claims = p.Inputs.PutAside()
	s.ahead = append(s.ahead, x)
	share.place, share.forgets = c.place, c.Forgets
	err := share.enter(&x.window)
	x.took = time.Since(began)
	return err
}

// stepOldest steps the window that was entered first, and passes on its effects.
func (s *byCuts) stepOldest(ctx context.Context) error {
	x := s.ahead[0]
	s.ahead = slices.Delete(s.ahead, 0, 1)
	s.replayer.Inputs.TakeUp(x.claims)
	c := worker.Claimed{Cause: x.cut.Cause, Ranges: x.cut.Ranges, Began: time.Now().Add(-x.took), Window: &x.window, Forgets: x.cut.Forgets}
	if x.cut.Begins != nil && x.cut.Window > 0 {
		c.Begins, c.Forgot = x.cut.Begins, forgottenAt(&s.replayer.Excluded, x.cut.Window)
	}
	if err := s.owner.Step(ctx, c); err != nil {
		return err
	}
	s.replayer.Unstepped = len(s.ahead) > 0
	return nil
}

func (s *byCuts) Acknowledged(ctx context.Context, window int64) error {
	return s.share().acknowledged(ctx, window)
}
