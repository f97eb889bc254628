package train

import (
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// sage is a GraphSAGE layer, see [gnn.SAGELayer]:
//
//	y_i = Bias + Self·h_i + mean_{j ∈ N(i)} Neigh·h_j
//
// States are projected first, when they may be sparse, and the narrower products
// aggregated.
type sage[T float] struct {
	in, out int
	both    param[T] // [Neighᵀ | Selfᵀ], in×2·out: one product computes both
	bias    param[T] // out
}

func newSAGE[T float](rng *rand.Rand, in, out int) *sage[T] {
	s := allocSAGE[T](in, out)
	s.both.glorot(rng, in, out)
	return s
}

func allocSAGE[T float](in, out int) *sage[T] {
	return &sage[T]{in: in, out: out, both: newParam[T](in*2*out, true), bias: newParam[T](out, false)}
}

// importSAGE converts a layer.
func importSAGE[T float](l gnn.SAGELayer, in int) *sage[T] {
	out := len(l.Bias)
	s := allocSAGE[T](in, out)
	convert(s.bias.value, l.Bias)
	for j := range out {
		for k := range in {
			s.both.value[k*2*out+j] = T(l.Neigh[j*in+k])
			s.both.value[k*2*out+out+j] = T(l.Self[j*in+k])
		}
	}
	return s
}

func (s *sage[T]) export() gnn.SAGELayer {
	l := gnn.SAGELayer{Neigh: make([]float32, s.out*s.in), Self: make([]float32, s.out*s.in), Bias: exportVector(s.bias.value)}
	for j := range s.out {
		for k := range s.in {
			l.Neigh[j*s.in+k] = float32(s.both.value[k*2*s.out+j])
			l.Self[j*s.in+k] = float32(s.both.value[k*2*s.out+s.out+j])
		}
	}
	return l
}

func (s *sage[T]) width() int         { return s.out }
func (s *sage[T]) params() []param[T] { return []param[T]{s.both, s.bias} }

// coefficients are those of the mean over the neighbours.
func (s *sage[T]) coefficients(hood *neighbourhood, n int) sparse[T] {
	a := sparse[T]{start: make([]int, 1, n+1)}
	for _, sources := range hood.sources[:n] {
		for _, j := range sources {
			a.add(j, 1/T(len(sources)))
		}
		a.endRow()
	}
	return a
}

type sagePass[T float] struct {
	*sage[T]
	aggregation[T] // P = X·both
}

func (s *sage[T]) pass(x *input[T], a sparse[T], outputs int, _ *dropout[T]) pass[T] {
	return &sagePass[T]{sage: s, aggregation: newAggregation(x, a, outputs, 2*s.out)}
}

func (p *sagePass[T]) forward(state []T) {
	p.project(p.both.value)
	for i := range p.outputs {
		y := state[i*p.out : (i+1)*p.out]
		copy(y, p.bias.value)
		axpy(y, 1, p.row(i)[p.out:])
		p.add(y, i)
	}
}

func (p *sagePass[T]) backward(grad []T) {
	sumRows(p.bias.grad, grad)
	clear(p.dp)
	for j := range p.x.rows {
		dp := p.gradRow(j)
		p.addBack(dp[:p.out], j, grad)
		if j < p.outputs {
			copy(dp[p.out:], grad[j*p.out:(j+1)*p.out])
		}
	}
	p.x.backward(p.both.grad, p.dp, p.both.value, p.aggregation.width)
}
