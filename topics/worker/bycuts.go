package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
)

// byCuts takes the windows of a shard from the cuts that a lead has written. Windows whose cuts are
// there are entered ahead, see [share].
type byCuts struct {
	replayer *replayer
	owner    *owner       // nil before the worker is one
	cuts     *ledger.Cuts // nil before the first window
	next     chan placedCut
	wake     chan time.Time
	ahead    []*windowAhead // entered and not stepped, the oldest first
	spare    []*windowAhead // memory of others
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

func newByCuts(p *replayer) source {
	return &byCuts{replayer: p, next: make(chan placedCut, aheadCuts), wake: make(chan time.Time, 1)}
}

// share returns the engine of the shard's worker.
func (s *byCuts) share() *share { return s.replayer.engine.(*share) }

// exclusions begins the newest run.
func (s *byCuts) exclusions(ctx context.Context) (x exclusions, err error) {
	e, p := s.share(), s.replayer
	if e.run, err = readRun(ctx, p.client, p.cfg.Terms.Names); err != nil {
		return x, err
	}
	e.at = e.run.position(p.cfg.Terms.Partition)
	return readForgotten(ctx, p, e.run.since)
}

// await waits, if the shard's ledger has no window of the run, until it has one or this worker
// owns the shard: then it sends from the first window on.
func (s *byCuts) await(ctx context.Context, elected func() (bool, error)) error {
	e, p := s.share(), s.replayer
	end, err := ledger.OpenEnd(ctx, p.client, p.cfg.Terms.ledgerAt())
	if err != nil {
		return err
	}
	r, err := ledger.Newest(ctx, p.client, p.cfg.Terms.ledgerAt())
	if err != nil {
		return err
	}
	if r == nil || r.Epoch >= e.run.epoch {
		return nil
	}
	p.cfg.Logger.Info("an epoch began: all shards replay the graph's windows together", "epoch", e.run.epoch, "windows", e.run.since)
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
		s.cuts, err = ledger.OpenCuts(ctx, s.replayer.client, s.replayer.cfg.Terms.Names.LedgerAt(0), s.share().place)
	}
	return err
}

// follow follows the chain of cuts: the window that the shard has committed must have been cut
// as it says.
func (s *byCuts) follow(ctx context.Context, r *ledger.Record) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	e, name, task := s.share(), s.replayer.cfg.Terms.Names.Ledger, s.replayer.cfg.Terms.Partition
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

func (s *byCuts) resume(ctx context.Context, o *owner) error {
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
func checkDone(ctx context.Context, p *replayer) error {
	c, err := ledger.NewestCut(ctx, p.client, p.cfg.Terms.Names.LedgerAt(0))
	if err != nil || c == nil || c.Done == nil || c.Done.Window < p.next {
		return err
	}
	r, err := ledger.Newest(ctx, p.client, p.cfg.Terms.ledgerAt())
	switch {
	case err != nil:
		return err
	case r != nil && r.Window >= c.Done.Window:
		return ErrOwned
	}
	return fmt.Errorf("ledger %s partition %d ends before window %d, and the cut of window %d says that all shards were done with window %d: the windows in between are lost: restore the topic from a backup or a mirror", p.cfg.Terms.Names.Ledger, p.cfg.Terms.Partition, p.next, c.Window, c.Done.Window)
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
func (s *byCuts) step(ctx context.Context) (<-chan time.Time, error) {
	if err := s.enterThose(ctx); err != nil || len(s.ahead) == 0 {
		return s.wake, err
	}
	s.wakeUp()
	return s.wake, s.stepOldest(ctx)
}

// enterThose enters the windows whose cuts are there and that may be entered. When a checkpoint is
// due it enters none ahead, since there is no snapshot of one that has entered and is not served.
func (s *byCuts) enterThose(ctx context.Context) error {
	for ctx.Err() == nil && s.share().mayEnter(!s.owner.saves()) {
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

// finish steps the windows that are entered: only then is there a snapshot.
func (s *byCuts) finish(ctx context.Context) error {
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
		return fmt.Errorf("ledger %s: epoch %d began at window %d, and partition %d ends before window %d: restore it from a backup or a mirror", p.cfg.Terms.Names.Ledger, share.run.epoch, share.run.since, p.cfg.Terms.Partition, c.Window)
	}
	if err := p.checkCut(ctx, c.Cut); err != nil {
		return err
	}
	stepped := p.inputs.PutAside()
	defer func() { p.inputs.TakeUp(stepped) }()
	p.noteClasses(c.Record())
	p.unstepped = true
	if err := p.inputs.Replay(ctx, c.Ranges); err != nil {
		return fmt.Errorf("ledger %s, window %d: %w", p.cfg.Terms.Names.Ledger, c.Window, err)
	}
	x := &windowAhead{}
	if last := len(s.spare) - 1; last >= 0 {
		x, s.spare = s.spare[last], s.spare[:last]
	}
	p.gatherTo(&x.window, c.Window)
	x.cut, x.claims = c.Cut, p.inputs.PutAside()
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
	s.replayer.inputs.TakeUp(x.claims)
	c := claimed{cause: x.cut.Cause, ranges: x.cut.Ranges, began: time.Now().Add(-x.took), window: &x.window, forgets: x.cut.Forgets}
	if x.cut.Begins != nil && x.cut.Window > 0 {
		c.begins, c.forgot = x.cut.Begins, forgottenAt(&s.replayer.excluded, x.cut.Window)
	}
	if err := s.owner.step(ctx, c); err != nil {
		return err
	}
	s.replayer.unstepped = len(s.ahead) > 0
	s.spare = append(s.spare, x)
	return nil
}

func (s *byCuts) acknowledged(ctx context.Context, window int64) error {
	return s.share().acknowledged(ctx, window)
}
