package posterior

import (
	"fmt"
	"math"
	"slices"
)

// Gaussian is q(W) of eq:posterior: every weight W_jc is normal and independent of
// the others.
type Gaussian struct {
	Dim, Classes int
	Mean         []float64 // M, Dim × Classes
	Precision    []float64 // T = 1/Σ, Dim × Classes
}

// Validate reports shapes that do not fit, moments that are not finite and
// precisions that are not positive.
func (q *Gaussian) Validate() error {
	if err := q.check(); err != nil {
		return err
	}
	for i, t := range q.Precision {
		if t == 0 {
			return fmt.Errorf("posterior: precision of dimension %d, class %d is 0: it must be positive", i/q.Classes, i%q.Classes)
		}
	}
	return nil
}

// check is Validate but for precisions of zero, which a posterior reaches that
// forgets a dimension no row uses.
func (q *Gaussian) check() error {
	if q.Dim <= 0 || q.Classes <= 0 {
		return fmt.Errorf("posterior: shape %d × %d: both must be positive", q.Dim, q.Classes)
	}
	// Divided rather than multiplied: the product of shapes from a file may overflow.
	if n := len(q.Mean); n/q.Classes != q.Dim || n%q.Classes != 0 || len(q.Precision) != n {
		return fmt.Errorf("posterior: shape %d × %d has %d means and %d precisions", q.Dim, q.Classes, n, len(q.Precision))
	}
	for i := range q.Mean {
		if m, t := q.Mean[i], q.Precision[i]; !isFinite(m) || !isFinite(t) || t < 0 {
			return fmt.Errorf("posterior: mean %v, precision %v of dimension %d, class %d: both must be finite, the precision positive", m, t, i/q.Classes, i%q.Classes)
		}
	}
	return nil
}

// Clone returns a copy that shares no memory with q.
func (q *Gaussian) Clone() Gaussian {
	c := *q
	c.Mean, c.Precision = slices.Clone(q.Mean), slices.Clone(q.Precision)
	return c
}

// leastPrecision bounds variances in prediction: a dimension that was forgotten
// entirely and that a row does not use must add 0·10¹² to the variance of a
// logit, not 0·∞.
const leastPrecision = 1e-12

// variances writes Σ = 1/T to dst.
func (q *Gaussian) variances(dst []float64) {
	for i, t := range q.Precision {
		dst[i] = 1 / max(t, leastPrecision)
	}
}

func (q *Gaussian) sameShape(o *Gaussian) bool {
	return q.Dim == o.Dim && q.Classes == o.Classes
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
