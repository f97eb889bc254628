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
}

// DefaultConfig returns the setting that served best across data sets with the
// true gradient: λ .97, η 1, β 0, δ .1, ε 1e-8.
func DefaultConfig() Config {
	return Config{Lambda: 0.97, Eta: 1, Beta: 0, Clip: 0.1, Epsilon: 1e-8, Gradient: Scaled}
}

// Validate reports every constant that is out of range, with the remedy.
func (c Config) Validate() error {
	var errs []error
	refuse := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Lambda >= 0 && c.Lambda <= 1, "lambda %v: give a number from 0 (forget all) to 1 (forget nothing), such as 0.97", c.Lambda)
	refuse(c.Eta > 0 && isFinite(c.Eta), "eta %v: give a positive step size, such as 1", c.Eta)
	refuse(c.Beta >= 0 && isFinite(c.Beta), "beta %v: give 0 for no anchor, or a positive strength such as 0.01", c.Beta)
	refuse(c.Clip > 0 && isFinite(c.Clip), "clip %v: give a positive bound, such as 0.1, or a large one such as 1e9 to never clip", c.Clip)
	refuse(c.Epsilon >= 0 && isFinite(c.Epsilon), "epsilon %v: give 0 or a small positive number, such as 1e-8", c.Epsilon)
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
	s.collect(q, rows, labels, cfg.Gradient, make([]float64, 2*rowBlock*q.Classes))
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

// rowBlock rows go through the sums together, so that an entry of the
// statistics is loaded and stored once for all of them.
const rowBlock = 4

// collect adds labelled rows; scratch holds 2 × rowBlock × Classes numbers.
func (s *Statistics) collect(q *Gaussian, rows Rows, labels []int32, g Gradient, scratch []float64) {
	rows.check(q.Dim)
	if len(labels) != rows.Len() {
		panic(fmt.Sprintf("posterior: %d labels for %d rows", len(labels), rows.Len()))
	}
	n, d, classes := rows.Len(), q.Dim, q.Classes
	s.Rows += n
	var scale [rowBlock]float64
	for lo := 0; lo < n; lo += rowBlock {
		m := min(rowBlock, n-lo)
		residual, curvature := scratch[:rowBlock*classes], scratch[rowBlock*classes:]
		for b := range m {
			i := lo + b
			scale[b] = 1
			if g == Scaled {
				scale[b] = 1 / rows.Tau[i]
			}
			r, h := residual[b*classes:(b+1)*classes], curvature[b*classes:(b+1)*classes]
			logits(r, rows.Z[i*d:(i+1)*d], rows.Tau[i], q.Mean)
			softmax(r)
			for c, p := range r {
				h[c] = p * (1 - p)
				r[c] = -p
			}
			r[labels[i]]++
		}
		z := rows.Z[lo*d : (lo+m)*d]
		if m < rowBlock {
			for b := range m {
				s.addRow(z[b*d:(b+1)*d], scale[b], residual[b*classes:(b+1)*classes], curvature[b*classes:(b+1)*classes])
			}
			continue
		}
		s.addBlock(z, &scale, residual, curvature)
	}
}

func (s *Statistics) addRow(z []float32, scale float64, residual, curvature []float64) {
	for j, x := range z {
		u := float64(x) * scale
		addScaled(s.Gradient[j*s.Classes:(j+1)*s.Classes], u, residual)
		addScaled(s.Precision[j*s.Classes:(j+1)*s.Classes], u*u, curvature)
	}
}

// addBlock is addRow for rowBlock rows in turn, to the bit.
func (s *Statistics) addBlock(z []float32, scale *[rowBlock]float64, residual, curvature []float64) {
	d, n := s.Dim, s.Classes
	r0, r1, r2, r3 := residual[:n], residual[n:2*n], residual[2*n:3*n], residual[3*n:4*n]
	h0, h1, h2, h3 := curvature[:n], curvature[n:2*n], curvature[2*n:3*n], curvature[3*n:4*n]
	for j := range d {
		u0, u1 := float64(z[j])*scale[0], float64(z[d+j])*scale[1]
		u2, u3 := float64(z[2*d+j])*scale[2], float64(z[3*d+j])*scale[3]
		v0, v1, v2, v3 := u0*u0, u1*u1, u2*u2, u3*u3
		gradient, precision := s.Gradient[j*n:(j+1)*n], s.Precision[j*n:(j+1)*n]
		for c := range gradient {
			gradient[c] = gradient[c] + float64(u0*r0[c]) + float64(u1*r1[c]) + float64(u2*r2[c]) + float64(u3*r3[c])
			precision[c] = precision[c] + float64(v0*h0[c]) + float64(v1*h1[c]) + float64(v2*h2[c]) + float64(v3*h3[c])
		}
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
		t := float64(cfg.Lambda*q.Precision[i]) + float64(cfg.Eta*s.Precision[i]) + float64(cfg.Eta*cfg.Beta*anchor.Precision[i])
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
