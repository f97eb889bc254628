package pool

import "github.com/gvbll/gvbll/posterior"

// weights is the pool itself: a Bayesian last layer over heads. With
// a_k(c) = max(log p_k(c), floor), centred over c, its logits are
// Σ_k w_k a_k(c) + b_c. θ = (w, b) has prior w_k ~ N(Total/K, WeightSD²) and
// b_c ~ N(0, BiasSD²), which is where it starts. A batch minimises
//
//	F(θ) = -Σ_i log softmax(J_i θ)[y_i] + ½ (θ-θ0)ᵀQ(θ-θ0),  J_i = [a_1 … a_K, I],
//
// by Newton's method, and then Q += Σ_i J_iᵀ(diag p_i - p_i p_iᵀ)J_i at the
// solution. Before, it forgets towards the prior (Q0, θ_prior): Q becomes
// λQ + (1-λ)Q0, and θ0 solves Qθ0 = λQθ + (1-λ)Q0 θ_prior.
type weights struct {
	Weights
	heads, classes int

	theta     []float64 // w, b
	precision []float64 // Q, square; its upper half is in use
	prior     []float64 // θ_prior
	diagonal  []float64 // of Q0

	a                []float64 // rows × heads × classes
	probs            []float64 // rows × classes
	start, next      []float64 // θ0 and the point that is tried
	gradient, move   []float64
	curvature, total []float64 // Σ JᵀΛJ, and with Q
	rowMean          []float64 // Σ_c p_c a_k(c) of a row
	outer            []float64 // Σ p pᵀ
	offset, scratch  []float64
	cholesky         cholesky
}

func newWeights(spec Weights, heads, classes int) *weights {
	n := heads + classes
	w := &weights{Weights: spec, heads: heads, classes: classes}
	for _, x := range []*[]float64{&w.theta, &w.prior, &w.diagonal, &w.start, &w.next, &w.gradient, &w.move, &w.offset, &w.scratch} {
		*x = make([]float64, n)
	}
	for _, x := range []*[]float64{&w.precision, &w.curvature, &w.total} {
		*x = make([]float64, n*n)
	}
	w.rowMean = make([]float64, heads)
	for k := range n {
		sd := w.BiasSD
		if k < heads {
			sd = w.WeightSD
			w.prior[k] = w.Total / float64(heads)
		}
		w.diagonal[k] = 1 / float64(sd*sd)
		w.precision[k*n+k] = w.diagonal[k]
	}
	copy(w.theta, w.prior)
	return w
}

// evidence sets a to what the heads said of n rows; at(i, k) is head k's log
// probabilities of row i.
func (w *weights) evidence(n int, at func(i, k int) []float32) {
	w.a = resize(w.a, n*w.heads*w.classes)
	for i := range n {
		for k := range w.heads {
			a := w.row(i, k)
			var sum float64
			for c, x := range at(i, k) {
				a[c] = max(float64(x), w.Floor)
				sum += a[c]
			}
			mean := sum / float64(w.classes)
			for c := range a {
				a[c] -= mean
			}
		}
	}
}

func (w *weights) row(i, k int) []float64 {
	at := (i*w.heads + k) * w.classes
	return w.a[at : at+w.classes]
}

// logits writes those of row i under theta to dst.
func (w *weights) logits(dst, theta []float64, i int) {
	copy(dst, theta[w.heads:])
	for k, weight := range theta[:w.heads] {
		axpy(dst, weight, w.row(i, k))
	}
}

// learn takes the labels of the rows in a; share is the part of a full batch
// that they are. It returns the steps taken.
func (w *weights) learn(labels []int32, share float64) (steps int) {
	w.forget(share)
	copy(w.start, w.theta)
	f := w.objective(w.theta, labels)
	for steps < w.Steps {
		w.derivatives(labels)
		if !w.cholesky.factorize(w.total, len(w.theta)) {
			break
		}
		copy(w.move, w.gradient)
		w.cholesky.solve(w.move)
		if decrement := dot(w.move, w.gradient); decrement < 1e-12*(1+f) {
			break
		}
		next, ok := w.descend(f, labels)
		if !ok {
			break
		}
		f = next
		steps++
	}
	w.objective(w.theta, labels)
	w.derivatives(labels)
	copy(w.precision, w.total)
	return steps
}

// forget makes way for a batch.
func (w *weights) forget(share float64) {
	if w.Lambda == 1 {
		return
	}
	keep := posterior.Exp(float64(posterior.Log(w.Lambda) * share))
	multiplySymmetric(w.scratch, w.precision, w.theta)
	n := len(w.theta)
	for i := range w.scratch {
		w.scratch[i] = float64(keep*w.scratch[i]) + float64((1-keep)*w.diagonal[i]*w.prior[i])
	}
	for i := range w.precision {
		w.precision[i] *= keep
	}
	for i, q := range w.diagonal {
		w.precision[i*n+i] += float64((1 - keep) * q)
	}
	if w.cholesky.factorize(w.precision, n) {
		w.cholesky.solve(w.scratch)
		copy(w.theta, w.scratch)
	}
}

// descend goes along move, halved until F falls. It reports whether it does.
func (w *weights) descend(f float64, labels []int32) (float64, bool) {
	for scale := 1.0; scale > 1e-6; scale *= 0.5 {
		for i, x := range w.move {
			w.next[i] = w.theta[i] - float64(scale*x)
		}
		if tried := w.objective(w.next, labels); tried < f {
			copy(w.theta, w.next)
			return tried, true
		}
	}
	// F falls no more in these digits. The probabilities are those of a point
	// that was not taken.
	w.objective(w.theta, labels)
	return f, false
}

// objective returns F at theta and leaves the probabilities of the rows.
func (w *weights) objective(theta []float64, labels []int32) (f float64) {
	w.probs = resize(w.probs, len(labels)*w.classes)
	for i, y := range labels {
		p := w.probs[i*w.classes : (i+1)*w.classes]
		w.logits(p, theta, i)
		f -= logProbability(p, int(y))
	}
	w.pull(theta)
	return f + 0.5*dot(w.scratch, w.offset)
}

// pull sets offset to θ-θ0 and scratch to Q(θ-θ0).
func (w *weights) pull(theta []float64) {
	for i, x := range theta {
		w.offset[i] = x - w.start[i]
	}
	multiplySymmetric(w.scratch, w.precision, w.offset)
}

// derivatives finds gradient and curvature of F at theta, where the
// probabilities are those of theta.
func (w *weights) derivatives(labels []int32) {
	n, classes := len(w.theta), w.classes
	w.pull(w.theta)
	copy(w.gradient, w.scratch)
	clear(w.curvature)
	for i, y := range labels {
		p := w.probs[i*classes : (i+1)*classes]
		for k := range w.heads {
			a := w.row(i, k)
			w.rowMean[k] = dot(p, a)
			w.gradient[k] += w.rowMean[k] - a[y]
		}
		for c, x := range p {
			w.gradient[w.heads+c] += x
		}
		w.gradient[w.heads+int(y)]--
		// Upper half: first the rows of w, then those of b.
		for k := range w.heads {
			a, to := w.row(i, k), w.curvature[k*n:(k+1)*n]
			pa := w.scratch[:classes] // p_c (a_k(c) - Σ p a_k): the row of w_k against b
			for c, x := range p {
				pa[c] = float64(x * (a[c] - w.rowMean[k]))
				to[w.heads+c] += pa[c]
			}
			for l := k; l < w.heads; l++ {
				to[l] += dot(pa, w.row(i, l))
			}
		}
		for c, x := range p {
			w.curvature[(w.heads+c)*n+w.heads+c] += x
		}
	}
	// Of the biases with each other, what is not diagonal: -Σ p pᵀ.
	w.outer = resize(w.outer, classes*classes)
	clear(w.outer)
	posterior.AddTransposed(w.outer, w.probs, w.probs, classes, len(labels), classes)
	for c := range classes {
		to := w.curvature[(w.heads+c)*n+w.heads : (w.heads+c+1)*n]
		for e := c; e < classes; e++ {
			to[e] -= w.outer[c*classes+e]
		}
	}
	for i, x := range w.curvature {
		w.total[i] = w.precision[i] + x
	}
}

// dot is the sum of four sums, of every fourth product each.
func dot(x, y []float64) (sum float64) {
	y = y[:len(x)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(x); i += 4 {
		a, b := (*[4]float64)(x[i:]), (*[4]float64)(y[i:])
		s0 += float64(a[0] * b[0])
		s1 += float64(a[1] * b[1])
		s2 += float64(a[2] * b[2])
		s3 += float64(a[3] * b[3])
	}
	sum = (s0 + s1) + (s2 + s3)
	for ; i < len(x); i++ {
		sum += float64(x[i] * y[i])
	}
	return sum
}

// axpy adds a·x to dst.
func axpy(dst []float64, a float64, x []float64) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += float64(a * x[i])
	}
}

func (w *weights) appendState(s *state) {
	s.floats(w.theta)
	n := len(w.theta)
	for i := range n {
		s.floats(w.precision[i*n+i : (i+1)*n])
	}
}

func (w *weights) readState(r *reader) {
	r.floats(w.theta)
	n := len(w.theta)
	for i := range n {
		r.floats(w.precision[i*n+i : (i+1)*n])
	}
	if r.err == nil {
		r.want(w.cholesky.factorize(w.precision, n), "the precision of the weights is not positive definite")
	}
}
