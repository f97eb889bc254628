package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
)

// source says where an owner's windows end.
type source interface {
	// replay is called before a window of the ledger is stepped.
	replay(ctx context.Context, w *worker, r *ledger.Record) error
	// resume is called once, between the replay of the ledger and the first window.
	resume(ctx context.Context, o *owner) error
	// step steps the windows that are there. It is called again after every fetch, and when
	// the channel delivers.
	step(ctx context.Context, o *owner) (wake <-chan time.Time, err error)
}

// byPolicy cuts windows where the policy says.
type byPolicy struct{ timer *time.Timer }

func newByPolicy() byPolicy {
	p := byPolicy{time.NewTimer(0)}
	p.timer.Stop()
	return p
}

func (byPolicy) replay(context.Context, *worker, *ledger.Record) error { return nil }

func (byPolicy) resume(_ context.Context, o *owner) error {
	o.inputs.Resume(o.cfg.Policy, o.next)
	return nil
}

func (p byPolicy) step(ctx context.Context, o *owner) (wake <-chan time.Time, err error) {
	for {
		c := o.inputs.Cut(o.cfg.Policy, o.next)
		if c.Cause == "" {
			if c.Within > 0 {
				p.timer.Reset(c.Within)
				wake = p.timer.C
			}
			return wake, nil
		}
		if c.Cause == intake.Lingered { // perhaps only while the window before was stepped
			if more, err := o.inputs.AddReady(time.Now()); more || err != nil {
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
		if err := o.saver.poll(o.worker); err != nil {
			return nil, err
		}
	}
}

// byCuts takes the windows of a shard from the cuts that a lead has written.
type byCuts struct {
	cuts *ledger.Cuts // nil before the first window
	next chan placedCut
	wake chan time.Time
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
func shareOf(w *worker) *share { return w.engine.(*share) }

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
	case c.Window != r.Window || !slices.Equal(c.Ranges, r.Ranges):
		return fmt.Errorf("ledger %s: shard %d has committed other records in window %d than the cut of window %d has: partition 0 or %d is of another graph", w.cfg.Names.Ledger, w.cfg.Task, r.Window, c.Window, w.cfg.Task)
	}
	shareOf(w).place = s.cuts.Place()
	return nil
}

func (s *byCuts) resume(ctx context.Context, o *owner) error {
	if err := s.open(ctx, o.worker); err != nil {
		return err
	}
	if err := checkDone(ctx, o.worker); err != nil {
		return err
	}
	shareOf(o.worker).live = true
	go s.read(ctx)
	return nil
}

// checkDone returns an error if a cut says that all shards were done with a window that this
// shard's part of the ledger does not have: its predictions are published.
func checkDone(ctx context.Context, w *worker) error {
	c, err := ledger.NewestCut(ctx, w.client, w.cfg.Names.LedgerAt(0))
	if err == nil && c != nil && c.Done != nil && c.Done.Window >= w.next {
		err = fmt.Errorf("ledger %s partition %d ends before window %d, and the cut of window %d says that all shards were done with window %d: the windows in between are lost: restore the topic from a backup or a mirror", w.cfg.Names.Ledger, w.cfg.Task, w.next, c.Window, c.Done.Window)
	}
	return err
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

// step steps one window, so that the owner's loop does what else there is in between.
func (s *byCuts) step(ctx context.Context, o *owner) (<-chan time.Time, error) {
	select {
	case c := <-s.next:
		if c.err != nil {
			return nil, c.err
		}
		if err := o.stepCut(ctx, c); err != nil {
			return nil, err
		}
		s.wakeUp()
	default:
	}
	return s.wake, nil
}

// stepCut claims the records of a cut, steps their window, and passes on its effects.
func (o *owner) stepCut(ctx context.Context, c placedCut) error {
	began := time.Now()
	r := c.Record()
	if err := o.checkCut(ctx, c.Cut); err != nil {
		return err
	}
	o.noteClasses(r)
	o.unstepped = true
	if err := o.inputs.Replay(ctx, c.Ranges); err != nil {
		return fmt.Errorf("ledger %s, window %d: %w", o.cfg.Names.Ledger, c.Window, err)
	}
	o.ranges = append(o.ranges[:0], c.Ranges...)
	shareOf(o.worker).place = c.place
	return o.stepOwn(ctx, c.Cause, began)
}
