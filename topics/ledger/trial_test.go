package ledger

import (
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TestTrialIsDecidedOnce: a rule looks at the lead once, when the labels are enough, and
// decides. A trial without a rule, or that is decided, only goes on counting.
func TestTrialIsDecidedOnce(t *testing.T) {
	step := event.Comparison{Labels: 40, Lead: -1}
	trial := Trial{Model: "m", Rule: "after=100,if=nll"}
	for i, want := range []Trial{
		{"m", "after=100,if=nll", 40, -1, ""},
		{"m", "after=100,if=nll", 80, -2, ""},
		{"m", "", 120, -3, Kept},
		{"m", "", 160, -4, ""},
	} {
		if trial = trial.Next(step); trial != want {
			t.Errorf("step %d: %+v, want %+v", i, trial, want)
		}
	}
	better := Trial{Model: "m", Rule: "after=1,if=nll", Lead: 1.5}.Next(event.Comparison{Labels: 1, Lead: -1})
	if better.Decided != Promoted || better.Decision() != "model m is promoted: on the same 1 labels its NLL is 0.5000 lower than that of the model that serves" {
		t.Errorf("%+v with a lead, in words %q, want it promoted", better, better.Decision())
	}
	kept := Trial{Model: "m", Rule: "after=100,if=nll", Labels: 99, Lead: -3}.Next(event.Comparison{Labels: 1, Lead: -1})
	if want := "model m stays in the shadow: on the same 100 labels its NLL is 0.0400 higher than that of the model that serves"; kept.Decision() != want || trial.Decision() != "" {
		t.Errorf("a decision in words is %q, want %q, and later none, not %q", kept.Decision(), want, trial.Decision())
	}
	if alone := (&Trial{Model: "m"}).After(&event.Outcome{Shadow: &event.Outcome{Model: "other"}, Compared: step}); alone.Labels != 0 {
		t.Errorf("%+v, counted while another model was in the shadow", alone)
	}
}
