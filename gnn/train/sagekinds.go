package train

import (
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// sageKinds is a GraphSAGE layer for edges of several kinds, see [gnn.SAGEKinds]. Its product
// P = X·all is read as a matrix of (means+1)·rows rows of width out: those of node j are
// Neigh_0·h_j to Self·h_j. So the layer is one sum over rows of P, whose coefficients are
// w/Σw, and 1 for the node's own.
type sageKinds[T float] struct {
	in, out, means int
	all            param[T] // [Neigh_0ᵀ | … | Selfᵀ], in×(means+1)·out
	bias           param[T] // out
}

func newSAGEKinds[T float](rng *rand.Rand, in, out, means int) *sageKinds[T] {
	s := &sageKinds[T]{in: in, out: out, means: means, all: newParam[T](in*(means+1)*out, true), bias: newParam[T](out, false)}
	s.all.glorot(rng, in, out)
	return s
}

func (s *sageKinds[T]) export() gnn.KindsLayer {
	all := exportWeight(s.all.value, s.in, (s.means+1)*s.out)
	l := gnn.KindsLayer{Bias: exportVector(s.bias.value), Self: all[s.means*s.out*s.in:]}
	for k := range s.means {
		l.Neigh = append(l.Neigh, all[k*s.out*s.in:(k+1)*s.out*s.in])
	}
	return l
}

func (s *sageKinds[T]) width() int         { return s.out }
func (s *sageKinds[T]) params() []param[T] { return []param[T]{s.all, s.bias} }

func (s *sageKinds[T]) coefficients(hood *neighbourhood, n int) sparse[T] {
	a := sparse[T]{start: make([]int, 1, n+1)}
	of := func(e int32) (k int, w float64) {
		if hood.mean == nil {
			return 0, 1
		}
		return int(hood.mean[e]), float64(hood.weight[e])
	}
	total := make([]float64, s.means)
	for i, sources := range hood.sources[:n] {
		clear(total)
		edge := func(t int) int32 { return 0 }
		if hood.edges != nil {
			edge = func(t int) int32 { return hood.edges[i][t] }
		}
		for t := range sources {
			k, w := of(edge(t))
			total[k] += w
		}
		for t, j := range sources {
			k, w := of(edge(t))
			a.add(j*int32(s.means+1)+int32(k), T(w/total[k]))
		}
		a.add(int32(i*(s.means+1)+s.means), 1)
		a.endRow()
	}
	return a
}

type sageKindsPass[T float] struct {
	*sageKinds[T]
	aggregation[T]
}

func (s *sageKinds[T]) pass(x *input[T], a sparse[T], outputs int, _ *dropout[T]) pass[T] {
	rows := x.rows * (s.means + 1)
	p := &sageKindsPass[T]{s, aggregation[T]{x: x, a: a, outputs: outputs, width: s.out, at: newSparse[T](rows, len(a.index))}}
	p.p, p.dp = make([]T, rows*s.out), make([]T, rows*s.out)
	a.transpose(&p.at)
	return p
}

func (p *sageKindsPass[T]) forward(state []T) {
	p.x.times(p.p, p.all.value, (p.means+1)*p.out)
	for i := range p.outputs {
		y := state[i*p.out : (i+1)*p.out]
		copy(y, p.bias.value)
		p.add(y, i)
	}
}

func (p *sageKindsPass[T]) backward(grad []T) {
	sumRows(p.bias.grad, grad)
	clear(p.dp)
	for r := range p.x.rows * (p.means + 1) {
		p.addBack(p.gradRow(r), r, grad)
	}
	p.x.backward(p.all.grad, p.dp, p.all.value, (p.means+1)*p.out)
}
