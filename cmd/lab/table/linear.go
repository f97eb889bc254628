package table

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/gvbll/gvbll/gnn/train"
)

// linear trains an encoder whose embeddings a Gaussian process will take: a layer
// zᵀW + b on top of them has the logits. GVBLL has a distribution in place of its weights.
type linear struct {
	logits
	dim   int
	decay float64 // of the L2 term ½·decay·‖W‖², the same as the encoder's

	params, grads [][]float64 // W, dim × classes, and b
	a, da         []float64   // logits of the rows, and their gradients
}

var _ train.Head = (*linear)(nil)

// newLinear draws W uniformly from ±sqrt(6/(dim+classes)), as the encoder draws its
// weights (Glorot and Bengio 2010). b starts at zero.
func newLinear(dim, classes int, decay float64, seed uint64) *linear {
	h := &linear{
		logits: logits{classes}, dim: dim, decay: decay,
		params: [][]float64{make([]float64, dim*classes), make([]float64, classes)},
		grads:  [][]float64{make([]float64, dim*classes), make([]float64, classes)},
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
func (h *linear) Loss(z []float64, labels []int32, epoch, epochs int, rng *rand.Rand, dz []float64) train.Loss {
	w, dw, db := h.params[0], h.grads[0], h.grads[1]
	n := len(labels) * h.classes
	if len(h.a) != n {
		h.a, h.da = make([]float64, n), make([]float64, n)
	}
	for i := range labels {
		a := h.a[i*h.classes : (i+1)*h.classes]
		copy(a, h.params[1])
		for j, x := range z[i*h.dim : (i+1)*h.dim] {
			floats.AddScaled(a, x, w[j*h.classes:(j+1)*h.classes])
		}
	}
	loss := h.logits.Loss(h.a, labels, epoch, epochs, rng, h.da)
	clear(dw)
	clear(db)
	for i := range labels {
		da := h.da[i*h.classes : (i+1)*h.classes]
		floats.AddScaled(db, 1, da)
		for j, x := range z[i*h.dim : (i+1)*h.dim] {
			floats.AddScaled(dw[j*h.classes:(j+1)*h.classes], x, da)
			dz[i*h.dim+j] = dot(w[j*h.classes:(j+1)*h.classes], da)
		}
	}
	floats.AddScaled(dw, h.decay, w)
	loss.Total += float64(h.decay * dot(w, w) / 2)
	return loss
}

// dot returns the inner product.
func dot(x, y []float64) (sum float64) {
	for i, v := range x {
		sum += float64(v * y[i])
	}
	return sum
}
