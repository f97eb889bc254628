package pool

import "math"

// surrogate fits a softmax layer with a Gaussian prior of its own for every
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
type surrogate struct {
	classes, stride int

	m, start, held, step []float64 // M, M0, the best M, and the step from it: columns × stride
	t                    []float64 // T0, and T in the end
	g, h                 []float64 // columns × stride
	probs, r, w          []float64 // P, Y-P and the bound: rows × stride

	undoing *undoing // nil while it learns
}

// leastCurvature is the least P(1-P) in the bound: P is far from 0 and 1 by the
// time a step ends that starts there.
const leastCurvature = 0.05

// resize makes room for columns in m and t, which the caller fills with M0 and T0.
func (s *surrogate) resize(rows, columns int) {
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
func (s *surrogate) run(phi design, labels []int32, passes int) {
	s.descend(phi, labels, passes)
	for i, p := range s.probs {
		s.w[i] = p * (1 - p)
	}
	phi.squares(s.t, s.w, s.stride)
}

// descend takes that many passes.
func (s *surrogate) descend(phi design, labels []int32, passes int) {
	copy(s.start, s.m)
	least := math.Inf(1)
	f := s.objective(phi, labels)
	for range passes {
		if f <= least {
			least = f
			copy(s.held, s.m)
			s.direction(phi, labels)
		} else {
			for i := range s.step {
				s.step[i] *= 0.5
			}
		}
		for i, x := range s.step {
			s.m[i] = s.held[i] + x
		}
		f = s.objective(phi, labels)
	}
	if !(f <= least) {
		copy(s.m, s.held)
		s.objective(phi, labels)
	}
}

// objective finds P and F at m.
func (s *surrogate) objective(phi design, labels []int32) (f float64) {
	phi.logits(s.probs, s.m, s.stride)
	for i, y := range labels {
		row := s.probs[i*s.stride : (i+1)*s.stride]
		if s.undoing != nil {
			axpy(row, 1, s.undoing.offset[i*s.stride:(i+1)*s.stride])
		}
		own := logProbability(row[:s.classes], int(y))
		if s.undoing != nil {
			own *= s.undoing.weight[i]
		}
		f -= own
		clear(row[s.classes:])
	}
	var quadratic float64
	for i, m := range s.m {
		d := m - s.start[i]
		quadratic += float64(float64(s.t[i]*d) * d)
	}
	return f + 0.5*quadratic
}

// direction finds the step from m.
func (s *surrogate) direction(phi design, labels []int32) {
	a := phi.lengths()
	for i, y := range labels {
		at := i * s.stride
		for c, p := range s.probs[at : at+s.classes] {
			s.r[at+c] = -p
			s.w[at+c] = a[i] * max(p*(1-p), leastCurvature)
		}
		s.r[at+int(y)]++
		if u := s.undoing; u != nil {
			for c := range s.classes {
				s.r[at+c] *= u.weight[i]
				s.w[at+c] *= u.bound[i]
			}
		}
		clear(s.r[at+s.classes : at+s.stride])
		clear(s.w[at+s.classes : at+s.stride])
	}
	clear(s.g)
	copy(s.h, s.t)
	phi.gather(s.g, s.h, s.r, s.w, s.stride)
	for i, g := range s.g {
		s.step[i] = (g - float64(s.t[i]*(s.m[i]-s.start[i]))) / s.h[i]
	}
}
