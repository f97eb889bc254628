package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/figure"
)

// TestEarlierRecords: what records of 1.0.0 counted in fields of their own are figures now.
func TestEarlierRecords(t *testing.T) {
	r, err := Decode([]byte(`{"v":1,"window":3,"asked":2,"expired":{"nodes":4,"edges":9},"scores":{"served":{},"asked":` +
		`{"labels":5,"correct":3,"log_loss":2.5,"weight":50,"weighed_correct":30,"weighed_log_loss":25,"squares":600,"correct_squares":400}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := figure.Kept{
		"asked_nodes": 2, "departures.expired": 4, "edges_expired": 9, "asked_labels": 5, "asked_correct": 3, "asked_log_loss_nats": 2.5,
		"asked_weight": 50, "asked_weighed_correct": 30, "asked_weighed_log_loss_nats": 25, "asked_weight_squares": 600,
		"asked_weighed_correct_squares": 400,
	}
	if diff := cmp.Diff(want, r.Figures); diff != "" || r.Asked() != 2 {
		t.Errorf("figures, -want +got\n%s", diff)
	}
	again, err := Decode(r.Append(nil))
	if err != nil || !cmp.Equal(again.Figures, want) {
		t.Errorf("written and read again: %v, %v", again, err)
	}
	if r, err := Decode([]byte(`{"v":1,"window":3}`)); err != nil || r.Figures != nil {
		t.Errorf("a window in which nothing was counted has %v, %v", r.Figures, err)
	}
}
