package worker

import (
	"context"
	"time"

	"github.com/gvbll/gvbll/topics/intake"
)

// stepReady cuts windows where the policy says, and steps them, until it wants no more. The loop calls it
// again after every fetch, and when the channel delivers.
func (o *owner) stepReady(ctx context.Context) (wake <-chan time.Time, err error) {
	for {
		c := o.replay.Inputs.Cut(o.cfg.Policy, o.replay.Next())
		if c.Cause == "" {
			if c.Within > 0 {
				o.timer.Reset(c.Within)
				wake = o.timer.C
			}
			return wake, nil
		}
		if c.Cause == intake.Lingered { // perhaps only while the window before was stepped
			if more, err := o.replay.Inputs.AddReady(time.Now()); more || err != nil {
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
		if err := o.worker.saver.poll(o.worker); err != nil {
			return nil, err
		}
	}
}
