package train

import "math"

// adam is the optimiser of Kingma and Ba (Adam: A Method for Stochastic
// Optimization, 2015, Algorithm 1), for one slice of parameters. Weight decay
// is an L2 term of the loss, as torch.optim.Adam has it, and not decoupled: a
// weight that the few training nodes say nothing about then has no gradient but
// its decay's, which Adam scales up, so it goes to zero and does not stay at the
// noise it began with. On a subgraph with hardly an edge those are the
// neighbours' weights.
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
	pull := T(decay)
	b1, c1, b2, c2, eps := T(beta1), T(1-beta1), T(beta2), T(1-beta2), T(epsilon)
	first, second, param := a.first[:len(a.grad)], a.second[:len(a.grad)], a.param[:len(a.grad)]
	for i, g := range a.grad {
		g += T(pull * param[i])
		m := T(b1*first[i]) + T(c1*g)
		v := T(b2*second[i]) + T(c2*T(g*g))
		first[i], second[i] = m, v
		param[i] -= T(size*m) / (T(T(math.Sqrt(float64(v)))*root) + eps)
	}
}
