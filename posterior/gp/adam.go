package gp

import "math"

// adam is Kingma & Ba's optimiser (2015) with its usual constants.
type adam struct {
	first, second  []float64 // moving averages of gradient and squared gradient
	decay1, decay2 float64   // β₁ᵗ and β₂ᵗ
}

func newAdam(n int) *adam {
	return &adam{first: make([]float64, n), second: make([]float64, n), decay1: 1, decay2: 1}
}

// move takes one step of the given rate down the gradient.
func (a *adam) move(params, grad []float64, rate float64) {
	const beta1, beta2, epsilon = 0.9, 0.999, 1e-8
	a.decay1 *= beta1
	a.decay2 *= beta2
	rate /= 1 - a.decay1
	correct := 1 / (1 - a.decay2)
	for i, g := range grad {
		m := float64(beta1*a.first[i]) + float64((1-beta1)*g)
		v := float64(beta2*a.second[i]) + float64((1-beta2)*g*g)
		a.first[i], a.second[i] = m, v
		params[i] -= rate * m / (math.Sqrt(v*correct) + epsilon)
	}
}
