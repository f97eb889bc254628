package pool

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestLogRates: log likelihoods of labels that come at different rates are those of p(y) r_y/Σ_c p(c) r_c, in
// fits and in the mixture.
func TestLogRates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const classes, stride = 3, 8
	for range 100 {
		logits, logRates, logp := make([]float64, stride), make([]float64, classes), make([]float32, classes)
		var total, among float64
		for c := range classes {
			logits[c], logRates[c] = 3*rng.NormFloat64(), 2*rng.NormFloat64()
			total += math.Exp(logits[c])
			among += math.Exp(logits[c] + logRates[c])
		}
		for c := range logp {
			logp[c] = float32(logits[c] - math.Log(total))
		}
		y := rng.IntN(classes)
		want := logits[y] + logRates[y] - math.Log(among)
		if got := float64(logp[y]) + amongLabels(logp, logRates, y); math.Abs(got-want) > 1e-5 {
			t.Errorf("log p(%d) among labels = %v, want %v", y, got, want)
		}
		s := softmaxScratch{offset: logRates}
		if got := -s.softmax(logits, classes, stride, []int32{int32(y)}); math.Abs(got-want) > 1e-12 {
			t.Errorf("log likelihood %v, want %v", got, want)
		}
	}
}
