package posterior

import (
	"fmt"
	"math"
)

// Lessons are labelled rows that an online head has learned, to be taken back.
// The zero value has none.
type Lessons struct {
	rows   Rows
	labels []int32
	probs  []float64 // rows × C, at the mean from which they were learned
	ages   []uint64
}

// Add adds a row as it was learned: its embedding z as served, its temperature
// and class, the probabilities that the head gave it just before, and how many
// updates the head has taken since the one that learned it.
func (l *Lessons) Add(z []float32, tau float64, label int32, probs []float64, age uint64) {
	l.rows.Z = append(l.rows.Z, z...)
	l.rows.Tau = append(l.rows.Tau, tau)
	l.labels = append(l.labels, label)
	l.probs = append(l.probs, probs...)
	l.ages = append(l.ages, age)
}

// Len is the number of rows.
func (l *Lessons) Len() int { return len(l.labels) }

// Reset takes all rows out and keeps the memory.
func (l *Lessons) Reset() {
	l.rows.Z, l.rows.Tau = l.rows.Z[:0], l.rows.Tau[:0]
	l.labels, l.probs, l.ages = l.labels[:0], l.probs[:0], l.ages[:0]
}

// Remove takes what rows have taught out of the posterior, approximately and
// without the batches that they came in.
//
// Let a batch's statistics be G and D (eq:grad_reg, eq:prec), and h = T∘M.
// Proposition 1 with Σ = 1/T, no clipping and ε = 0 is linear in T and h, entry
// by entry:
//
//	T_t = λ T_{t-1} + η D_t + ηβ T*
//	h_t = T_t M_{t-1} + η (G_t - β (M_{t-1} - M*) T*)
//	    = λ h_{t-1} + η (G_t + D_t M_{t-1}) + ηβ T* M*
//
// So a row with u = z/τ that update s learned, as g = u(y-p) and d = p(1-p)u²,
// has a share in them k = t-s updates later of ηλᵏ d and ηλᵏ (g + d M_{s-1}).
// Without these,
//
//	T' = T - ηλᵏ d
//	M' = M - ηλᵏ (g - d (M - M_{s-1})) / T'
//
// which for k = 0 is exactly what the batch without the row gives. M_{s-1} would
// take d_e × C numbers a batch to keep, so its term is left out:
//
//	M' = M - ηλᵏ g / (T' + ε)
//
// What that leaves is ηλᵏ d/T', the row's share of the precision, times by how
// much the mean has moved since before it was learned. What else is approximate:
// batches learned since saw probabilities that the row had moved, entries that
// were clipped moved by less than is taken back, and ε. An entry moves by δ at
// the most here too. Precision stays at or above ε, unless it was below.
//
// It is no update: [Online.Version] stays, and nothing is forgotten. Rows of
// another shape panic.
func (o *Online) Remove(l *Lessons) Report {
	q, n := &o.q, l.Len()
	l.rows.check(q.Dim)
	if len(l.probs) != n*q.Classes {
		panic(fmt.Sprintf("posterior: %d probabilities of %d rows, want %d a row", len(l.probs), n, q.Classes))
	}
	var report Report
	if n == 0 {
		return report
	}
	s := &o.statistics
	clear(s.Gradient)
	clear(s.Precision)
	for i, y := range l.labels {
		share := o.cfg.Eta * power(o.cfg.Lambda, l.ages[i])
		scale := 1.0
		if o.cfg.Gradient == Scaled {
			scale = 1 / l.rows.Tau[i]
		}
		p := l.probs[i*q.Classes : (i+1)*q.Classes]
		for j, z := range l.rows.Z[i*q.Dim : (i+1)*q.Dim] {
			u := float64(z) * scale
			square := float64(u * u)
			for c, x := range p {
				residual := -x
				if int32(c) == y {
					residual++
				}
				s.Gradient[j*q.Classes+c] += float64(share * u * residual)
				s.Precision[j*q.Classes+c] += float64(share * square * x * (1 - x))
			}
		}
	}
	square := 0.0
	for i, t := range q.Precision {
		left := max(t-s.Precision[i], min(t, o.cfg.Epsilon))
		var step float64
		if g := s.Gradient[i]; g != 0 {
			step = -g / max(left+o.cfg.Epsilon, leastPrecision)
			if step > o.cfg.Clip || step < -o.cfg.Clip {
				step = math.Copysign(o.cfg.Clip, step)
				report.Clipped++
			}
		}
		q.Precision[i] = left
		q.Mean[i] += step
		square += float64(step * step)
	}
	report.Step = math.Sqrt(square)
	return report
}

// power is xⁿ by products alone, which are the same on every machine.
func power(x float64, n uint64) float64 {
	y := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			y *= x
		}
		x *= x
	}
	return y
}
