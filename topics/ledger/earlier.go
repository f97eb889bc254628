package ledger

import (
	"encoding/json"
	"fmt"

	"github.com/gvbll/gvbll/pipeline/figure"
)

// earlier are fields of the records of 1.0.0 that are figures now.
type earlier struct {
	Asked   float64 `json:"asked"`
	Expired struct {
		Nodes float64 `json:"nodes"`
		Edges float64 `json:"edges"`
	} `json:"expired"`
	Scores struct {
		Asked struct {
			Labels         float64 `json:"labels"`
			Correct        float64 `json:"correct"`
			LogLoss        float64 `json:"log_loss"`
			Weight         float64 `json:"weight"`
			WeighedCorrect float64 `json:"weighed_correct"`
			WeighedLogLoss float64 `json:"weighed_log_loss"`
			Squares        float64 `json:"squares"`
			CorrectSquares float64 `json:"correct_squares"`
		} `json:"asked"`
	} `json:"scores"`
}

// asked is the key of the nodes of which labels were asked for.
const asked = "asked_nodes"

// Asked returns how many nodes of the window labels were asked for.
func (r *Record) Asked() int { return int(r.Figures[asked]) }

// readEarlier takes the figures of a record of 1.0.0, which has none under that name.
func (r *Record) readEarlier(b []byte) error {
	if r.Figures != nil {
		return nil
	}
	var e earlier
	if err := json.Unmarshal(b, &e); err != nil {
		return fmt.Errorf("ledger record of window %d: %.200w", r.Window, err)
	}
	s := &e.Scores.Asked
	for key, x := range map[string]float64{
		asked: e.Asked, "departures.expired": e.Expired.Nodes, "edges_expired": e.Expired.Edges,
		"asked_labels": s.Labels, "asked_correct": s.Correct, "asked_log_loss_nats": s.LogLoss,
		"asked_weight": s.Weight, "asked_weighed_correct": s.WeighedCorrect, "asked_weighed_log_loss_nats": s.WeighedLogLoss,
		"asked_weight_squares": s.Squares, "asked_weighed_correct_squares": s.CorrectSquares,
	} {
		if x != 0 {
			r.Figures.Merge(figure.Kept{key: x})
		}
	}
	return nil
}
