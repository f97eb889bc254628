package posterior

import (
	"fmt"
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"

	"github.com/gvbll/gvbll/posterior/internal/check"
)

// gradient selects the vector u that multiplies the residual y - p in the update.
type gradient uint8

const (
	// Scaled uses u = z/τ: the true gradient and diagonal Hessian of the likelihood
	// eq:lik.
	Scaled gradient = iota
	// AsWritten uses u = z, as eq:grad_reg and eq:prec are printed.
	AsWritten
)

// String returns "scaled" or "as-written".
func (g gradient) String() string {
	switch g {
	case Scaled:
		return "scaled"
	case AsWritten:
		return "as-written"
	}
	return fmt.Sprintf("Gradient(%d)", uint8(g))
}

// Config holds the constants of Algorithm 1.
type Config struct {
	Lambda   float64 // λ in [0, 1]: share of the precision that a full batch keeps; the memory is 1/(1-λ) of them
	Eta      float64 // η > 0: step size
	Beta     float64 // β ≥ 0: pull of a full batch towards the training posterior
	Clip     float64 // δ > 0: the most that an entry of M moves in one update
	Epsilon  float64 // ε ≥ 0: keeps Σ = 1/(T+ε) finite in a step; it is not added to T
	Gradient gradient
	// Batch is the number of labels of a full batch. What forgets follows what was
	// learned: a batch of n labels has the share s = min(1, n/Batch) of a full one, and
	// in it λ and β are λˢ and sβ. Labels that trickle in one by one then forget
	// as much as a full batch of them; larger batches forget no more than a full one. 0
	// makes every batch a full one, as the paper writes.
	Batch float64 `json:",omitempty"`
}

// Share returns a batch's number of labels as a share of a full one, at most 1. If full
// is 0, every batch is a full one.
func Share(labels int, full float64) float64 {
	if full == 0 {
		return 1
	}
	return min(1, float64(labels)/full)
}

// kept returns λ^share, what a batch keeps of the past if a full one keeps λ. It is
// exactly λ at a share of 1.
func kept(lambda, share float64) float64 {
	if share == 1 || lambda == 0 || lambda == 1 {
		return lambda
	}
	return double.Exp(double.Log(lambda) * share)
}

// of returns the constants of a batch of n labels.
//
// β is in proportion to the labels, because its term is added to the precision with every
// batch: otherwise its sum, like the forgetting, would depend on how labels are cut into
// batches. The bound δ is not: it is on the error of one linearisation, and holds for each.
func (c Config) of(n int) Config {
	share := Share(n, c.Batch)
	c.Lambda = kept(c.Lambda, share)
	c.Beta *= share
	return c
}

// DefaultConfig returns the constants that gave the best scores across data sets with
// the true gradient: λ .99, η 1, β 0, δ .1, ε 1e-8. A full batch has 50 labels, about as
// many as the paper's batches of Cora.
func DefaultConfig() Config {
	return Config{Lambda: 0.99, Eta: 1, Beta: 0, Clip: 0.1, Epsilon: 1e-8, Gradient: Scaled, Batch: 50}
}

// Validate reports every constant that is out of range, each with its remedy.
func (c Config) Validate() error {
	var r check.Remedies
	r.Unless(c.Lambda >= 0 && c.Lambda <= 1, "lambda %v: give a number from 0 (forget all) to 1 (forget nothing), such as 0.99", c.Lambda)
	r.Unless(c.Eta > 0 && check.Finite(c.Eta), "eta %v: give a positive step size, such as 1", c.Eta)
	r.Unless(c.Beta >= 0 && check.Finite(c.Beta), "beta %v: give 0 for no anchor, or a positive strength such as 0.01", c.Beta)
	r.Unless(c.Clip > 0 && check.Finite(c.Clip), "clip %v: give a positive bound, such as 0.1, or a large one such as "+
		"1e9 to never clip", c.Clip)
	r.Unless(c.Epsilon >= 0 && check.Finite(c.Epsilon), "epsilon %v: give 0 or a small positive number, such as 1e-8", c.Epsilon)
	r.Unless(c.Batch >= 0 && check.Finite(c.Batch), "batch %v: give a number of labels such as 50, or 0 to forget with "+
		"every batch alike", c.Batch)
	r.Unless(c.Gradient <= AsWritten, "gradient %v: give scaled or as-written", c.Gradient)
	return r.Join()
}

// statistics are the data terms of eq:grad_reg and eq:prec for a batch of labelled
// rows. They are sums over rows, so a batch may be added in parts, taken at the
// same mean.
type statistics struct {
	dim, classes int
	gradient     []float64 // Σ_v u_v (y_v - p_v)ᵀ, dim × classes; u is z or z/τ, see Gradient
	precision    []float64 // Σ_v p_vc (1-p_vc) u_vj², dim × classes
}

func newStatistics(dim, classes int) statistics {
	return statistics{
		dim: dim, classes: classes,
		gradient:  make([]float64, dim*classes),
		precision: make([]float64, dim*classes),
	}
}

// reset makes s the statistics of no rows.
func (s *statistics) reset() {
	clear(s.gradient)
	clear(s.precision)
}

// evidence is the two factors of a block's part of the statistics, both with one
// row for each node, and the memory to compute them.
type evidence struct {
	block
	u, square           []float64 // u and u², rows × d_e
	residual, curvature []float64 // y - p and p(1-p), rows × C
}

// add adds labelled rows, predicted at the mean of q. Labels are classes from 0; one
// out of range panics.
func (s *statistics) add(q *Gaussian, rows Rows, labels []int32, g gradient, e *evidence) {
	rows.check(q.Dim)
	if len(labels) != rows.Len() {
		panic(fmt.Sprintf("posterior: %d labels for %d rows", len(labels), rows.Len()))
	}
	for lo := 0; lo < len(labels); lo += double.BlockRows {
		hi := min(lo+double.BlockRows, len(labels))
		e.set(q, rows.part(lo, hi, q.Dim), labels[lo:hi], g)
		double.Product(double.Dense(s.gradient, s.dim, s.classes), double.Dense(e.u, hi-lo, s.dim).T(),
			double.Dense(e.residual, hi-lo, s.classes))
		double.Product(double.Dense(s.precision, s.dim, s.classes), double.Dense(e.square, hi-lo, s.dim).T(),
			double.Dense(e.curvature, hi-lo, s.classes))
	}
}

// set computes the factors for a block of rows.
func (e *evidence) set(q *Gaussian, rows Rows, labels []int32, g gradient) {
	n, d, classes := rows.Len(), q.Dim, q.Classes
	e.probabilities(q, rows)
	e.u, e.square = kernel.Resize(e.u, n*d), kernel.Resize(e.square, n*d)
	for i := range n {
		scale := 1.0
		if g == Scaled {
			scale = e.byTau[i]
		}
		u := e.u[i*d : (i+1)*d]
		for j, x := range rows.Z[i*d : (i+1)*d] {
			u[j] = float64(x) * scale
		}
	}
	double.Multiply(e.square, e.u, e.u)
	e.residual, e.curvature = kernel.Resize(e.residual, n*classes), kernel.Resize(e.curvature, n*classes)
	fromLanes(e.residual, classes, e.probs, n, classes)
	for i, p := range e.residual {
		e.curvature[i] = p * (1 - p)
		e.residual[i] = -p
	}
	for i, y := range labels {
		e.residual[i*classes : (i+1)*classes][y]++
	}
}

// Report describes an update.
type Report struct {
	Clipped int     // entries of the mean whose step was clipped to ±δ
	Step    float64 // Euclidean norm of the change of the mean
}

// update is Proposition 1, entry by entry: with a = anchor and the statistics
// (g, h) of a batch at the mean of q,
//
//	T ← λT + η h + ηβ/Σ_a                                (eq:prec)
//	M ← M + clip(η [g - β(M - M_a)/Σ_a]/(T + ε), -δ, δ)  (eq:grad_reg, eq:mean)
//
// It writes the result to dst, whose memory it reuses; dst may be q. Without rows it
// still forgets and is drawn to the anchor.
func update(dst, q, anchor *Gaussian, s *statistics, cfg Config) Report {
	q.mustMatch(anchor)
	if q.Dim != s.dim || q.Classes != s.classes {
		panic(fmt.Sprintf("posterior: statistics of shape %d × %d for a posterior of %d × %d", s.dim, s.classes, q.Dim, q.Classes))
	}
	dst.Dim, dst.Classes = q.Dim, q.Classes
	dst.Mean, dst.Precision = kernel.Resize(dst.Mean, len(q.Mean)), kernel.Resize(dst.Precision, len(q.Mean))
	var (
		report Report
		square float64
	)
	for i := range q.Mean {
		t := float64(cfg.Lambda*q.Precision[i]) + float64(cfg.Eta*s.precision[i]) + float64(cfg.Eta*cfg.Beta*anchor.Precision[i])
		g := s.gradient[i] - float64(cfg.Beta*(q.Mean[i]-anchor.Mean[i])*anchor.Precision[i])
		var step float64
		// A weight that is forgotten entirely and has no gradient stays: Σ·G would be
		// ∞·0.
		if g != 0 {
			sigma := 1 / (t + cfg.Epsilon)
			step = cfg.Eta * sigma * g
			if step > cfg.Clip || step < -cfg.Clip {
				step = math.Copysign(cfg.Clip, step)
				report.Clipped++
			}
		}
		dst.Precision[i] = t
		dst.Mean[i] = q.Mean[i] + step
		square += float64(step * step)
	}
	report.Step = math.Sqrt(square)
	return report
}
