package train

import (
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/gnn"
)

// sage is a GraphSAGE layer, for edges of several kinds, see [gnn.SAGEKinds], or with one mean
// for all edges, see [gnn.SAGELayer]:
//
//	y_i = Bias + Self·h_i + Σ_k mean_{j ∈ N_k(i)} Neigh_k·h_j
//
// States are projected first, when they may be sparse, and the narrower products summed: the
// product P = X·all is read as a matrix of (means+1)·rows rows of width out: those of node j are
// Neigh_0·h_j to Self·h_j. So the layer is one sum over rows of P, whose coefficients are
// w/Σw, and 1 for the node's own.
type sage[T float] struct {
	in, out, means int
	all            param[T] // [Neigh_0ᵀ | … | Selfᵀ], in×(means+1)·out
	bias           param[T] // out
}

func newSAGE[T float](rng *rand.Rand, in, out, means int) *sage[T] {
	s := allocSAGE[T](in, out, means)
	s.all.glorot(rng, in, out)
	return s
}

func allocSAGE[T float](in, out, means int) *sage[T] {
	return &sage[T]{in: in, out: out, means: means, all: newParam[T](in*(means+1)*out, true), bias: newParam[T](out, false)}
}

// importSAGE converts a layer of one mean.
func importSAGE[T float](l gnn.SAGELayer, in int) *sage[T] {
	out := len(l.Bias)
	s := allocSAGE[T](in, out, 1)
	convert(s.bias.value, l.Bias)
	transpose(s.all.value, slices.Concat(l.Neigh, l.Self), 2*out, in)
	return s
}

func (s *sage[T]) exportPlain() gnn.SAGELayer {
	l := s.export()
	return gnn.SAGELayer{Neigh: l.Neigh[0], Self: l.Self, Bias: l.Bias}
}

func (s *sage[T]) export() gnn.KindsLayer {
	all := exportWeight(s.all.value, s.in, (s.means+1)*s.out)
	l := gnn.KindsLayer{Bias: exportVector(s.bias.value), Self: all[s.means*s.out*s.in:]}
	for k := range s.means {
		l.Neigh = append(l.Neigh, all[k*s.out*s.in:(k+1)*s.out*s.in])
	}
	return l
}

func (s *sage[T]) width() int         { return s.out }
func (s *sage[T]) params() []param[T] { return []param[T]{s.all, s.bias} }

func (s *sage[T]) coefficients(hood *neighbourhood, n int) sparse[T] {
	a := sparse[T]{start: make([]int, 1, n+1)}
	total := make([]float64, s.means)
	for i, sources := range hood.sources[:n] {
		clear(total)
		own := int32(i*(s.means+1) + s.means)
		if hood.mean == nil {
			a.add(own, 1)
		}
		for t := range sources {
			k, w := hood.edge(i, t)
			total[k] += w
		}
		for t, j := range sources {
			k, w := hood.edge(i, t)
			a.add(j*int32(s.means+1)+int32(k), T(w/total[k]))
		}
		if hood.mean != nil {
			a.add(own, 1)
		}
		a.endRow()
	}
	return a
}

type sagePass[T float] struct {
	*sage[T]
	aggregation[T]
}

func (s *sage[T]) pass(x *input[T], a sparse[T], outputs int, _ *dropout[T]) pass[T] {
	rows := x.rows * (s.means + 1)
	p := &sagePass[T]{s, aggregation[T]{x: x, a: a, outputs: outputs, width: s.out, at: newSparse[T](rows, len(a.index))}}
	p.p, p.dp = make([]T, rows*s.out), make([]T, rows*s.out)
	a.transpose(&p.at)
	return p
}

func (p *sagePass[T]) forward(state []T) {
	p.x.times(p.p, p.all.value, (p.means+1)*p.out)
	for i := range p.outputs {
		y := state[i*p.out : (i+1)*p.out]
		copy(y, p.bias.value)
		p.add(y, i)
	}
}

func (p *sagePass[T]) backward(grad []T) {
	sumRows(p.bias.grad, grad)
	clear(p.dp)
	for r := range p.x.rows * (p.means + 1) {
		p.addBack(p.gradRow(r), r, grad)
	}
	p.x.backward(p.all.grad, p.dp, p.all.value, (p.means+1)*p.out)
}
