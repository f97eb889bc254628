package attributes

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// A number is encoded by its rank among the training rows, so that its unit and scale mean nothing: any
// increasing function of a column has nearly the same columns. With F the share of the training values
// below a value, and half of those equal to it, they are
//
//	ln F/(1-F), standardised, and (-ln F - ln(1-F) - 2)/.84, large in both tails;
//
// together they say how far out a value is on either side. F is known at Knots, and linear between them;
// beyond them it is Edge, or 1 - Edge.

// The second column of a rank has about mean 0 and standard deviation 1 where ranks are even.
const (
	meanDepth = 2
	sdDepth   = .84
)

// Knots stand at quantiles nearer and nearer to both ends: at p and 1 - p for p = ½, ½·.8, ½·.8², …
const (
	nearer    = .8
	mostKnots = 80
	leastTail = 2e-4
)

func (a *Attribute) learnRanks(values []float64) {
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		a.Mean, a.SD = 0, 1
		return
	}
	a.Edge = 1 / float64(2*n+2)
	places := []int{0, n - 1}
	for p := .5; p >= leastTail && p*float64(n) >= 1; p *= nearer {
		k := int(p * float64(n))
		places = append(places, k, n-1-k)
	}
	slices.Sort(places)
	for _, k := range places {
		v := values[k]
		if last := len(a.Knots) - 1; last >= 0 && a.Knots[last] == v {
			continue
		}
		below, _ := slices.BinarySearch(values, v)
		upto := below + 1
		for upto < n && values[upto] == v {
			upto++
		}
		a.Knots, a.Ranks = append(a.Knots, v), append(a.Ranks, float64(below+upto)/float64(2*n))
	}
	for i, v := range values {
		f := a.rank(v)
		values[i] = double.Log(f) - double.Log(1-f)
	}
	a.Mean, a.SD = moments(values)
}

func (a *Attribute) rank(v float64) float64 {
	last := len(a.Knots) - 1
	k, is := slices.BinarySearch(a.Knots, v)
	switch {
	case is:
		return a.Ranks[k]
	case k == 0:
		return a.Edge
	case k > last:
		return 1 - a.Edge
	}
	from, to := float64(a.Knots[k-1]/2), float64(a.Knots[k]/2) // halves, so that no difference overflows
	t := (float64(v/2) - from) / (to - from)
	if !(t >= 0 && t <= 1) { // the knots are next to 0
		t = 0
	}
	return a.Ranks[k-1] + float64(t*(a.Ranks[k]-a.Ranks[k-1]))
}

// number writes the columns of a number: ranks, or in models from before them the value or its logarithm.
func (a *Attribute) number(x []float32, v float64) {
	if a.Knots == nil {
		if a.Log {
			v = signedLog(v)
		}
		x[0] = a.standard(v)
		return
	}
	f := a.rank(v)
	x[0] = a.standard(double.Log(f) - double.Log(1-f))
	x[1] = a.depth(f)
}

// depth returns the second column of a rank.
func (a *Attribute) depth(f float64) float32 {
	if a.Knots == nil {
		return 0
	}
	return float32((-double.Log(f) - double.Log(1-f) - meanDepth) / sdDepth)
}

// isBeyond reports whether x is of a number beyond all of training, where the depth of such a number is edge.
func (a *Attribute) isBeyond(x []float32, edge float32) bool {
	if a.Knots == nil {
		return x[0] == clip || x[0] == -clip
	}
	return x[1] == edge
}

// numberColumns is the number of columns of a number, without that of gaps.
func (a *Attribute) numberColumns() int {
	if a.Knots != nil {
		return 2
	}
	return 1
}

// checkRanks returns an error unless the knots are ones that learnRanks could have made.
func (a *Attribute) checkRanks() error {
	n := len(a.Knots)
	if n > mostKnots || len(a.Ranks) != n || n > 0 && (a.Kind != Number || a.Log || !(a.Edge > 0 && a.Edge <= .5)) {
		return fmt.Errorf("%d ranks of %d knots of a %s, at most %d of a number are expected, with an edge", len(a.Ranks),
			n, a.Kind, mostKnots)
	}
	increases := func(x []float64) bool {
		for i := 1; i < len(x); i++ {
			if !(x[i] > x[i-1]) {
				return false
			}
		}
		return true
	}
	if n > 0 && !(increases(a.Knots) && increases(a.Ranks) && a.Ranks[0] > 0 && a.Ranks[n-1] < 1 &&
		isFinite(a.Knots[0]) && isFinite(a.Knots[n-1])) {
		return fmt.Errorf("knots %v with ranks %v: both must increase, ranks between 0 and 1", a.Knots, a.Ranks)
	}
	return nil
}
