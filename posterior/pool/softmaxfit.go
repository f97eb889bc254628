package pool

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// softmaxFit fits softmax regression with an independent Gaussian prior
// N(M0_jc, 1/T0_jc) on every weight. It minimises the negative log posterior
//
//	F(M) = -Σ_i log softmax(φ_iᵀM)[y_i] + ½ Σ_jc T0_jc (M_jc - M0_jc)²
//
// by majorise-minimise. By Jensen's inequality the Hessian of F is at most a
// diagonal one (De Pierro 1995; Erdogan & Fessler 1999), so that a Newton step
// with that diagonal needs neither a step size nor a matrix inverse:
//
//	h_jc  = T0_jc + Σ_i |φ_ij| a_i max(P_ic(1-P_ic), .05),  a_i = Σ_j |φ_ij|
//	M_jc += [Σ_i φ_ij (Y_ic - P_ic) - T0_jc (M_jc - M0_jc)] / h_jc.
//
// The bound holds for the curvature at P, and only for that of each class by
// itself: F may rise where rows have few features and there are few classes. A
// step that made F larger is therefore halved, which counts as a pass.
//
// Rows have stride ≥ classes numbers, a multiple of 8 as the kernels want it;
// those beyond the classes are 0.
type softmaxFit struct {
	classes, stride int
	keeps           bool // h of the first step for all: in a dense matrix it costs as much as the gradient

	m    []float64 // M0 at first, then the point that is tried: columns × stride
	best []float64 // M with the least F so far
	step []float64 // from best to m
	m0   []float64
	t    []float64 // T0 at first; fit adds the batch's precision
	g, h []float64 // -gradient and curvature of the likelihood: columns × stride

	probs, r, w []float64 // P, Y-P and the row's part of h: rows × stride
	scratch     softmaxScratch
}

// leastCurvature bounds P(1-P) from below in h. Where P is 0 or 1 the curvature at
// the start of a step says nothing about that at its end; .05 is P(1-P) at
// P = .053.
const leastCurvature = 0.05

// resize makes room for a design matrix of that size. The caller then sets m to M0
// and t to T0.
func (s *softmaxFit) resize(rows, columns int) {
	n := columns * s.stride
	for _, x := range []*[]float64{&s.m, &s.m0, &s.best, &s.step, &s.t, &s.g, &s.h} {
		*x = kernel.Resize(*x, n)
	}
	for _, x := range []*[]float64{&s.probs, &s.r, &s.w} {
		*x = kernel.Resize(*x, rows*s.stride)
	}
}

// fit moves m towards the minimum of F in that many passes over the rows, and then
// adds the curvature there to the precision:
// T_jc = T0_jc + Σ_i φ_ij² P_ic(1-P_ic), the diagonal of the Laplace approximation.
func (s *softmaxFit) fit(phi designMatrix, labels []int32, passes int) {
	s.minimize(phi, labels, passes)
	for i, p := range s.probs {
		s.w[i] = p * (1 - p)
	}
	phi.addSquares(s.t, s.w, s.stride)
}

// minimize leaves in m the best of that many passes, and in probs P there.
func (s *softmaxFit) minimize(phi designMatrix, labels []int32, passes int) {
	copy(s.m0, s.m)
	least := math.Inf(1)
	f := s.logLoss(phi, labels)
	for pass := range passes {
		if f <= least {
			least = f
			s.m, s.best = s.best, s.m
			s.newtonStep(phi, labels, pass == 0 || !s.keeps)
		} else {
			for i := range s.step {
				s.step[i] *= 0.5
			}
		}
		quadratic := double.Advance(s.m, s.best, s.step, s.m0, s.t)
		f = s.logLoss(phi, labels) + float64(0.5*quadratic)
	}
	if !(f <= least) {
		s.m, s.best = s.best, s.m
		s.logLoss(phi, labels)
	}
}

// logLoss sets probs to P at m and returns the likelihood's part of F.
func (s *softmaxFit) logLoss(phi designMatrix, labels []int32) float64 {
	phi.logits(s.probs, s.m, s.stride)
	return s.scratch.softmax(s.probs, s.classes, s.stride, labels)
}

// newtonStep sets step to the step from best, where probs are P at best, with the curvature there
// or the last one.
func (s *softmaxFit) newtonStep(phi designMatrix, labels []int32, curve bool) {
	a := phi.absoluteSums()
	for i, y := range labels {
		at := i * s.stride
		r, w := s.r[at:at+s.stride], s.w[at:at+s.stride]
		for c, p := range s.probs[at : at+s.stride] {
			r[c] = -p
		}
		r[y]++
		if !curve {
			continue
		}
		for c, p := range s.probs[at : at+s.stride] {
			curvature := p * (1 - p)
			if curvature < leastCurvature {
				curvature = leastCurvature
			}
			w[c] = a[i] * curvature
		}
		clear(w[s.classes:])
	}
	clear(s.g)
	if curve {
		clear(s.h)
		phi.addGradient(s.g, s.h, s.r, s.w, s.stride)
	} else {
		phi.addGradient(s.g, nil, s.r, nil, s.stride)
	}
	double.NewtonStep(s.step, s.best, s.m0, s.t, s.g, s.h)
}
