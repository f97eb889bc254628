package gp

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas64"
)

// TestStandard: rows are standardised by mean and standard deviation, and constant
// dimensions are only centred.
func TestStandard(t *testing.T) {
	z := []float32{1, 7, 0.1, 3, 7, 0.1, 8, 7, 0.1}
	s := newStandard(z, 3)
	wantClose(t, "mean", s.mean, []float64{4, 7, float64(float32(0.1))}, 1e-15)
	wantClose(t, "scale", s.scale, []float64{math.Sqrt(26.0 / 3), 1, 1}, 1e-15)
	row := make([]float64, 3)
	s.row(row, z, 2)
	wantClose(t, "row", row, []float64{4 / math.Sqrt(26.0/3), 0, 0}, 1e-15)
}

// TestSpread: inducing points are spread over the rows, and equal rows are chosen once.
func TestSpread(t *testing.T) {
	x := blas64.General{Rows: 6, Cols: 1, Stride: 1, Data: []float64{0, 5, 0, 1000, 5, 1001}}
	values := func(rows [][]float64) []float64 {
		got := slices.Concat(rows...)
		slices.Sort(got)
		return got
	}
	if got, want := values(spread(x, 6, noise())), []float64{0, 5, 1000, 1001}; !slices.Equal(got, want) {
		t.Errorf("chose %v, want %v", got, want)
	}
	if got := values(spread(x, 2, noise())); len(got) != 2 || got[0] > 5 || got[1] < 1000 {
		t.Errorf("chose %v, want one of each group", got)
	}
}

// TestMedianDistance: distances of 0 do not count, and the median of none is 1.
func TestMedianDistance(t *testing.T) {
	x := blas64.General{Rows: 4, Cols: 2, Stride: 2, Data: []float64{0, 0, 3, 4, 0, 0, 0, 0}}
	if got := medianDistance(x); got != 5 {
		t.Errorf("median distance %v, want 5: that of equal rows does not count", got)
	}
	if got := medianDistance(matrix(3, 2)); got != 1 {
		t.Errorf("median distance of equal rows %v, want 1", got)
	}
}
