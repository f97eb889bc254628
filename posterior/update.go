package posterior

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Gradient says what multiplies the residual y - p in the update.
type Gradient uint8

const (
	// Scaled takes z/τ: the gradient and the diagonal Hessian of the likelihood
	// of eq:lik.
	Scaled Gradient = iota
	// AsWritten takes z, as eq:grad_reg and eq:prec stand.
	AsWritten
)

// String returns "scaled" or "as-written".
func (g Gradient) String() string {
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
	Lambda   float64 // λ in [0, 1]: what a batch keeps of the past; memory is 1/(1-λ) batches
	Eta      float64 // η > 0: step size
	Beta     float64 // β ≥ 0: pull towards the training posterior
	Clip     float64 // δ > 0: the most an entry of M moves in one update
	Epsilon  float64 // ε ≥ 0: keeps Σ = 1/(T+ε) finite; never carried in T
	Gradient Gradient
	// Walk is q ≥ 0: weights are taken to have walked at random since the batch
	// before, by N(0, q), so that Σ becomes Σ + q, T = T/(1 + qT), before λ
	// forgets: the prediction step of a Kalman filter (the last sentence of the paper).
	// What is well known is forgotten more than what is not, unlike by λ.
	Walk float64 `json:",omitempty"`
}

// DefaultConfig returns the setting that served best across data sets with the
// true gradient: λ .99, η 1, β 0, δ .1, ε 1e-8.
func DefaultConfig() Config {
	return Config{Lambda: 0.99, Eta: 1, Beta: 0, Clip: 0.1, Epsilon: 1e-8, Gradient: Scaled}
}

// Validate reports every constant that is out of range, with the remedy.
func (c Config) Validate() error {
	var errs []error
	refuse := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Lambda >= 0 && c.Lambda <= 1, "lambda %v: give a number from 0 (forget all) to 1 (forget nothing), such as 0.99", c.Lambda)
	refuse(c.Eta > 0 && isFinite(c.Eta), "eta %v: give a positive step size, such as 1", c.Eta)
	refuse(c.Beta >= 0 && isFinite(c.Beta), "beta %v: give 0 for no anchor, or a positive strength such as 0.01", c.Beta)
	refuse(c.Clip > 0 && isFinite(c.Clip), "clip %v: give a positive bound, such as 0.1, or a large one such as 1e9 to never clip", c.Clip)
	refuse(c.Epsilon >= 0 && isFinite(c.Epsilon), "epsilon %v: give 0 or a small positive number, such as 1e-8", c.Epsilon)
	refuse(c.Walk >= 0 && isFinite(c.Walk), "walk %v: give 0 for weights that stay, or a small positive variance such as 1e-3", c.Walk)
	refuse(c.Gradient <= AsWritten, "gradient %v: give scaled or as-written", c.Gradient)
	return errors.Join(errs...)
}

// Statistics are what a batch of labelled rows says to the update: the data
// terms of eq:grad_reg and eq:prec. They add up, so a batch may be shared out.
type Statistics struct {
	Dim, Classes int
	Rows         int
	Gradient     []float64 // Σ_v z_v (y_v - p_v)ᵀ, Dim × Classes
	Precision    []float64 // Σ_v p_vc (1-p_vc) z_vj², Dim × Classes
}

// Collect returns the statistics of labelled rows at the mean of q. Of cfg it
// reads Gradient alone. Labels are classes from 0; one out of range panics.
func Collect(q *Gaussian, rows Rows, labels []int32, cfg Config) Statistics {
	s := Statistics{
		Dim: q.Dim, Classes: q.Classes,
		Gradient:  make([]float64, len(q.Mean)),
		Precision: make([]float64, len(q.Mean)),
	}
	s.collect(q, rows, labels, cfg.Gradient, new(evidence))
	return s
}

// Add adds the statistics of other rows, taken at the same mean.
func (s *Statistics) Add(other Statistics) {
	if s.Dim != other.Dim || s.Classes != other.Classes {
		panic(fmt.Sprintf("posterior: statistics of shape %d × %d added to %d × %d", other.Dim, other.Classes, s.Dim, s.Classes))
	}
	s.Rows += other.Rows
	for i := range s.Gradient {
		s.Gradient[i] += other.Gradient[i]
		s.Precision[i] += other.Precision[i]
	}
}

// evidence is what a block of rows adds to the statistics, two products of
// rows × d_e and rows × C matrices, and the memory to find it.
type evidence struct {
	block
	u, square           []float64 // z or z/τ, and its square
	residual, curvature []float64 // y - p and p(1-p)
}

// collect adds labelled rows.
func (s *Statistics) collect(q *Gaussian, rows Rows, labels []int32, g Gradient, e *evidence) {
	rows.check(q.Dim)
	if len(labels) != rows.Len() {
		panic(fmt.Sprintf("posterior: %d labels for %d rows", len(labels), rows.Len()))
	}
	s.Rows += rows.Len()
	for lo := 0; lo < len(labels); lo += blockRows {
		hi := min(lo+blockRows, len(labels))
		e.find(q, rows.part(lo, hi, q.Dim), labels[lo:hi], g)
		product(dense(s.Gradient, s.Dim, s.Classes), dense(e.u, hi-lo, s.Dim).t(), dense(e.residual, hi-lo, s.Classes))
		product(dense(s.Precision, s.Dim, s.Classes), dense(e.square, hi-lo, s.Dim).t(), dense(e.curvature, hi-lo, s.Classes))
	}
}

func (e *evidence) find(q *Gaussian, rows Rows, labels []int32, g Gradient) {
	n, d, classes := rows.Len(), q.Dim, q.Classes
	e.probabilities(q, rows)
	e.u, e.square = resize(e.u, n*d), resize(e.square, n*d)
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
	multiply(e.square, e.u, e.u)
	e.residual, e.curvature = resize(e.residual, n*classes), resize(e.curvature, n*classes)
	fromLanes(e.residual, classes, e.probs, n, classes)
	for i, p := range e.residual {
		e.curvature[i] = p * (1 - p)
		e.residual[i] = -p
	}
	for i, y := range labels {
		e.residual[i*classes : (i+1)*classes][y]++
	}
}

// Report is what an update did.
type Report struct {
	Clipped int     // entries of the mean that moved by δ instead of further
	Step    float64 // Euclidean norm of the change of the mean
}

// Apply is Proposition 1: the posterior after a batch with statistics s, from
// q before it and the training posterior anchor. It writes none of them. A
// batch without rows still forgets and is drawn to the anchor.
func Apply(q, anchor *Gaussian, s Statistics, cfg Config) (Gaussian, Report) {
	var next Gaussian
	r := ApplyTo(&next, q, anchor, s, cfg)
	return next, r
}

// ApplyTo is Apply into dst, whose memory is reused where it suffices; dst may
// be q.
func ApplyTo(dst, q, anchor *Gaussian, s Statistics, cfg Config) Report {
	if !q.sameShape(anchor) || q.Dim != s.Dim || q.Classes != s.Classes {
		panic(fmt.Sprintf("posterior: statistics of shape %d × %d and anchor of %d × %d applied to %d × %d", s.Dim, s.Classes, anchor.Dim, anchor.Classes, q.Dim, q.Classes))
	}
	dst.Dim, dst.Classes = q.Dim, q.Classes
	dst.Mean = slices.Grow(dst.Mean[:0], len(q.Mean))[:len(q.Mean)]
	dst.Precision = slices.Grow(dst.Precision[:0], len(q.Mean))[:len(q.Mean)]
	var (
		report Report
		square float64
	)
	for i := range q.Mean {
		before := q.Precision[i]
		if cfg.Walk > 0 {
			before /= 1 + float64(cfg.Walk*before)
		}
		t := float64(cfg.Lambda*before) + float64(cfg.Eta*s.Precision[i]) + float64(cfg.Eta*cfg.Beta*anchor.Precision[i])
		g := s.Gradient[i] - float64(cfg.Beta*(q.Mean[i]-anchor.Mean[i])*anchor.Precision[i])
		var step float64
		// An entry that is forgotten entirely and told nothing has Σ·G = ∞·0: it stays.
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
