package worker

import (
	"context"
	"math"
	"time"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
)

// source says where an owner's windows end, and what must be there before they are replayed and
// committed.
type source interface {
	// exclusions returns the nodes that a replay from the ledger's beginning leaves out.
	exclusions(ctx context.Context) (exclusions, error)
	// await is called before the ledger is replayed, and waits until it can be, or until elected
	// reports that this worker is. Other workers take it for the owner from then on.
	await(ctx context.Context, elected func() (bool, error)) error
	// follow is called before a window of the ledger is stepped.
	follow(ctx context.Context, r *ledger.Record) error
	// resume is called once, between the replay of the ledger and the first step.
	resume(ctx context.Context, o *owner) error
	// step steps the windows that are there. It is called again after every fetch, and when
	// the channel delivers.
	step(ctx context.Context) (wake <-chan time.Time, err error)
	// finish is called instead of step when the owner ends. It steps what cannot be left.
	finish(ctx context.Context) error
	// acknowledged waits until a window and those before it may be committed. The publisher
	// calls it.
	acknowledged(ctx context.Context, window int64) error
}

// byPolicy cuts windows where the policy says.
type byPolicy struct {
	replay *replayer
	owner  *owner
	timer  *time.Timer
}

func newByPolicy(p *replayer) source {
	s := &byPolicy{replay: p, timer: time.NewTimer(0)}
	s.timer.Stop()
	return s
}

func (s *byPolicy) exclusions(ctx context.Context) (exclusions, error) {
	return s.replay.readExclusions(ctx, math.MaxInt64)
}

func (*byPolicy) await(context.Context, func() (bool, error)) error { return nil }

func (*byPolicy) follow(context.Context, *ledger.Record) error { return nil }

func (s *byPolicy) resume(_ context.Context, o *owner) error {
	s.owner = o
	s.replay.inputs.Resume(o.cfg.Policy, s.replay.next)
	return nil
}

func (s *byPolicy) step(ctx context.Context) (wake <-chan time.Time, err error) {
	o, in := s.owner, s.replay.inputs
	for {
		c := in.Cut(o.cfg.Policy, s.replay.next)
		if c.Cause == "" {
			if c.Within > 0 {
				s.timer.Reset(c.Within)
				wake = s.timer.C
			}
			return wake, nil
		}
		if c.Cause == intake.Lingered { // perhaps only while the window before was stepped
			if more, err := in.AddReady(time.Now()); more || err != nil {
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

func (*byPolicy) finish(context.Context) error { return nil }

func (*byPolicy) acknowledged(context.Context, int64) error { return nil }
