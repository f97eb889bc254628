package table

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
)

// TestLinearGradients: every gradient of the linear head's loss, with respect to W, b and
// the rows, agrees with finite differences. With no layer on top, the rows are logits.
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
	h.Loss(z, labels, 0, 1, nil, dz)
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
}

// TestLogits: the loss that is minimised is that of the probabilities that are predicted.
func TestLogits(t *testing.T) {
	const classes = 3
	a32 := []float32{2, 1, -1, 0, .5, 0, -3, 1, 2}
	labels := []int32{0, 2, 1}
	a, da, probs := make([]float64, len(a32)), make([]float64, len(a32)), make([]float64, len(a32))
	for i, x := range a32 {
		a[i] = float64(x)
	}
	loss := (&logits{classes}).Loss(a, labels, 0, 1, nil, da)
	probabilities(a32, classes, 1, probs)
	ell, correct := 0.0, 0
	for i, y := range labels {
		row := probs[i*classes : (i+1)*classes]
		ell += math.Log(row[y]) / 3
		if argmax(row) == int(y) {
			correct++
		}
		row[y]--
		for c, x := range row {
			if math.Abs(x/3-da[i*classes+c]) > 1e-12 {
				t.Errorf("row %d: gradient %v, want (p - y)/n = %v", i, da[i*classes+c], x/3)
			}
		}
	}
	if math.Abs(ell-loss.ELL) > 1e-12 || correct != loss.Correct {
		t.Errorf("loss: log likelihood %v and %d correct; predictions: %v and %d; want the same", loss.ELL, loss.Correct, ell, correct)
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
