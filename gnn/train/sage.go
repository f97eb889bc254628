package train

import (
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// sage is a GraphSAGE layer, see [gnn.SAGELayer]:
//
//	y_i = Bias + Self·h_i + mean over j in N(i) of Neigh·h_j
//
// The state is multiplied first, where it is sparse, and the narrower product
// aggregated.
type sage[T float] struct {
	in, out int
	both    param[T] // [Neighᵀ | Selfᵀ], in×2·out: one product serves both
	bias    param[T]
}

func newSAGE[T float](rng *rand.Rand, in, out int) *sage[T] {
	s := &sage[T]{in: in, out: out, both: newParam[T](in*2*out, true), bias: newParam[T](out, false)}
	s.both.glorot(rng, in, out)
	return s
}

func importSAGE[T float](l gnn.SAGELayer, in int) *sage[T] {
	out := len(l.Bias)
	s := &sage[T]{in: in, out: out, both: newParam[T](in*2*out, true), bias: newParam[T](out, false)}
	for j := range out {
		s.bias.value[j] = T(l.Bias[j])
		for k := range in {
			s.both.value[k*2*out+j] = T(l.Neigh[j*in+k])
			s.both.value[k*2*out+out+j] = T(l.Self[j*in+k])
		}
	}
	return s
}

func (s *sage[T]) export() gnn.SAGELayer {
	l := gnn.SAGELayer{Neigh: make([]float32, s.out*s.in), Self: make([]float32, s.out*s.in), Bias: make([]float32, s.out)}
	for j := range s.out {
		l.Bias[j] = float32(s.bias.value[j])
		for k := range s.in {
			l.Neigh[j*s.in+k] = float32(s.both.value[k*2*s.out+j])
			l.Self[j*s.in+k] = float32(s.both.value[k*2*s.out+s.out+j])
		}
	}
	return l
}

func (s *sage[T]) width() int         { return s.out }
func (s *sage[T]) params() []param[T] { return []param[T]{s.both, s.bias} }

// mixing is the mean over the neighbours.
func (s *sage[T]) aggregation(hood *neighbourhood, n int) sparse[T] {
	mix := sparse[T]{start: make([]int, 1, n+1)}
	for _, from := range hood.sources[:n] {
		for _, j := range from {
			mix.add(j, 1/T(len(from)))
		}
		mix.next()
	}
	return mix
}

type sagePass[T float] struct {
	*sage[T]
	x       *input[T]
	mix     sparse[T]
	spread  sparse[T] // transpose of mix
	p, dp   []T       // X·both, and its gradient
	outputs int
}

func (s *sage[T]) pass(x *input[T], mix sparse[T], outputs int, _ *dropout[T]) pass[T] {
	p := &sagePass[T]{sage: s, x: x, mix: mix, outputs: outputs}
	p.p, p.dp = make([]T, x.rows*2*s.out), make([]T, x.rows*2*s.out)
	p.spread = newSparse[T](x.rows, len(mix.index))
	mix.transpose(&p.spread)
	return p
}

func (p *sagePass[T]) forward(state []T) {
	width := 2 * p.out
	p.x.times(p.p, p.both.value, width)
	for i := range p.outputs {
		y := state[i*p.out : (i+1)*p.out]
		copy(y, p.bias.value)
		axpy(y, 1, p.p[i*width+p.out:(i+1)*width])
		index, value := p.mix.row(i)
		gather(y, index, value, p.p, width)
	}
}

func (p *sagePass[T]) backward(grad []T) {
	clear(p.bias.grad)
	sum(p.bias.grad, grad)
	width := 2 * p.out
	clear(p.dp)
	for j := range p.x.rows {
		index, value := p.spread.row(j)
		gather(p.dp[j*width:j*width+p.out], index, value, grad, p.out)
		if j < p.outputs {
			copy(p.dp[j*width+p.out:], grad[j*p.out:(j+1)*p.out])
		}
	}
	p.x.backward(p.both.grad, p.dp, p.both.value, width)
}
