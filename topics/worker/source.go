package worker

import (
	"context"
	"math"
	"time"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// Source says where an owner's windows end, and what must be there before they are replayed and
// committed.
type Source interface {
	// Exclusions returns the nodes that a replay from the ledger's beginning leaves out.
	Exclusions(ctx context.Context) (replay.Exclusions, error)
	// Await is called before the ledger is replayed, and waits until it can be, or until elected
	// reports that this worker is. Other workers take it for the owner from then on.
	Await(ctx context.Context, elected func() (bool, error)) error
	// Follow is called before a window of the ledger is stepped.
	Follow(ctx context.Context, r *ledger.Record) error
	// Check is called when this worker is the owner and has replayed the ledger. It returns a
	// [ledger.ShortError] if the ledger had more windows.
	Check(ctx context.Context) error
	// Resume is called once, between the replay of the ledger and the first step.
	Resume(ctx context.Context, o *Owner) error
	// Step steps the windows that are there. It is called again after every fetch, and when
	// the channel delivers.
	Step(ctx context.Context) (wake <-chan time.Time, err error)
	// Finish is called instead of step when the owner ends. It steps what cannot be left.
	Finish(ctx context.Context) error
	// Acknowledged waits until a window and those before it may be committed. The publisher
	// calls it.
	Acknowledged(ctx context.Context, window int64) error
}

// byPolicy cuts windows where the policy says.
type byPolicy struct {
	replay *replay.Replayer
	owner  *Owner
	timer  *time.Timer
}

func newByPolicy(p *replay.Replayer) Source {
	s := &byPolicy{replay: p, timer: time.NewTimer(0)}
	s.timer.Stop()
	return s
}

func (s *byPolicy) Exclusions(ctx context.Context) (replay.Exclusions, error) {
	return s.replay.ReadExclusions(ctx, math.MaxInt64)
}

func (*byPolicy) Await(context.Context, func() (bool, error)) error { return nil }

func (*byPolicy) Follow(context.Context, *ledger.Record) error { return nil }

// Check implements Source. A gap that is accepted is looked for before.
func (s *byPolicy) Check(ctx context.Context) error {
	if s.replay.AcceptGap {
		return nil
	}
	return s.replay.CheckWhole(ctx)
}

func (s *byPolicy) Resume(_ context.Context, o *Owner) error {
	s.owner = o
	s.replay.Inputs.Resume(o.cfg.Policy, s.replay.Next)
	return nil
}

func (s *byPolicy) Step(ctx context.Context) (wake <-chan time.Time, err error) {
	o, in := s.owner, s.replay.Inputs
	for {
		c := in.Cut(o.cfg.Policy, s.replay.Next)
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
		if err := o.advance(ctx, c, 0); err != nil {
			return nil, err
		}
		if err := o.worker.Saver.Poll(o.worker); err != nil {
			return nil, err
		}
	}
}

func (*byPolicy) Finish(context.Context) error { return nil }

func (*byPolicy) Acknowledged(context.Context, int64) error { return nil }
