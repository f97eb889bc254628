package worker

import (
	"context"
	"time"
)

// source says where an owner's windows end.
type source interface {
	// resume is called once, between the replay of the ledger and the first window.
	resume(o *owner)
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

func (p byPolicy) resume(o *owner) { o.inputs.Resume(o.cfg.Policy, o.next) }

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
