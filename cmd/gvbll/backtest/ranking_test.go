package backtest

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// TestRanks: AUC and average precision are those of scikit-learn's roc_auc_score and
// average_precision_score, also of equal probabilities. Of two classes those of the rarer one count.
func TestRanks(t *testing.T) {
	probs := []float64{
		.6, .3, .1, .5, .4, .1, .6, .2, .2, .1, .3, .6, .3, .4, .3,
		.2, .5, .3, .8, .1, .1, .4, .4, .2, .5, .4, .1, .3, .3, .4,
	}
	got := Ranks(probs, []string{"a", "b", "c"}, []int32{0, 1, 0, 2, 1, 0, 0, 2, 0, 1})
	all, of := Overall(got)
	want := []Rank{
		{"a", calibration.Ranking{Labels: 5, AUC: .82, AP: 196.0 / 225, Recall: .2}},
		{"b", calibration.Ranking{Labels: 3, AUC: 13.0 / 21, AP: 47.0 / 120}},
		{"c", calibration.Ranking{Labels: 2, AUC: .78125, AP: 2.0 / 3, Recall: .5}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" || of != "" || math.Abs(all.AP-(want[0].AP+want[1].AP+want[2].AP)/3) > 1e-12 {
		t.Errorf("of %q, %v (-want +got):\n%s", of, all.AP, diff)
	}
	all, of = Overall(Ranks([]float64{.9, .1, .4, .6, .7, .3, math.NaN(), math.NaN()}, []string{"ok", "fraud"}, []int32{0, 1, 0, 0}))
	if of != "fraud" || all.AUC != 1 || all.AP != 1 {
		t.Errorf("%+v of %q, want fraud ranked first", all, of)
	}
}
