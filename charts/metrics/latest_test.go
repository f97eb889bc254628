package metrics

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// TestLatest: the average precision over 30 to 127 labels of a class that is one in 30 to one in 300, and is ranked badly to well, is that of
// all scores within .005 and within 5 % of itself, in each of 60 samples; what is kept is bounded, and the stretch is that of the
// latest labels.
func TestLatest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 46))
	samples, bins := 0, 0
	for run := range 8 {
		ratio, shift := []int{30, 30, 100, 300}[run%4], []float64{1.5, 3, 5}[rng.IntN(3)]
		var l latest
		var p []float64 // of the stretch
		var is []bool
		starts := []int{0} // where stretches begin
		own := 0
		for own < 140 {
			own1 := rng.IntN(ratio+1) == 0
			z := rng.NormFloat64()*1.6 - math.Log(float64(ratio))
			if own1 {
				z += shift
			}
			x := float32(1 / (1 + math.Exp(-z)))
			l.add(x, own1)
			p, is = append(p, float64(x)), append(is, own1)
			if !own1 {
				continue
			}
			if own++; own%latestOwn == 0 {
				starts = append(starts, len(p))
			}
			got, ok := l.older.averagePrecision()
			if ok != (own >= 30) {
				t.Fatalf("known: %t, of %d labels", ok, own)
			}
			if !ok || own%15 != 0 {
				continue
			}
			from := starts[max(len(starts)-2, 0)]
			want, _ := calibration.Rank(len(p)-from, func(i int) float64 { return p[from+i] }, func(i int) bool { return is[from+i] })
			samples++
			if d := math.Abs(got - want.AP); d > .005 || d > .05*want.AP {
				t.Errorf("%.4f of %d labels of the class, 1 in %d, want %.4f", got, want.Labels, ratio, want.AP)
			}
			var odds calibration.Odds
			for i := from; i < len(p); i++ {
				odds.Add(p[i], is[i], 1)
			}
			if _, ap, _ := odds.Ranking(); math.Abs(ap-want.AP) > min(.005, .05*want.AP) {
				bins++
			}
		}
		if len(l.older.own) >= 2*latestOwn || cap(l.older.others) > 2*mostOthers {
			t.Errorf("%d labels of the class and %d others are kept", len(l.older.own), cap(l.older.others))
		}
	}
	t.Logf("%d samples; bins are off in %d of them", samples, bins)
	if samples < 60 || bins < samples/20 {
		t.Errorf("%d samples, want 60; bins are off in %d", samples, bins)
	}
}
