package posterior

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestWalk: the update with a random walk of variance q is the update from a posterior
// whose variances are larger by q.
func TestWalk(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		const d, c, n = 5, 3, 7
		q := Gaussian{Dim: d, Classes: c}
		wide := Gaussian{Dim: d, Classes: c}
		cfg := DefaultConfig()
		cfg.Lambda, cfg.Beta, cfg.Walk = rng.Float64(), rng.Float64(), math.Exp(8*rng.Float64()-6)
		for range d * c {
			m, precision := rng.NormFloat64(), math.Exp(6*rng.Float64()-3)
			q.Mean, wide.Mean = append(q.Mean, m), append(wide.Mean, m)
			q.Precision = append(q.Precision, precision)
			wide.Precision = append(wide.Precision, 1/(1/precision+cfg.Walk))
		}
		q.Precision[0], wide.Precision[0] = 0, 0 // forgotten entirely
		rows := Rows{}
		var labels []int32
		for range n {
			for range d {
				rows.Z = append(rows.Z, float32(rng.NormFloat64()))
			}
			rows.Tau = append(rows.Tau, 0.5+rng.Float64())
			labels = append(labels, rng.Int32N(c))
		}
		got, _ := apply(&q, &q, collect(&q, rows, labels, cfg), cfg)
		anchored := cfg
		anchored.Walk = 0
		want, _ := apply(&wide, &q, collect(&wide, rows, labels, anchored), anchored)
		for i := range got.Mean {
			if !near(got.Mean[i], want.Mean[i]) || !near(got.Precision[i], want.Precision[i]) {
				t.Fatalf("entry %d: mean %v and precision %v, want %v and %v", i, got.Mean[i], got.Precision[i], want.Mean[i], want.Precision[i])
			}
		}
	}
}

// near reports whether a and b are equal up to rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*(1+math.Abs(b)) }

// TestWalkForgetsTheKnown: without labels, λ reduces every precision by the same
// share, and a walk reduces larger precisions by a larger share.
func TestWalkForgetsTheKnown(t *testing.T) {
	q := Gaussian{Dim: 2, Classes: 2, Mean: make([]float64, 4), Precision: []float64{1000, 1, 1000, 1}}
	cfg := DefaultConfig()
	cfg.Lambda, cfg.Walk = 1, 0.01
	s := newStatistics(2, 2)
	for range 100 {
		q, _ = apply(&q, &q, s, cfg)
	}
	// In 100 steps of 0.01, variances of 0.001 and 1 grow by 1.
	if !near(1/q.Precision[0], 1.001) || !near(1/q.Precision[1], 2) {
		t.Errorf("variances %v and %v, want 1.001 and 2", 1/q.Precision[0], 1/q.Precision[1])
	}
}
