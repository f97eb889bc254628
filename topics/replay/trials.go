package replay

import (
	"fmt"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
)

// TrialCommands returns the commands to try a model among the claimed records, valid until
// these are released.
func TrialCommands(in *intake.Inputs) (trials []event.Command) {
	commands, _ := in.Commands.Gather(nil, nil)
	for i := range commands {
		if commands[i].Name == event.Shadow {
			trials = append(trials, commands[i])
		}
	}
	return trials
}

// RefuseTrials refuses the commands to try other models than that of the trial, which may
// be nil.
func RefuseTrials(out *event.Outcome, commands []event.Command, trial *ledger.Trial) {
	for i := range commands {
		if c := &commands[i]; trial == nil || trial.Model != c.Model {
			out.Refused = append(out.Refused, event.Refusal{
				Origin: c.Origin, Reason: event.ImpossibleCommand,
				Detail: fmt.Sprintf("shadow %.40s: the owner's folder of models does not have it, or it cannot be "+
					"beside the model that serves, or another command came with it", c.Model),
			})
		}
	}
}

// agreeTrial compares the figures of a trial with those of a replay that has both models,
// and reports a promotion that was decided by the trial's rule as the outcome's. In windows that
// are replayed without nodes which they had, the figures differ by right: those of the ledger stay.
func (t *Terms) agreeTrial(before *ledger.Trial, r *ledger.Record, out *event.Outcome, differs bool) error {
	if r.Trial == nil {
		return nil
	}
	if r.Trial.Decided == ledger.Promoted && out.Promoted == "" {
		out.Promoted = r.Promoted
	}
	if before == nil || differs || !compares(r, out) {
		return nil
	}
	if got := before.Next(out.Compared); got != *r.Trial {
		return fmt.Errorf("ledger %s, window %d: replay compares the models by %+v where %+v was written: the inputs, "+
			"a model or the program differ from those that served it", t.Names.Ledger, r.Window, got, *r.Trial)
	}
	return nil
}

// compares reports whether the model of a record's trial was in the shadow in its window, and
// the outcome has both models.
func compares(r *ledger.Record, out *event.Outcome) bool {
	return r.Shadow != nil && r.Shadow.Model == r.Trial.Model && out.Shadow != nil && out.Shadow.Model == r.Trial.Model &&
		out.Model == r.Model
}
