package posterior

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel/double"

	"github.com/gvbll/gvbll/posterior/internal/check"
)

// tauFloor is the least temperature. eq:lik allows any τ > 0, but a row adds z²/τ² to
// the precision: below the floor one row would outweigh a million rows of τ = 1.
const tauFloor = 1e-3

// Temperature is the shared multilayer perceptron of eq:lik,
// τ = max(softplus(h(z)), tauFloor), h(z) = W2ᵀ relu(W1ᵀz + B1) + B2. A nil
// *Temperature is the constant τ = 1.
type Temperature struct {
	Dim, Hidden int
	W1          []float64 // Dim × Hidden: the transpose of torch.nn.Linear's weight
	B1          []float64 // Hidden
	W2          []float64 // Hidden
	B2          float64
}

// Validate reports shapes that do not fit and weights that are not finite.
func (t *Temperature) Validate() error {
	if t == nil {
		return nil
	}
	if t.Dim <= 0 || t.Hidden <= 0 {
		return fmt.Errorf("posterior: temperature of %d inputs and %d hidden units: both must be positive (leave the "+
			"temperature out for τ = 1)", t.Dim, t.Hidden)
	}
	n := len(t.W1)
	if n/t.Hidden != t.Dim || n%t.Hidden != 0 || len(t.B1) != t.Hidden || len(t.W2) != t.Hidden {
		return fmt.Errorf("posterior: temperature of %d inputs and %d hidden units has %d, %d and %d weights in "+
			"W1, B1 and W2", t.Dim, t.Hidden, n, len(t.B1), len(t.W2))
	}
	for _, w := range [...][]float64{t.W1, t.B1, t.W2, {t.B2}} {
		for _, x := range w {
			if !check.Finite(x) {
				return fmt.Errorf("posterior: temperature has a weight of %v", x)
			}
		}
	}
	return nil
}

// At returns τ of a node with embedding z, positive and finite for a finite z.
func (t *Temperature) At(z []float32) float64 {
	if t == nil {
		return 1
	}
	if len(z) != t.Dim {
		panic(fmt.Sprintf("posterior: temperature of %d inputs at an embedding of %d", t.Dim, len(z)))
	}
	// Blocks of hidden units, so that the buffer stays on the stack.
	var block [32]float64
	h := t.B2
	for lo := 0; lo < t.Hidden; lo += len(block) {
		hi := min(lo+len(block), t.Hidden)
		a := block[:hi-lo]
		copy(a, t.B1[lo:hi])
		for j, x := range z {
			double.AddScaled(a, float64(x), t.W1[j*t.Hidden+lo:j*t.Hidden+hi])
		}
		for k, x := range a {
			if x > 0 {
				h += float64(x * t.W2[lo+k])
			}
		}
	}
	return max(double.Softplus(h), tauFloor)
}
