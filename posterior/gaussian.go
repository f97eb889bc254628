package posterior

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel/double"

	"github.com/gvbll/gvbll/posterior/internal/check"
)

// Gaussian is q(W) of eq:posterior: every weight W_jc is normal and independent of
// the others.
type Gaussian struct {
	Dim, Classes int
	Mean         []float64 // M, Dim × Classes, at most 1e80 in size
	Precision    []float64 // T = 1/Σ, Dim × Classes, finite; positive before any forgetting, then at least 0
}

// Validate returns an error if shapes do not fit, a moment is not finite, or a
// precision is not positive.
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

// check is Validate but allows precisions of 0, which a dimension that no row uses
// reaches by forgetting.
func (q *Gaussian) check() error {
	if q.Dim <= 0 || q.Classes <= 0 {
		return fmt.Errorf("posterior: shape %d × %d: both must be positive", q.Dim, q.Classes)
	}
	// Division, because Dim × Classes from a file may overflow.
	if n := len(q.Mean); n/q.Classes != q.Dim || n%q.Classes != 0 || len(q.Precision) != n {
		return fmt.Errorf("posterior: shape %d × %d has %d means and %d precisions", q.Dim, q.Classes, n, len(q.Precision))
	}
	for i := range q.Mean {
		if m, t := q.Mean[i], q.Precision[i]; !(math.Abs(m) <= mostMean) || !check.Finite(t) || t < 0 {
			return fmt.Errorf("posterior: mean %v, precision %v of dimension %d, class %d: both must be finite, the "+
				"mean at most %v in size, the precision positive", m, t, i/q.Classes, i%q.Classes, mostMean)
		}
	}
	return nil
}

// mostMean bounds means that are read. No learned one comes near it, and the sums and products of
// a prediction stay finite.
const mostMean = 1e80

// Clone returns a copy that shares no memory with q.
func (q *Gaussian) Clone() Gaussian {
	c := *q
	c.Mean, c.Precision = slices.Clone(q.Mean), slices.Clone(q.Precision)
	return c
}

// leastPrecision bounds variances. Forgetting may take the precision of a
// dimension that no row uses down to 0, and such a dimension must add 0·10¹² to
// the variance of a logit, not 0·∞.
const leastPrecision = 1e-12

// Variance returns Σ of weight i = j·C + c, at most 10¹².
func (q *Gaussian) Variance(i int) float64 { return 1 / max(q.Precision[i], leastPrecision) }

// variances writes Σ to dst.
func (q *Gaussian) variances(dst []float64) {
	for i := range q.Precision {
		dst[i] = q.Variance(i)
	}
}

// Distance returns how far q is from p: the Frobenius norms ‖M_q - M_p‖ and
// ‖Σ_q - Σ_p‖.
func (q *Gaussian) Distance(p *Gaussian) (mean, variance float64) {
	q.mustMatch(p)
	for i, m := range q.Mean {
		m -= p.Mean[i]
		v := q.Variance(i) - p.Variance(i)
		mean += float64(m * m)
		variance += float64(v * v)
	}
	return math.Sqrt(mean), math.Sqrt(variance)
}

// KL returns the Kullback-Leibler divergence D_KL(q ‖ p) in nats, a sum over the
// weights because they are independent.
func (q *Gaussian) KL(p *Gaussian) (kl float64) {
	q.mustMatch(p)
	for i, m := range q.Mean {
		v, prior := q.Variance(i), p.Variance(i)
		m -= p.Mean[i]
		kl += klNormal(v/prior, float64(m*m)/prior, double.Log(v/prior))
	}
	return max(kl, 0) // rounding may bring it below
}

// klNormal returns D_KL(N(m, s) ‖ N(m₀, s₀)) in nats for ratio = s/s₀, shift =
// (m - m₀)²/s₀ and logRatio = log ratio. With m₀ = 0 and s₀ = 1 it is a term of
// eq:kl.
func klNormal(ratio, shift, logRatio float64) float64 {
	return float64(0.5 * (ratio + shift - logRatio - 1))
}

func (q *Gaussian) mustMatch(o *Gaussian) {
	if !q.sameShape(o) {
		panic(fmt.Sprintf("posterior: posteriors of shape %d × %d and %d × %d", q.Dim, q.Classes, o.Dim, o.Classes))
	}
}

func (q *Gaussian) sameShape(o *Gaussian) bool {
	return q.Dim == o.Dim && q.Classes == o.Classes
}
