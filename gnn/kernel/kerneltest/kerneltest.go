// Package kerneltest has what tests of the kernels, and of what computes with them, share.
package kerneltest

import (
	"math"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/level"
)

// AtLevels runs f with every kernel level that this machine has, plain first.
func AtLevels(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer func(was level.Level) { level.Active = was }(level.Active)
	for l := level.Plain; l <= level.Best(); l++ {
		level.Active = l
		t.Run(l.String(), f)
	}
}

// SameAtLevels fails unless f returns the same bits at every level.
func SameAtLevels(t *testing.T, what string, f func() []float64) {
	t.Helper()
	var want []float64
	AtLevels(t, func(t *testing.T) {
		t.Helper()
		if got := f(); want == nil {
			want = got
		} else {
			WantSame(t, what, got, want)
		}
	})
}

// WantClose fails unless got is within tol of want, relative to 1 or to want if
// that is larger.
func WantClose(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tol*max(1, math.Abs(want[i]))) {
			t.Fatalf("%s[%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

// WantPanic fails unless f panics.
func WantPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if recover() == nil {
			t.Errorf("%s: no panic", name)
		}
	}()
	f()
}

// WantSame fails unless got and want have the same bits.
func WantSame(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Fatalf("%s[%d] = %v, want the bits of %v", what, i, got[i], want[i])
		}
	}
}
