package pool

import "github.com/gvbll/gvbll/posterior"

// weights is the pool itself: a Bayesian last layer over heads. With
// a_k(c) = max(log p_k(c), floor), its logits are Σ_k w_k a_k(c) + b_c. θ = (w, b) has prior w_k ~ N(Total/K, WeightSD²) and
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
	stride         int // of classes

	theta     []float64 // w, b
	precision []float64 // Q, square; its upper half is in use
	prior     []float64 // θ_prior
	diagonal  []float64 // of Q0

	a                []float64 // rows × heads × classes
	turned           []float64 // rows × classes × across
	weighted         []float64 // p_c (a_k(c) - Σ p a_k), rows × classes × across
	across           int       // heads, rounded up to a stride
	probs            []float64 // rows × stride
	start, next      []float64 // θ0 and the point that is tried
	gradient, move   []float64
	curvature, total []float64 // Σ JᵀΛJ, and with Q
	rowMean          []float64 // Σ_c p_c a_k(c) of a row, across
	cross, square    []float64 // Σ weighted, classes × across; Σ weightedᵀ turned
	outer            []float64 // Σ p pᵀ, stride × stride
	offset, scratch  []float64
	cholesky         cholesky
	norm             softmaxScratch
}

func newWeights(cfg Weights, heads, classes int) *weights {
	n := heads + classes
	w := &weights{Weights: cfg, heads: heads, classes: classes, stride: strideOf(classes), across: strideOf(heads)}
	for _, x := range []*[]float64{&w.theta, &w.prior, &w.diagonal, &w.start, &w.next, &w.gradient, &w.move, &w.offset, &w.scratch} {
		*x = make([]float64, n)
	}
	for _, x := range []*[]float64{&w.precision, &w.curvature, &w.total} {
		*x = make([]float64, n*n)
	}
	w.rowMean, w.cross, w.square = make([]float64, w.across), make([]float64, classes*w.across), make([]float64, w.across*w.across)
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

// evidence sets a to what the heads logProbs of n rows; at(i, k) is head k's log
// probabilities of row i.
func (w *weights) evidence(n int, at func(i, k int) []float32) {
	w.a = resize(w.a, n*w.heads*w.classes)
	for i := range n {
		for k := range w.heads {
			from := (i*w.heads + k) * w.classes
			posterior.Raise(w.a[from:from+w.classes], at(i, k), w.Floor)
		}
	}
}

// turn sets turned to a, the other way round.
func (w *weights) turn(n int) {
	size := w.classes * w.across
	w.turned, w.weighted = resize(w.turned, n*size), resize(w.weighted, n*size)
	if w.across > w.heads {
		clear(w.turned)
	}
	for i := range n {
		to := w.turned[i*size : (i+1)*size]
		for k := range w.heads {
			from := (i*w.heads + k) * w.classes
			for c, x := range w.a[from : from+w.classes] {
				to[c*w.across+k] = x
			}
		}
	}
}

// logits writes those of the rows in a under theta to dst, rows × stride.
func (w *weights) logits(dst, theta []float64, stride int) {
	size := w.heads * w.classes
	for i, at := 0, 0; at < len(dst); i, at = i+1, at+stride {
		row := dst[at : at+w.classes]
		copy(row, theta[w.heads:])
		posterior.AddProduct(row, theta[:w.heads], w.a[i*size:(i+1)*size], 1, w.heads, w.classes)
	}
}

// learn takes the labels of the rows in a; share is the part of a full batch
// that they are. It returns the steps taken.
func (w *weights) learn(labels []int32, share float64) (steps int) {
	w.forget(share)
	w.turn(len(labels))
	copy(w.start, w.theta)
	f := w.objective(w.theta, labels)
	w.derivatives(labels)
	for steps < w.Steps && w.cholesky.factorize(w.total, len(w.theta)) {
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
		w.derivatives(labels)
	}
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
	w.probs = resize(w.probs, len(labels)*w.stride)
	w.logits(w.probs, theta, w.stride)
	f = w.norm.softmax(w.probs, w.classes, w.stride, labels)
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
	n, heads, classes, across := len(w.theta), w.heads, w.classes, w.across
	w.pull(w.theta)
	copy(w.gradient, w.scratch)
	clear(w.cross)
	for i, y := range labels {
		p := w.probs[i*w.stride:][:classes]
		a, weighted := w.turned[i*classes*across:][:classes*across], w.weighted[i*classes*across:][:classes*across]
		clear(w.rowMean)
		posterior.AddProduct(w.rowMean, p, a, 1, classes, across)
		posterior.AddCentred(w.cross, weighted, a, p, w.rowMean)
		for k, x := range a[int(y)*across:][:heads] {
			w.gradient[k] += w.rowMean[k] - x
		}
		for c, x := range p {
			w.gradient[heads+c] += x
		}
		w.gradient[heads+int(y)]--
	}
	// Upper half: first the rows of w, then those of b, which on the diagonal
	// have Σ p.
	clear(w.curvature)
	clear(w.square)
	posterior.AddTransposed(w.square, w.weighted, w.turned, across, len(labels)*classes, across)
	for k := range heads {
		to := w.curvature[k*n : (k+1)*n]
		copy(to[k:heads], w.square[k*across+k:])
		for c := range classes {
			to[heads+c] = w.cross[c*across+k]
		}
	}
	for i := range labels {
		for c, x := range w.probs[i*w.stride:][:classes] {
			w.curvature[(heads+c)*n+heads+c] += x
		}
	}
	// Of the biases with each other, what is not diagonal: -Σ p pᵀ.
	w.outer = resize(w.outer, w.stride*w.stride)
	clear(w.outer)
	posterior.AddTransposed(w.outer, w.probs, w.probs, w.stride, len(labels), w.stride)
	for c := range classes {
		to := w.curvature[(w.heads+c)*n+w.heads : (w.heads+c+1)*n]
		for e := c; e < classes; e++ {
			to[e] -= w.outer[c*w.stride+e]
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
