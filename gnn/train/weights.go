package train

import (
	"math"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// weights are those of a GraphSAGE encoder in training, and their gradients.
type weights[T float] struct{ layers []layer[T] }

// layer holds a layer's weights as [Neighᵀ | Selfᵀ], in×2·out, so that a
// node's state times the weights is one product.
type layer[T float] struct {
	in, out     int
	both, dBoth []T
	bias, dBias []T
}

// newWeights draws weights uniformly from ±sqrt(6/(in+out)) (Glorot and
// Bengio: Understanding the difficulty of training deep feedforward neural
// networks, 2010, eq. 16). Biases begin at zero.
func newWeights[T float](cfg Config) *weights[T] {
	rng := rand.New(rand.NewPCG(cfg.Seed, 1))
	w := &weights[T]{}
	in := cfg.In
	for l := range len(cfg.Hidden) + 1 {
		out := cfg.Out
		if l < len(cfg.Hidden) {
			out = cfg.Hidden[l]
		}
		both := make([]T, in*2*out)
		limit := math.Sqrt(6 / float64(in+out))
		for i := range both {
			both[i] = T(limit * (2*rng.Float64() - 1))
		}
		w.layers = append(w.layers, layer[T]{
			in: in, out: out,
			both: both, dBoth: make([]T, len(both)),
			bias: make([]T, out), dBias: make([]T, out),
		})
		in = out
	}
	return w
}

// params lists the weights and the bias of each layer in turn, grads their
// gradients.
func (w *weights[T]) params() (list [][]T) {
	for _, l := range w.layers {
		list = append(list, l.both, l.bias)
	}
	return list
}

func (w *weights[T]) grads() (list [][]T) {
	for _, l := range w.layers {
		list = append(list, l.dBoth, l.dBias)
	}
	return list
}

// encoder returns the encoder with these weights.
func (w *weights[T]) encoder() (*gnn.SAGE, error) {
	var layers []gnn.SAGELayer
	for _, l := range w.layers {
		s := gnn.SAGELayer{
			Neigh: make([]float32, l.out*l.in),
			Bias:  make([]float32, l.out),
			Self:  make([]float32, l.out*l.in),
		}
		for j := range l.out {
			s.Bias[j] = float32(l.bias[j])
			for k := range l.in {
				s.Neigh[j*l.in+k] = float32(l.both[k*2*l.out+j])
				s.Self[j*l.in+k] = float32(l.both[k*2*l.out+l.out+j])
			}
		}
		layers = append(layers, s)
	}
	return gnn.NewSAGE(w.layers[0].in, layers...)
}
