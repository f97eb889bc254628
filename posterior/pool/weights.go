package pool

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/posterior/internal/words"
)

// weights is a log-linear pool, a product: softmax regression over the heads' log
// probabilities. With a_k(c) = max(log p_k(c), Floor), row i's logits are
//
//	Σ_k w_k a_k(c) + b_c = (J_i θ)_c,  J_i = [a_1 … a_K, I],  θ = (w, b).
//
// The floor bounds the loss that one head's certain mistake can bring, and with it
// the pull on its weight.
//
// θ has a Gaussian posterior with precision Q, a full matrix. Its prior is
//
//	w_k ~ N(Total/K, WeightSD²), b_c ~ N(0, BiasSD²),
//
// about 0 for a fitted head, which is not one of these K, or about the means of a [Start], of diagonal precision Q_prior
// and mean θ_prior. Total 1 would be the geometric mean of the heads; the heads see
// different things, so the product of more of them is better than the mean, and the
// default is 1.5. A product may have no biases: θ is then w.
//
// A batch is one Laplace update: it first forgets towards the prior,
//
//	Q0 = κQ + (1-κ)Q_prior,  Q0 θ0 = κQθ + (1-κ)Q_prior θ_prior,  κ = λ^share,
//
// which is the normalised product of posterior^κ and prior^(1-κ); then minimises
//
//	F(θ) = -Σ_i log softmax(J_i θ)[y_i] + ½ (θ-θ0)ᵀQ0(θ-θ0)
//
// by Newton's method, and adds the curvature at the solution:
// Q = Q0 + Σ_i J_iᵀ(diag p_i - p_i p_iᵀ)J_i.
type weights struct {
	cfg            weightsConfig
	heads, classes int // K, C
	stride         int // C rounded up to whole registers
	headStride     int // K rounded up to whole registers
	biased         bool

	said *opinions // of the batch, n rows

	theta     []float64 // (w, b)
	precision []float64 // Q, square; only the upper triangle is valid
	prior     []float64 // θ_prior
	diagonal  []float64 // of Q_prior

	centred []float64 // p_c (a_k(c) - Σ_e p_e a_k(e)), n × C × headStride
	probs   []float64 // p, n × stride
	scratch softmaxScratch

	descent  descent
	hessian  hessian
	cholesky cholesky
}

// descent holds what a batch's Newton steps move along: vectors as long as θ.
type descent struct {
	from, next     []float64 // θ0, and the point that is tried
	gradient, step []float64
	offset, pulled []float64 // θ-θ0 and Q0(θ-θ0)
}

// newDescent returns the vectors for a θ of length n.
func newDescent(n int) (d descent) {
	for _, x := range []*[]float64{&d.from, &d.next, &d.gradient, &d.step, &d.offset, &d.pulled} {
		*x = make([]float64, n)
	}
	return d
}

// hessian holds F's second derivatives, square, and the sums that they are made of.
type hessian struct {
	sum       []float64 // Q0 + curvature
	curvature []float64 // Σ Jᵀ(diag p - ppᵀ)J
	rowMeans  []float64 // Σ_c p_c a_k(c), n × headStride
	cross     []float64 // Σ_i centred, C × headStride: the block of w and b
	square    []float64 // Σ_i centredᵀ transposed: the block of w
	outer     []float64 // Σ_i p pᵀ, stride × stride: in the block of b
}

// newWeights returns weights for what said will hold, at their prior, with biases or without.
// means are the prior means of the heads' weights.
func newWeights(cfg weightsConfig, means []float64, said *opinions, biased bool) *weights {
	heads, classes := said.heads, said.classes
	n := heads
	if biased {
		n += classes
	}
	w := &weights{cfg: cfg, heads: heads, classes: classes, stride: strideOf(classes), headStride: said.stride, biased: biased, said: said}
	for _, x := range []*[]float64{&w.theta, &w.prior, &w.diagonal} {
		*x = make([]float64, n)
	}
	for _, x := range []*[]float64{&w.precision, &w.hessian.curvature, &w.hessian.sum} {
		*x = make([]float64, n*n)
	}
	w.descent = newDescent(n)
	w.hessian.cross, w.hessian.square = make([]float64, classes*w.headStride), make([]float64, w.headStride*w.headStride)
	for k := range n {
		sd := w.cfg.BiasSD
		if k < heads {
			sd = w.cfg.WeightSD
		}
		w.diagonal[k] = 1 / float64(sd*sd)
		w.precision[k*n+k] = w.diagonal[k]
	}
	copy(w.prior, means)
	copy(w.theta, w.prior)
	return w
}

// logits writes the logits of the rows under theta to dst, n × stride.
func (w *weights) logits(dst, theta []float64, stride int) {
	size := w.heads * w.classes
	for at := 0; at < len(dst); at += stride {
		row := dst[at : at+w.classes]
		clear(row[copy(row, theta[w.heads:]):]) // 0 without biases
	}
	double.AddEach(dst, stride, theta, 0, w.said.a[:len(dst)/stride*size], w.heads, w.classes)
}

// enough is the part of F that is not worth a Newton step.
const enough = 1e-4

// learn updates θ and Q with the labels of the rows. share is the part of a full batch that the rows are.
func (w *weights) learn(labels []int32, share float64) {
	w.forget(share)
	w.centred = kernel.Resize(w.centred, len(w.said.transposed))
	copy(w.descent.from, w.theta)
	f := w.objective(w.theta, labels)
	w.derivatives(labels)
	for step := 0; step < w.cfg.Steps && w.cholesky.factorize(w.hessian.sum, len(w.theta)); step++ {
		copy(w.descent.step, w.descent.gradient)
		w.cholesky.solve(w.descent.step)
		// The Newton decrement is twice what the quadratic model of F still has to fall.
		if decrement := dot(w.descent.step, w.descent.gradient); decrement < enough*(1+f) {
			break
		}
		next, ok := w.lineSearch(f, labels)
		if !ok {
			break
		}
		f = next
		w.derivatives(labels)
	}
	copy(w.precision, w.hessian.sum)
}

// forget replaces Q and θ by Q0 and θ0, for a batch that is the given share of a full one.
func (w *weights) forget(share float64) {
	if w.cfg.Lambda < 1 {
		w.discount(double.Exp(float64(double.Log(w.cfg.Lambda) * share)))
	}
}

// takeOver takes over the posterior, of which it keeps a share: κ = keep. The weights of
// the heads and then the biases of the first classes have the same places in both.
func (w *weights) takeOver(from *weights, keep float64) {
	copy(w.theta, from.theta)
	n, old := len(w.theta), len(from.theta)
	for i := range old {
		copy(w.precision[i*n+i:i*n+old], from.precision[i*old+i:(i+1)*old])
	}
	w.discount(keep)
}

// discount replaces Q and θ by Q0 and θ0 with κ = keep. Should Q0 not factorise, θ stays.
func (w *weights) discount(keep float64) {
	multiplySymmetric(w.descent.pulled, w.precision, w.theta)
	n := len(w.theta)
	for i := range w.descent.pulled {
		w.descent.pulled[i] = float64(keep*w.descent.pulled[i]) + float64((1-keep)*w.diagonal[i]*w.prior[i])
	}
	for i := range w.precision {
		w.precision[i] *= keep
	}
	for i, q := range w.diagonal {
		w.precision[i*n+i] += float64((1 - keep) * q)
	}
	if w.cholesky.factorize(w.precision, n) {
		w.cholesky.solve(w.descent.pulled)
		copy(w.theta, w.descent.pulled)
	}
}

// lineSearch moves θ against step, halved until F falls below f, and returns the new
// F. It reports whether F fell; if not, θ stays.
func (w *weights) lineSearch(f float64, labels []int32) (float64, bool) {
	for scale := 1.0; scale > 1e-6; scale *= 0.5 {
		for i, x := range w.descent.step {
			w.descent.next[i] = w.theta[i] - float64(scale*x)
		}
		if tried := w.objective(w.descent.next, labels); tried < f {
			copy(w.theta, w.descent.next)
			return tried, true
		}
	}
	// F does not fall any more in float64. Restore the probabilities at θ.
	w.objective(w.theta, labels)
	return f, false
}

// objective returns F at theta and sets probs.
func (w *weights) objective(theta []float64, labels []int32) (f float64) {
	w.probs = kernel.Resize(w.probs, len(labels)*w.stride)
	w.logits(w.probs, theta, w.stride)
	f = w.scratch.softmax(w.probs, w.classes, w.stride, labels)
	w.pull(theta)
	return f + float64(0.5*dot(w.descent.pulled, w.descent.offset))
}

// pull sets offset to θ-θ0 and pulled to Q0(θ-θ0), the prior's part of the gradient.
func (w *weights) pull(theta []float64) {
	for i, x := range theta {
		w.descent.offset[i] = x - w.descent.from[i]
	}
	multiplySymmetric(w.descent.pulled, w.precision, w.descent.offset)
}

// derivatives sets the gradient and the Hessian of F at θ, where probs are those at θ.
func (w *weights) derivatives(labels []int32) {
	d, h := &w.descent, &w.hessian
	n, heads, classes, headStride := len(w.theta), w.heads, w.classes, w.headStride
	w.pull(w.theta)
	copy(d.gradient, d.pulled)
	clear(h.cross)
	h.rowMeans = kernel.Resize(h.rowMeans, len(labels)*headStride)
	clear(h.rowMeans)
	double.AddEach(h.rowMeans, headStride, w.probs, w.stride, w.said.transposed, classes, headStride)
	for i, y := range labels {
		p := w.probs[i*w.stride:][:classes]
		a, centred := w.said.transposed[i*classes*headStride:][:classes*headStride], w.centred[i*classes*headStride:][:classes*headStride]
		mean := h.rowMeans[i*headStride:][:headStride]
		double.AddCentred(h.cross, centred, a, p, mean)
		for k, x := range a[int(y)*headStride:][:heads] {
			d.gradient[k] += mean[k] - x
		}
	}
	// The upper triangle of the curvature, at first the block of w.
	clear(h.curvature)
	clear(h.square)
	double.AddTransposed(h.square, w.centred, w.said.transposed, headStride, len(labels)*classes, headStride)
	for k := range heads {
		copy(h.curvature[k*n+k:k*n+heads], h.square[k*headStride+k:])
	}
	if w.biased {
		w.addBiases(labels)
	}
	for i, x := range h.curvature {
		h.sum[i] = w.precision[i] + x
	}
}

// addBiases adds to gradient and curvature what concerns b.
func (w *weights) addBiases(labels []int32) {
	d, h := &w.descent, &w.hessian
	n, heads, classes := len(w.theta), w.heads, w.classes
	for i, y := range labels {
		for c, x := range w.probs[i*w.stride:][:classes] {
			d.gradient[heads+c] += x
			h.curvature[(heads+c)*n+heads+c] += x
		}
		d.gradient[heads+int(y)]--
	}
	for k := range heads {
		for c := range classes {
			h.curvature[k*n+heads+c] = h.cross[c*w.headStride+k]
		}
	}
	// The block of b is Σ diag p - p pᵀ.
	h.outer = kernel.Resize(h.outer, w.stride*w.stride)
	clear(h.outer)
	double.AddTransposed(h.outer, w.probs, w.probs, w.stride, len(labels), w.stride)
	for c := range classes {
		to := h.curvature[(heads+c)*n+heads : (heads+c+1)*n]
		for e := c; e < classes; e++ {
			to[e] -= h.outer[c*w.stride+e]
		}
	}
}

// total returns Σx, summed as four sums, as in dot.
func total(x []float64) (sum float64) {
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(x); i += 4 {
		a := (*[4]float64)(x[i:])
		s0 += a[0]
		s1 += a[1]
		s2 += a[2]
		s3 += a[3]
	}
	sum = (s0 + s1) + (s2 + s3)
	for _, v := range x[i:] {
		sum += v
	}
	return sum
}

// dot returns xᵀy, summed as four sums of every fourth product: one chain of
// additions would wait for itself.
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

func (w *weights) state(s *words.Stream) {
	s.Floats(w.theta)
	n := len(w.theta)
	for i := range n {
		s.Floats(w.precision[i*n+i : (i+1)*n])
	}
	if s.Reads && s.Err == nil {
		s.Check(w.cholesky.factorize(w.precision, n), "the precision of the weights is not positive definite")
	}
}
