package train

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// optimizer updates the parameters of encoder and head by their gradients.
type optimizer struct {
	weights []adam[float32]
	head    []adam[float64]
	rate    float64
}

func newOptimizer(weights []param[float32], head Head, cfg Config) *optimizer {
	o := &optimizer{rate: cfg.LearningRate}
	for _, p := range weights {
		decay := 0.0
		if p.decays {
			decay = cfg.WeightDecay
		}
		o.weights = append(o.weights, newAdam(p.value, p.grad, decay))
	}
	grads := head.Grads()
	for i, p := range head.Params() {
		o.head = append(o.head, newAdam(p, grads[i], 0))
	}
	return o
}

func (o *optimizer) step() {
	for i := range o.weights {
		o.weights[i].step(o.rate)
	}
	for i := range o.head {
		o.head[i].step(o.rate)
	}
}

// adam is the optimiser of Kingma and Ba (Adam: A Method for Stochastic
// Optimization, 2015, Algorithm 1), for one slice of parameters.
//
// Weight decay is an L2 term of the loss, as in torch.optim.Adam, not decoupled.
// The difference matters for a weight that does not affect the loss of the few
// training nodes: its gradient is that of the decay alone, which Adam scales up,
// so it goes to zero instead of staying near its random initial value. On a
// subgraph with hardly an edge, these are the weights of the neighbours.
type adam[T float] struct {
	param, grad    []T
	first, second  []T // moments m and v
	decay          float64
	power1, power2 float64 // β1^t, β2^t
}

// The constants that Kingma and Ba recommend.
const (
	beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-8
)

func newAdam[T float](param, grad []T, decay float64) adam[T] {
	return adam[T]{
		param: param, grad: grad, first: make([]T, len(param)), second: make([]T, len(param)), decay: decay,
		power1: 1, power2: 1,
	}
}

// step changes the parameters by one step of the given learning rate:
//
//	θ -= rate · (m/(1-β1^t)) / (√(v/(1-β2^t)) + ε)
//
// with the factors that all entries share computed once.
func (a *adam[T]) step(rate float64) {
	a.power1 = float64(a.power1 * beta1)
	a.power2 = float64(a.power2 * beta2)
	size, root := rate/(1-a.power1), 1/math.Sqrt(1-a.power2)
	if p, ok := any(a.param).([]float32); ok {
		kernel.Adam(p, any(a.grad).([]float32), any(a.first).([]float32), any(a.second).([]float32), kernel.AdamStep{
			Size: float32(size), Root: float32(root), Decay: float32(a.decay), Beta1: beta1, Beta2: beta2, Epsilon: epsilon,
		})
		return
	}
	for i, g := range a.grad {
		g += T(T(a.decay) * a.param[i])
		a.first[i] = T(beta1*a.first[i]) + T((1-beta1)*g)
		a.second[i] = T(beta2*a.second[i]) + T((1-beta2)*g*g)
		a.param[i] -= T(size) * a.first[i] / (T(T(math.Sqrt(float64(a.second[i])))*T(root)) + epsilon)
	}
}
