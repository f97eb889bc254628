package table

import (
	"math"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn/train"
)

// linear is the usual last layer, softmax(zᵀW + b), trained by cross-entropy. GVBLL has
// a distribution in place of its weights.
type linear struct {
	dim, classes int
	decay        float64 // of the L2 term ½·decay·‖W‖², the same as the encoder's

	params, grads [][]float64 // W, dim × classes, and b
	logits        []float64   // of one row
}

var _ train.Head = (*linear)(nil)

// newLinear draws W uniformly from ±sqrt(6/(dim+classes)), as the encoder draws its
// weights (Glorot and Bengio 2010). b starts at zero.
func newLinear(dim, classes int, decay float64, seed uint64) *linear {
	h := &linear{
		dim: dim, classes: classes, decay: decay,
		params: [][]float64{make([]float64, dim*classes), make([]float64, classes)},
		grads:  [][]float64{make([]float64, dim*classes), make([]float64, classes)},
		logits: make([]float64, classes),
	}
	rng := rand.New(rand.NewPCG(seed, 0x6c696e656172))
	limit := math.Sqrt(6 / float64(dim+classes))
	for i := range h.params[0] {
		h.params[0][i] = limit * (2*rng.Float64() - 1)
	}
	return h
}

func (h *linear) Params() [][]float64 { return h.params }
func (h *linear) Grads() [][]float64  { return h.grads }

// Loss implements train.Head: the mean cross-entropy plus the L2 term.
func (h *linear) Loss(z []float64, labels []int32, _, _ int, _ *rand.Rand, dz []float64) (loss train.Loss) {
	w, dw, db := h.params[0], h.grads[0], h.grads[1]
	clear(dw)
	clear(db)
	n := float64(len(labels))
	p := h.logits
	for i, y := range labels {
		row, dRow := z[i*h.dim:(i+1)*h.dim], dz[i*h.dim:(i+1)*h.dim]
		copy(p, h.params[1])
		for j, x := range row {
			axpy(p, x, w[j*h.classes:(j+1)*h.classes])
		}
		if argmax(p) == int(y) {
			loss.Correct++
		}
		at := p[y]
		loss.ELL += (at - softmax(p)) / n
		p[y]-- // p is now the gradient of the row's loss with respect to its logits
		for c := range p {
			p[c] /= n
			db[c] += p[c]
		}
		for j, x := range row {
			axpy(dw[j*h.classes:(j+1)*h.classes], x, p)
			dRow[j] = dot(w[j*h.classes:(j+1)*h.classes], p)
		}
	}
	axpy(dw, h.decay, w)
	loss.Total = float64(h.decay*dot(w, w)/2) - loss.ELL
	return loss
}

// scores computes the logits zᵀW + b of every row into dst, n × classes.
func (h *linear) scores(z []float32, dst []float64) {
	for i := range len(z) / h.dim {
		a := dst[i*h.classes : (i+1)*h.classes]
		copy(a, h.params[1])
		for j, x := range z[i*h.dim : (i+1)*h.dim] {
			axpy(a, float64(x), h.params[0][j*h.classes:(j+1)*h.classes])
		}
	}
}

// predict computes the class probabilities of every row into dst, n × classes.
func (h *linear) predict(z []float32, dst []float64) {
	h.scores(z, dst)
	for lo := 0; lo < len(dst); lo += h.classes {
		softmax(dst[lo : lo+h.classes])
	}
}

// softmax turns logits into probabilities, and returns the logarithm of the sum of
// their exponentials. It uses math.Exp2, which has the same bits on every amd64
// machine; math.Exp has not.
func softmax(a []float64) (logSum float64) {
	top, sum := a[argmax(a)], 0.0
	for c, x := range a {
		a[c] = math.Exp2((x - top) * math.Log2E)
		sum += a[c]
	}
	for c := range a {
		a[c] /= sum
	}
	return top + math.Log(sum)
}

// argmax returns the lowest index of the largest entry.
func argmax(a []float64) (best int) {
	for c, x := range a {
		if x > a[best] {
			best = c
		}
	}
	return best
}

// axpy adds s·x to dst.
func axpy(dst []float64, s float64, x []float64) {
	for i, v := range x {
		dst[i] += float64(s * v)
	}
}

// dot returns the inner product.
func dot(x, y []float64) (sum float64) {
	for i, v := range x {
		sum += float64(v * y[i])
	}
	return sum
}
