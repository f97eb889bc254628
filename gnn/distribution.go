package gnn

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// Distribution is F, the share of training values below a value, and half of those equal to it. It is known at Knots,
// and linear between them; beyond them it is Edge, or 1 - Edge. The zero Distribution is of no values.
type Distribution struct {
	Knots []float64 `json:"knots,omitempty"` // ascending
	Ranks []float64 `json:"ranks,omitempty"` // F at the knots
	Edge  float64   `json:"edge,omitempty"`  // F below the first knot
}

// Knots stand at quantiles nearer and nearer to both ends: at p and 1 - p for p = ½, ½·.8, ½·.8², …
const (
	nearer    = .8
	mostKnots = 80
	leastTail = 2e-4
)

// DistributionOf returns the distribution of values, which it sorts.
func DistributionOf(values []float64) (f Distribution) {
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return f
	}
	f.Edge = 1 / float64(2*n+2)
	places := []int{0, n - 1}
	for p := .5; p >= leastTail && p*float64(n) >= 1; p *= nearer {
		k := int(p * float64(n))
		places = append(places, k, n-1-k)
	}
	slices.Sort(places)
	for _, k := range places {
		v := values[k]
		if last := len(f.Knots) - 1; last >= 0 && f.Knots[last] == v {
			continue
		}
		below, _ := slices.BinarySearch(values, v)
		upto := below + 1
		for upto < n && values[upto] == v {
			upto++
		}
		f.Knots, f.Ranks = append(f.Knots, v), append(f.Ranks, float64(below+upto)/float64(2*n))
	}
	return f
}

// At returns F of v.
func (f *Distribution) At(v float64) float64 {
	last := len(f.Knots) - 1
	k, is := slices.BinarySearch(f.Knots, v)
	switch {
	case is:
		return f.Ranks[k]
	case k == 0:
		return f.Edge
	case k > last:
		return 1 - f.Edge
	}
	from, to := float64(f.Knots[k-1]/2), float64(f.Knots[k]/2) // halves, so that no difference overflows
	t := (float64(v/2) - from) / (to - from)
	if !(t >= 0 && t <= 1) { // the knots are next to 0
		t = 0
	}
	return f.Ranks[k-1] + float64(t*(f.Ranks[k]-f.Ranks[k-1]))
}

// LogOdds returns ln F/(1-F) of v.
func (f *Distribution) LogOdds(v float64) float64 {
	at := f.At(v)
	return double.Log(at) - double.Log(1-at)
}

// Median returns about the median of the values, of which there must be some.
func (f *Distribution) Median() float64 {
	k, _ := slices.BinarySearch(f.Ranks, .5)
	return f.Knots[min(k, len(f.Knots)-1)]
}

// Check returns an error unless f is one that [DistributionOf] could have made.
func (f *Distribution) Check() error {
	n := len(f.Knots)
	if n > mostKnots || len(f.Ranks) != n || n > 0 && !(f.Edge > 0 && f.Edge <= .5) {
		return fmt.Errorf("%d ranks of %d knots, at most %d are expected, with an edge", len(f.Ranks), n, mostKnots)
	}
	increases := func(x []float64) bool {
		for i := 1; i < len(x); i++ {
			if !(x[i] > x[i-1]) {
				return false
			}
		}
		return true
	}
	isFinite := func(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }
	if n > 0 && !(increases(f.Knots) && increases(f.Ranks) && f.Ranks[0] > 0 && f.Ranks[n-1] < 1 &&
		isFinite(f.Knots[0]) && isFinite(f.Knots[n-1])) {
		return fmt.Errorf("knots %v with ranks %v: both must increase, ranks between 0 and 1", f.Knots, f.Ranks)
	}
	return nil
}
