package table

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
)

// TestLinearGradients: every gradient of the linear head's loss, with respect to W, b and
// the rows, agrees with finite differences; and the loss that is minimised is that of the
// probabilities that are predicted.
func TestLinearGradients(t *testing.T) {
	const n, dim, classes = 5, 4, 3
	rng := rand.New(rand.NewPCG(1, 2))
	h := newLinear(dim, classes, .1, 3)
	for c := range h.params[1] {
		h.params[1][c] = rng.NormFloat64()
	}
	z, dz := make([]float64, n*dim), make([]float64, n*dim)
	for i := range z {
		z[i] = rng.NormFloat64()
	}
	labels := []int32{0, 2, 1, 2, 0}
	discard := make([]float64, len(z))
	loss := func() float64 { return h.Loss(z, labels, 0, 1, nil, discard).Total }
	first := h.Loss(z, labels, 0, 1, nil, dz)
	grads := [][]float64{slices.Clone(h.grads[0]), slices.Clone(h.grads[1]), dz}
	for k, x := range [][]float64{h.params[0], h.params[1], z} {
		original := slices.Clone(x)
		want := fd.Gradient(nil, func(at []float64) float64 {
			copy(x, at)
			return loss()
		}, original, &fd.Settings{Formula: fd.Central})
		copy(x, original)
		for i := range want {
			if math.Abs(want[i]-grads[k][i]) > 1e-7 {
				t.Errorf("gradient %d of part %d is %v, want %v by finite differences", i, k, grads[k][i], want[i])
			}
		}
	}

	z32, probs := make([]float32, len(z)), make([]float64, n*classes)
	for i := range z {
		z32[i] = float32(z[i])
	}
	h.predict(z32, probs)
	ell, correct := 0.0, 0
	for i, y := range labels {
		row := probs[i*classes : (i+1)*classes]
		ell += math.Log(row[y]) / n
		if argmax(row) == int(y) {
			correct++
		}
	}
	if math.Abs(ell-first.ELL) > 1e-6 || correct != first.Correct {
		t.Errorf("loss: log likelihood %v and %d correct; predictions: %v and %d; want the same", first.ELL, first.Correct, ell, correct)
	}
}

// TestSoftmax: logits far outside exp's range give exact probabilities and a finite
// logarithm of their sum.
func TestSoftmax(t *testing.T) {
	a := []float64{1e4, 1e4 + math.Log(3), -1e4}
	if sum := softmax(a); math.Abs(sum-1e4-math.Log(4)) > 1e-9 || math.Abs(a[0]-.25) > 1e-12 || math.Abs(a[1]-.75) > 1e-12 || a[2] != 0 {
		t.Errorf("got probabilities %v and logarithm of the sum %v, want [0.25 0.75 0] and 10000+log(4)", a, sum)
	}
}
