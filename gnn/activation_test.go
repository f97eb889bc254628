package gnn

import (
	"math"
	"testing"
)

// TestExpm1: the error of expm1 is at most one unit in the last place for every size of
// negative numbers.
func TestExpm1(t *testing.T) {
	for x := float32(math.SmallestNonzeroFloat32); x < 200; x = max(x*1.0007, math.Nextafter32(x, 1)) {
		got, want := expm1(-x), float32(math.Expm1(float64(-x)))
		if got != want && got != math.Nextafter32(want, 0) && got != math.Nextafter32(want, -2) {
			t.Fatalf("expm1(%v) = %v, want %v", -x, got, want)
		}
	}
}

// TestActivation: activations have their values at -Inf, 0 and positive numbers, and NaN
// stays NaN.
func TestActivation(t *testing.T) {
	nan := float32(math.NaN())
	for activation, want := range map[Activation][]float32{
		ReLU: {0, 0, 0, 2},
		"":   {0, 0, 0, 2},
		ELU:  {-1, float32(math.Expm1(-1)), 0, 2},
	} {
		got := []float32{float32(math.Inf(-1)), -1, 0, 2, nan}
		activation.apply(got)
		if d := furthest(got[:4], want); d > 1e-7 || got[4] == got[4] {
			t.Errorf("%q: got %v, want %v and NaN", activation, got, want)
		}
	}
}
