package replay

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
)

// MaxAttempts is how often a replay without nodes is begun. More than one, because a worker
// may also be stopped by an upgrade, or with its machine.
const MaxAttempts = 3

// Codes of [ledger.Record.Declined].
const (
	DeclinedGone     = ""
	DeclinedMemory   = "memory"
	DeclinedAttempts = "attempts"
)

// WhyDeclined describes a code of [ledger.Record.Declined], with the remedy if there is one.
func WhyDeclined(code string) string {
	switch code {
	case DeclinedGone:
		return "the beginning of the inputs or of the ledger is gone, so they cannot be replayed without these nodes: " +
			"a departure (a node with a null value) removes the node, its edges and its pending label exactly; what " +
			"its label has taught decays with later ones"
	case DeclinedMemory:
		return "a second engine, to replay without these nodes, does not fit into the memory: raise its limit, and send the command again"
	case DeclinedAttempts:
		return "workers have ended " + strconv.Itoa(MaxAttempts) +
			" times while they replayed without these nodes: their logs say why; then send the command again"
	}
	return fmt.Sprintf("declined for the reason %.40q of a later version", code)
}

// Refuse adds commands to forget nodes to an outcome's refusals.
func Refuse(out *event.Outcome, commands []event.Command, declined string) {
	for i := range commands {
		out.Refused = append(out.Refused, event.Refusal{
			Origin: commands[i].Origin, Reason: event.ImpossibleCommand,
			Detail: "forget " + strconv.Itoa(len(commands[i].Nodes)) + " nodes: " + WhyDeclined(declined),
		})
	}
}

// NoteRecord notes the state after the window of a record, whether it begins an epoch behind a gap,
// and the attempts since the last window with commands. Step does it for windows that are replayed;
// an owner calls it with what it publishes.
func (p *Replayer) NoteRecord(r *ledger.Record) {
	before := p.last
	p.last = stateAfter(r)
	p.last.Attempts, p.last.behind = before.Attempts, before.behind
	if r.HasGap() {
		p.last.behind = r.Window
	}
	switch {
	case r.Attempt > 0:
		p.last.Attempts = r.Attempt
	case slices.ContainsFunc(r.Ranges, func(g ledger.Range) bool { return g.Topic == p.cfg.Terms.Names.Commands }):
		p.last.Attempts = 0
	}
}
