package gnn

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// randomVector returns dense features, about the given share of them nonzero.
func randomVector(rng *rand.Rand, dim int, share float64) Vector {
	dense := make([]float32, dim)
	for j := range dense {
		if rng.Float64() < share {
			dense[j] = float32(rng.NormFloat64())
		}
	}
	return Vector{Dense: dense}
}

// sparse returns the sparse form of v.
func sparse(v Vector) Vector {
	var s Vector
	for j, x := range v.Dense {
		if x != 0 {
			s.Index, s.Value = append(s.Index, uint32(j)), append(s.Value, x)
		}
	}
	return s
}

// TestVectorValidate: features of a wrong dimension, with indices out of order or with
// numbers that are not finite are errors.
func TestVectorValidate(t *testing.T) {
	inf := float32(math.Inf(-1))
	for _, c := range []struct {
		v    Vector
		want string // "" for a valid vector
	}{
		{Vector{}, ""},
		{Vector{Dense: []float32{1, 0, 2}}, ""},
		{Vector{Index: []uint32{0, 2}, Value: []float32{1, 0}}, ""},
		{Vector{Dense: []float32{}}, "0 dense entries"},
		{Vector{Dense: []float32{1, 2, inf}}, "-Inf"},
		{Vector{Dense: []float32{1, 2, 3}, Index: []uint32{0}, Value: []float32{1}}, "both"},
		{Vector{Index: []uint32{0, 1}, Value: []float32{1}}, "1 values"},
		{Vector{Index: []uint32{0, 3}, Value: []float32{1, 1}}, "index 3"},
		{Vector{Index: []uint32{1, 1}, Value: []float32{1, 1}}, "increasing"},
		{Vector{Index: []uint32{1}, Value: []float32{inf}}, "-Inf"},
	} {
		err := c.v.Validate(3)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.v, err, c.want)
		}
	}
}
