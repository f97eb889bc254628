package serve_test

import (
	"math/rand/v2"
	"testing"

	"github.com/gvbll/gvbll/pipeline/serve"
)

// TestMostProbable: on a tie, the first index is returned.
func TestMostProbable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		p := make([]float32, 1+rng.IntN(12))
		for i := range p {
			p[i] = float32(rng.IntN(4)) / 3 // with ties, and with 0 and 1
		}
		best := 0
		for i, x := range p {
			if x > p[best] {
				best = i
			}
		}
		if got := serve.MostProbable(p); got != best {
			t.Fatalf("mostProbable(%v) = %d, want %d", p, got, best)
		}
	}
}
