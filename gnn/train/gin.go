package train

import (
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// gin is a graph isomorphism layer, see [gnn.GINLayer]:
//
//	y_i = Bias2 + Weight2 · max(0, Bias1 + Weight1·((1+eps)·h_i + Σ_{j ∈ N(i)} h_j))
//
// The first product is computed before the sum, which is then narrower.
type gin[T float] struct {
	in, mid, out   int
	eps            param[T] // one number
	weight1, bias1 param[T] // in×mid, mid
	weight2, bias2 param[T] // mid×out, out
}

// newGIN makes an initial layer: eps 0, and an inner width equal to the outer.
func newGIN[T float](rng *rand.Rand, in, out int) *gin[T] {
	g := &gin[T]{
		in: in, mid: out, out: out, eps: newParam[T](1, false),
		weight1: newParam[T](in*out, true), bias1: newParam[T](out, false),
		weight2: newParam[T](out*out, true), bias2: newParam[T](out, false),
	}
	g.weight1.glorot(rng, in, out)
	g.weight2.glorot(rng, out, out)
	return g
}

func (g *gin[T]) export() gnn.GINLayer {
	return gnn.GINLayer{Eps: float32(g.eps.value[0]), MLP: []gnn.Linear{
		{Weight: exportWeight(g.weight1.value, g.in, g.mid), Bias: exportVector(g.bias1.value)},
		{Weight: exportWeight(g.weight2.value, g.mid, g.out), Bias: exportVector(g.bias2.value)},
	}}
}

func (g *gin[T]) width() int { return g.out }

func (g *gin[T]) params() []param[T] {
	return []param[T]{g.eps, g.weight1, g.bias1, g.weight2, g.bias2}
}

// coefficients are those of the sum over the neighbours.
func (g *gin[T]) coefficients(hood *neighbourhood, n int) sparse[T] {
	a := sparse[T]{start: make([]int, 1, n+1)}
	for _, sources := range hood.sources[:n] {
		for _, j := range sources {
			a.add(j, 1)
		}
		a.endRow()
	}
	return a
}

type ginPass[T float] struct {
	*gin[T]
	aggregation[T]          // P = X·weight1
	inner          input[T] // the second map's input, after the ReLU
}

func (g *gin[T]) pass(x *input[T], a sparse[T], outputs int, _ *dropout[T]) pass[T] {
	return &ginPass[T]{
		gin: g, aggregation: newAggregation(x, a, outputs, 1, g.mid),
		inner: input[T]{rows: outputs, width: g.mid, dense: make([]T, outputs*g.mid), grad: make([]T, outputs*g.mid)},
	}
}

func (p *ginPass[T]) forward(state []T) {
	p.project(p.weight1.value)
	for i := range p.outputs {
		u := p.inner.dense[i*p.mid : (i+1)*p.mid]
		copy(u, p.bias1.value)
		axpy(u, 1+p.eps.value[0], p.row(i))
		p.add(u, i)
		rectify(u, u)
	}
	p.inner.times(state, p.weight2.value, p.out)
	for i := range p.outputs {
		axpy(state[i*p.out:(i+1)*p.out], 1, p.bias2.value)
	}
}

func (p *ginPass[T]) backward(grad []T) {
	sumRows(p.bias2.grad, grad)
	p.inner.backward(p.weight2.grad, grad, p.weight2.value, p.out)

	du := p.inner.grad
	gate(du, p.inner.dense, 1)
	sumRows(p.bias1.grad, du)
	p.eps.grad[0] = 0
	clear(p.dp)
	for j := range p.x.rows {
		dp := p.gradRow(j)
		p.addBack(dp, j, du)
		if j < p.outputs {
			own := du[j*p.mid : (j+1)*p.mid]
			axpy(dp, 1+p.eps.value[0], own)
			p.eps.grad[0] += dot(own, p.row(j))
		}
	}
	p.x.backward(p.weight1.grad, p.dp, p.weight1.value, p.mid)
}
