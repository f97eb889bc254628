package calibration

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestRank: of 10,000 labels of which 1 % are frauds, ranked as their features are, AUC and recall are those of the normal
// distributions that they were drawn from, equal probabilities share what is left of the first 1 %, and bins agree.
func TestRank(t *testing.T) {
	rng := rand.New(rand.NewPCG(48, 2))
	const n = 100_000
	var p []float64
	var odds Odds
	is := func(i int) bool { return i%100 == 0 }
	for i := range n {
		x := rng.NormFloat64()
		if is(i) {
			x += 2
		}
		p = append(p, 1/(1+math.Exp(2+math.Log(99)-2*x)))
		odds.Add(p[i], is(i), 1)
	}
	got, ok := Rank(n, func(i int) float64 { return p[i] }, is)
	auc, ap, _ := odds.Ranking()
	// Φ(2/√2) = .9214. The threshold c of 1 % solves .99 (1-Φ(c)) + .01 (1-Φ(c-2)) = .01: c = 2.447, 1-Φ(.447) = .327.
	if !ok || got.Labels != n/100 || math.Abs(got.AUC-0.9214) > 0.01 || math.Abs(got.Recall-0.327) > 0.03 || math.Abs(got.AUC-auc) > 0.005 || math.Abs(got.AP-ap) > 0.02*ap+0.005 {
		t.Errorf("%+v, in bins %v and %v", got, auc, ap)
	}
	if same, ok := Rank(n, func(int) float64 { return 0.01 }, is); !ok || same.AUC != 0.5 || math.Abs(same.Recall-0.01) > 1e-12 || math.Abs(same.AP-0.01) > 1e-12 {
		t.Errorf("equal probabilities are ranked as %+v", same)
	}
	for _, none := range []func(int) bool{func(int) bool { return false }, func(int) bool { return true }} {
		if r, ok := Rank(n, func(i int) float64 { return p[i] }, none); ok {
			t.Errorf("labels of one class are ranked as %+v", r)
		}
	}
}
