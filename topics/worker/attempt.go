package worker

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Forgetting takes the memory of a second engine. An owner that is killed in it, for this or
// for any other reason, leaves the command to the next owner, and without a bound they
// would all be killed. So the owner declines if the memory does not suffice, and notes each
// attempt in the ledger, in a window of its own that is committed before the replay begins.
// After maxAttempts the command is declined: it becomes a dead letter, and the graph is
// served again.

// maxAttempts is how often a replay without nodes is begun. More than one, because a worker
// may also be stopped by an upgrade, or with its machine.
const maxAttempts = 3

// Codes of [ledger.Record.Declined].
const (
	declinedGone     = ""
	declinedMemory   = "memory"
	declinedAttempts = "attempts"
)

// WhyDeclined describes a code of [ledger.Record.Declined], with the remedy if there is one.
func WhyDeclined(code string) string {
	switch code {
	case declinedGone:
		return "the beginning of the inputs or of the ledger is gone, so they cannot be replayed without these nodes"
	case declinedMemory:
		return "a second engine, to replay without these nodes, does not fit into the memory: raise its limit, and send the command again"
	case declinedAttempts:
		return "workers have ended " + strconv.Itoa(maxAttempts) + " times while they replayed without these nodes: their logs say why; then send the command again"
	}
	return fmt.Sprintf("declined for the reason %.40q of a later version", code)
}

// refuse adds commands to forget nodes to an outcome's refusals.
func refuse(out *event.Outcome, commands []event.Command, declined string) {
	for i := range commands {
		out.Refused = append(out.Refused, event.Refusal{
			Origin: commands[i].Origin, Reason: event.ImpossibleCommand,
			Detail: "forget " + strconv.Itoa(len(commands[i].Nodes)) + " nodes: " + WhyDeclined(declined),
		})
	}
}

// verdict is an owner's decision on the commands to forget nodes that are held.
type verdict struct {
	obey     bool
	declined string // why not
}

// prepareForget is called before the window of a cut is claimed. If that is one of commands,
// it decides on those to forget nodes among all that are held. If they are to be obeyed, it
// steps a window that notes the attempt.
func (o *owner) prepareForget(ctx context.Context, c intake.Cut) (err error) {
	if !c.OfCommands() || !o.replay.inputs.Commands.AnyHeld(forgets) {
		return nil
	}
	if o.forgets, err = o.decide(ctx); err != nil || !o.forgets.obey {
		return err
	}
	return o.advanceNoting(ctx, intake.Cut{Cause: "forget"}, o.replay.attempts+1)
}

// decide says whether nodes can be forgotten now.
func (o *owner) decide(ctx context.Context) (verdict, error) {
	possible, err := o.replay.replayable(ctx)
	switch {
	case err != nil || !possible:
		return verdict{declined: declinedGone}, err
	case o.replay.attempts >= maxAttempts:
		o.cfg.Logger.Warn("nodes are not forgotten: workers have ended in each attempt", "attempts", o.replay.attempts)
		return verdict{declined: declinedAttempts}, nil
	case o.cfg.Models.Room != nil:
		if err := o.cfg.Models.Room(); err != nil {
			o.cfg.Logger.Warn("nodes are not forgotten: a second engine does not fit into the memory", "err", err)
			return verdict{declined: declinedMemory}, nil
		}
	}
	return verdict{obey: true}, nil
}

// noteAttempts counts the attempts since the last window with commands.
func (p *replayer) noteAttempts(r *ledger.Record) {
	switch {
	case r.Attempt > 0:
		p.attempts = r.Attempt
	case slices.ContainsFunc(r.Ranges, func(g ledger.Range) bool { return g.Topic == p.cfg.Terms.Names.Commands }):
		p.attempts = 0
	}
}
