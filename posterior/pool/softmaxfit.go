package pool

import (
	"math"

	"github.com/gvbll/gvbll/posterior"
)

// softmaxFit fits a softmax layer with a Gaussian prior of its own for every
// weight: it makes
//
//	F(M) = -Σ_i log softmax(φ_iᵀM)[y_i] + ½ Σ_jc T0_jc (M_jc - M0_jc)²
//
// smaller by steps with a separable bound of the curvature (De Pierro 1995;
// Erdogan & Fessler 1999),
//
//	h_jc  = T0_jc + Σ_i |φ_ij| a_i max(P_ic(1-P_ic), .05),  a_i = Σ_j |φ_ij|
//	M_jc += [Σ_i φ_ij (Y_ic - P_ic) - T0_jc (M_jc - M0_jc)] / h_jc.
//
// The bound is of each class's own curvature, at P and not along the step, so
// that it may fail where rows have few features and classes are few. A step that
// made F larger is therefore halved.
type softmaxFit struct {
	classes, stride int

	m, held, step []float64 // M0 and then M, the best M so far, and the step from it: columns × stride
	start         []float64 // M0
	t             []float64 // T0, and T in the end
	g, h          []float64 // columns × stride
	probs, r, w   []float64 // P, Y-P and the bound: rows × stride
	norm          softmaxScratch
}

// leastCurvature is the least P(1-P) in the bound: P is far from 0 and 1 by the
// time a step ends that starts there.
const leastCurvature = 0.05

// resize makes room for columns in m and t, which the caller fills with M0 and T0.
func (s *softmaxFit) resize(rows, columns int) {
	n := columns * s.stride
	for _, x := range []*[]float64{&s.m, &s.start, &s.held, &s.step, &s.t, &s.g, &s.h} {
		*x = resize(*x, n)
	}
	for _, x := range []*[]float64{&s.probs, &s.r, &s.w} {
		*x = resize(*x, rows*s.stride)
	}
}

// run takes that many passes and then adds the batch's curvature to t:
// T_jc = T0_jc + Σ_i φ_ij² P_ic(1-P_ic).
func (s *softmaxFit) run(phi designMatrix, labels []int32, passes int) {
	s.descend(phi, labels, passes)
	for i, p := range s.probs {
		s.w[i] = p * (1 - p)
	}
	phi.addSquares(s.t, s.w, s.stride)
}

// descend takes that many passes.
func (s *softmaxFit) descend(phi designMatrix, labels []int32, passes int) {
	copy(s.start, s.m)
	least := math.Inf(1)
	f := s.logLoss(phi, labels)
	for range passes {
		if f <= least {
			least = f
			s.m, s.held = s.held, s.m
			s.direction(phi, labels)
		} else {
			for i := range s.step {
				s.step[i] *= 0.5
			}
		}
		quadratic := posterior.Stride(s.m, s.held, s.step, s.start, s.t)
		f = s.logLoss(phi, labels) + 0.5*quadratic
	}
	if !(f <= least) {
		s.m, s.held = s.held, s.m
		s.logLoss(phi, labels)
	}
}

// logLoss finds P and the first part of F at m.
func (s *softmaxFit) logLoss(phi designMatrix, labels []int32) float64 {
	phi.logits(s.probs, s.m, s.stride)
	return s.norm.softmax(s.probs, s.classes, s.stride, labels)
}

// direction finds the step from held.
func (s *softmaxFit) direction(phi designMatrix, labels []int32) {
	a := phi.absoluteSums()
	for i, y := range labels {
		at := i * s.stride
		r, w := s.r[at:at+s.stride], s.w[at:at+s.stride]
		for c, p := range s.probs[at : at+s.stride] {
			r[c] = -p
			curvature := p * (1 - p)
			if curvature < leastCurvature {
				curvature = leastCurvature
			}
			w[c] = a[i] * curvature
		}
		r[y]++
		clear(w[s.classes:])
	}
	clear(s.g)
	clear(s.h)
	phi.addGradient(s.g, s.h, s.r, s.w, s.stride)
	posterior.Newton(s.step, s.held, s.start, s.t, s.g, s.h)
}
