package worker

import (
	"context"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/replay"
)

// Forgetting takes the memory of a second engine. An owner that is killed in it, for this or
// for any other reason, leaves the command to the next owner, and without a bound they
// would all be killed. So the owner declines if the memory does not suffice, and notes each
// attempt in the ledger, in a window of its own that is committed before the replay begins.
// After [replay.MaxAttempts] the command is declined: it becomes a dead letter, and the graph is
// served again.

// verdict is an owner's decision on the commands to forget nodes that are held.
type verdict struct {
	obey     bool
	declined string // why not
}

// prepareForget is called before the window of a cut is claimed. If that is one of commands,
// it decides on those to forget nodes among all that are held. If they are to be obeyed, it
// steps a window that notes the attempt.
func (o *owner) prepareForget(ctx context.Context, c intake.Cut) (err error) {
	if !c.OfCommands() || !o.replay.Inputs.Commands.AnyHeld(replay.Forgets) {
		return nil
	}
	if o.forgets, err = o.decide(ctx); err != nil || !o.forgets.obey {
		return err
	}
	return o.advance(ctx, intake.Cut{Cause: "forget"}, o.replay.Last().Attempts+1)
}

// decide says whether nodes can be forgotten now.
func (o *owner) decide(ctx context.Context) (verdict, error) {
	possible, err := o.replay.Replayable(ctx)
	switch {
	case err != nil || !possible:
		return verdict{declined: replay.DeclinedGone}, err
	case o.replay.Last().Attempts >= replay.MaxAttempts:
		o.cfg.Logger.Warn("nodes are not forgotten: workers have ended in each attempt", "attempts", o.replay.Last().Attempts)
		return verdict{declined: replay.DeclinedAttempts}, nil
	case o.cfg.Models.Room != nil:
		if err := o.cfg.Models.Room(); err != nil {
			o.cfg.Logger.Warn("nodes are not forgotten: a second engine does not fit into the memory", "err", err)
			return verdict{declined: replay.DeclinedMemory}, nil
		}
	}
	return verdict{obey: true}, nil
}
