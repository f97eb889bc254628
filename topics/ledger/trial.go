package ledger

import (
	"fmt"
	"math"

	"github.com/gvbll/gvbll/pipeline/event"
)

// Trial is the trial of a model that a command asked for: while it is loaded, and then in
// the shadow. It is in every record from that of the command on, up to the one that promotes
// the model or in which another trial begins. So whoever serves next goes on with it.
type Trial struct {
	Model string `json:"model"`
	Rule  string `json:"rule,omitempty"` // see [event.Rule]; "" once it is decided
	// Labels are those by which the model is compared with the one that serves, and Lead is
	// the log loss of the latter less that of the model, over them, in nats.
	Labels int64   `json:"labels"`
	Lead   float64 `json:"lead"`
	// Decided is "promoted" or "kept" in the shadow, in the record of the window in which
	// the rule decides.
	Decided string `json:"decided,omitempty"`
}

// Decisions of a rule.
const (
	Promoted = "promoted"
	Kept     = "kept"
)

// After returns the trial after a window that it was not asked for in, nil for none.
func (t *Trial) After(out *event.Outcome) *Trial {
	if t == nil || out.Shadow == nil || out.Shadow.Model != t.Model {
		return t
	}
	next := t.Next(out.Compared)
	return &next
}

// Next returns the trial after a window in which the model was in the shadow and compared.
func (t Trial) Next(c event.Comparison) Trial {
	t.Labels += int64(c.Labels)
	t.Lead += c.Lead
	t.Decided = ""
	rule, err := event.ParseRule(t.Rule)
	if err != nil || rule.After == 0 || t.Labels < rule.After {
		return t
	}
	t.Rule, t.Decided = "", Kept
	if t.Lead > 0 {
		t.Decided = Promoted
	}
	return t
}

// Decision says in words what the rule decided, and by what; "" unless it decides in this record.
func (t *Trial) Decision() string {
	if t == nil || t.Decided == "" {
		return ""
	}
	outcome, way := "stays in the shadow", "higher"
	if t.Decided == Promoted {
		outcome, way = "is promoted", "lower"
	}
	return fmt.Sprintf("model %s %s: on the same %d labels its NLL is %.4f %s than that of the model that serves",
		t.Model, outcome, t.Labels, math.Abs(t.Lead)/float64(t.Labels), way)
}
