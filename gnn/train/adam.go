package train

import "math"

// adam is the optimiser of Kingma and Ba (Adam: A Method for Stochastic
// Optimization, 2015, Algorithm 1) with decoupled weight decay (Loshchilov and
// Hutter: Decoupled Weight Decay Regularization, 2019, Algorithm 2), for one
// slice of parameters.
type adam[T float] struct {
	param, grad    []T
	first, second  []T     // moments
	power1, power2 float64 // β1^t, β2^t
}

// The constants that Kingma and Ba recommend.
const (
	beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-8
)

func newAdam[T float](param, grad []T) adam[T] {
	return adam[T]{param: param, grad: grad, first: make([]T, len(param)), second: make([]T, len(param)), power1: 1, power2: 1}
}

// step changes the parameters by one step of the given learning rate.
func (a *adam[T]) step(rate, decay float64) {
	a.power1 *= beta1
	a.power2 *= beta2
	// θ -= rate · (m/(1-β1^t)) / (sqrt(v/(1-β2^t)) + ε), with what does not
	// change from entry to entry taken out.
	size := T(rate / (1 - a.power1))
	root := T(1 / math.Sqrt(1-a.power2))
	keep := T(1 - rate*decay)
	b1, c1, b2, c2, eps := T(beta1), T(1-beta1), T(beta2), T(1-beta2), T(epsilon)
	first, second, param := a.first[:len(a.grad)], a.second[:len(a.grad)], a.param[:len(a.grad)]
	for i, g := range a.grad {
		m := T(b1*first[i]) + T(c1*g)
		v := T(b2*second[i]) + T(c2*T(g*g))
		first[i], second[i] = m, v
		param[i] = T(keep*param[i]) - T(size*m)/(T(T(math.Sqrt(float64(v)))*root)+eps)
	}
}
