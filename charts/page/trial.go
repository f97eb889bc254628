package page

import "fmt"

// Trial is the trial of another model that goes on.
type Trial struct {
	Model  string  `json:"model"`
	Loaded bool    `json:"loaded"`          // the model is in the shadow; or else it is still being loaded
	Labels int64   `json:"labels"`          // by which it is compared with the model that serves
	Lead   float64 `json:"lead"`            // the log loss of the latter less that of the model, over those labels, nats
	After  int64   `json:"after,omitempty"` // labels after which the better one of the two serves; 0 for never
}

// String says how the trial goes, in one line without the model's name.
func (t Trial) String() string {
	if !t.Loaded {
		return "is being loaded: it replays the ledger"
	}
	text := "is in the shadow, compared by "
	if t.After > 0 {
		text += fmt.Sprintf("%d of %d labels, the same for both", t.Labels, t.After)
	} else {
		text += fmt.Sprintf("%d labels, the same for both", t.Labels)
	}
	if t.Labels > 0 {
		lead, way := t.Lead/float64(t.Labels), "lower"
		if lead < 0 {
			lead, way = -lead, "higher"
		}
		text += fmt.Sprintf(": its NLL is %.4f %s", lead, way)
	}
	return text
}
