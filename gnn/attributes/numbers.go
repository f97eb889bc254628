package attributes

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// A number is encoded by its rank among the training rows, so that its unit and scale mean nothing: any
// increasing function of a column has nearly the same columns. With F the share of the training values
// below a value, and half of those equal to it, they are
//
//	ln F/(1-F), standardised, and (-ln F - ln(1-F) - 2)/.84, large in both tails;
//
// together they say how far out a value is on either side.

// The second column of a rank has about mean 0 and standard deviation 1 where ranks are even.
const (
	meanDepth = 2
	sdDepth   = .84
)

func (a *Attribute) learnRanks(values []float64) {
	a.Distribution = gnn.DistributionOf(values)
	for i, v := range values {
		values[i] = a.LogOdds(v)
	}
	a.Mean, a.SD = moments(values)
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
	f := a.At(v)
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
	if a.Knots != nil && (a.Kind != Number || a.Log) {
		return fmt.Errorf("ranks of a %s", a.Kind)
	}
	return a.Distribution.Check()
}
