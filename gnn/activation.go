package gnn

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/elementary"
)

// Activation is the function between layers, as model files name it.
type Activation string

// The activations. The empty Activation is ReLU.
const (
	ReLU Activation = "relu" // max(x, 0)
	ELU  Activation = "elu"  // x for x ≥ 0, exp(x) - 1 below (Clevert et al. 2016, α = 1)
)

// check returns the activation with the default filled in, or an error if it is
// unknown.
func (a Activation) check() (Activation, error) {
	switch a {
	case "", ReLU:
		return ReLU, nil
	case ELU:
		return ELU, nil
	}
	return "", fmt.Errorf("activation %q: it is one of %s, %s", string(a), ReLU, ELU)
}

// apply replaces x by its image, entry by entry.
func (a Activation) apply(x []float32) {
	if a == ELU {
		for i, v := range x {
			if v < 0 {
				x[i] = expm1(v)
			}
		}
		return
	}
	kernel.Rectify(x, x)
}

// expm1 is e^x - 1 for x < 0, with an error of at most one unit in the last place.
func expm1(x float32) float32 {
	y := float64(x)
	if y > -0x1p-10 {
		// Near 0 the subtraction would cancel; the series of three terms has a
		// remainder below |y|³/24 of the sum, 4e-11.
		return float32(y + float64(float64(y*y)*(0.5+float64(y*(1./6)))))
	}
	return float32(elementary.Exp(y) - 1)
}
