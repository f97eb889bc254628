package train

import (
	"math"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// gcn is a graph convolution, see [gnn.GCNLayer]:
//
//	y_i = Bias + Σ_{j ∈ N(i) ∪ {i}} Weight·h_j / √(d_j·d_i)
//
// where d_i is the number of terms in i's sum; with weights on edges, see [gnn.GCN.Weighed], j's
// term is multiplied by its weight, and d_i is 1 + the sum of the weights.
type gcn[T float] struct {
	in, out int
	weight  param[T] // in×out
	bias    param[T] // out
}

func newGCN[T float](rng *rand.Rand, in, out int) *gcn[T] {
	g := allocGCN[T](in, out)
	g.weight.glorot(rng, in, out)
	return g
}

func allocGCN[T float](in, out int) *gcn[T] {
	return &gcn[T]{in: in, out: out, weight: newParam[T](in*out, true), bias: newParam[T](out, false)}
}

func (g *gcn[T]) export() gnn.GCNLayer {
	return gnn.GCNLayer{Weight: exportWeight(g.weight.value, g.in, g.out), Bias: exportVector(g.bias.value)}
}

func (g *gcn[T]) width() int         { return g.out }
func (g *gcn[T]) params() []param[T] { return []param[T]{g.weight, g.bias} }

// coefficients are those of the normalised adjacency matrix with one loop at
// every node.
func (g *gcn[T]) coefficients(hood *neighbourhood, n int) sparse[T] {
	root := func(i int32) float64 { return 1 / math.Sqrt(hood.inDegree[i]+1) }
	a := sparse[T]{start: make([]int, 1, n+1)}
	for i, sources := range hood.sources[:n] {
		own := root(int32(i))
		a.add(int32(i), T(own*own))
		for t, j := range sources {
			if int(j) != i {
				_, w := hood.edge(i, t)
				a.add(j, T(own*root(j)*w))
			}
		}
		a.endRow()
	}
	return a
}

type gcnPass[T float] struct {
	*gcn[T]
	aggregation[T] // P = X·weight
}

func (g *gcn[T]) pass(x *input[T], a sparse[T], outputs int, _ *dropout[T]) pass[T] {
	return &gcnPass[T]{gcn: g, aggregation: newAggregation(x, a, outputs, g.out)}
}

func (p *gcnPass[T]) forward(state []T) {
	p.project(p.weight.value)
	for i := range p.outputs {
		y := state[i*p.out : (i+1)*p.out]
		copy(y, p.bias.value)
		p.add(y, i)
	}
}

func (p *gcnPass[T]) backward(grad []T) {
	sumRows(p.bias.grad, grad)
	clear(p.dp)
	for j := range p.x.rows {
		p.addBack(p.gradRow(j), j, grad)
	}
	p.x.backward(p.weight.grad, p.dp, p.weight.value, p.out)
}
