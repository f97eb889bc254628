package train

import (
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// gin is a graph isomorphism layer, see [gnn.GINLayer]:
//
//	y_i = Bias2 + Weight2 · max(0, Bias1 + Weight1·((1+eps)·h_i + Σ over j in N(i) of h_j))
//
// The first product is taken before the sum, which is narrower then.
type gin[T float] struct {
	in, mid, out   int
	eps            param[T] // one number
	weight1, bias1 param[T] // in×mid
	weight2, bias2 param[T] // mid×out; none in a layer whose MLP is one linear map
}

// newGIN begins with eps 0 and an inner width that is the outer one.
func newGIN[T float](rng *rand.Rand, in, out int) *gin[T] {
	g := allocGIN[T](in, out, out)
	g.weight1.glorot(rng, in, out)
	g.weight2.glorot(rng, out, out)
	return g
}

func allocGIN[T float](in, mid, out int) *gin[T] {
	return &gin[T]{
		in: in, mid: mid, out: out, eps: newParam[T](1, false),
		weight1: newParam[T](in*mid, true), bias1: newParam[T](mid, false),
		weight2: newParam[T](mid*out, true), bias2: newParam[T](out, false),
	}
}

// importGIN panics for an MLP that has not two linear maps, which no layer trained
// here has.
func importGIN[T float](l gnn.GINLayer, in int) *gin[T] {
	if len(l.MLP) != 2 {
		panic("train: a GIN layer whose MLP has not two linear maps")
	}
	first, second := l.MLP[0], l.MLP[1]
	g := allocGIN[T](in, len(first.Bias), len(second.Bias))
	g.eps.value[0] = T(l.Eps)
	importWeight(g.weight1.value, first.Weight, in, g.mid)
	importWeight(g.weight2.value, second.Weight, g.mid, g.out)
	importVector(g.bias1.value, first.Bias)
	importVector(g.bias2.value, second.Bias)
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

// mixing is the sum over the neighbours.
func (g *gin[T]) aggregation(hood *neighbourhood, n int) sparse[T] {
	mix := sparse[T]{start: make([]int, 1, n+1)}
	for _, from := range hood.sources[:n] {
		for _, j := range from {
			mix.add(j, 1)
		}
		mix.next()
	}
	return mix
}

type ginPass[T float] struct {
	*gin[T]
	x       *input[T]
	mix     sparse[T]
	spread  sparse[T] // transpose of mix
	p, dp   []T       // X·weight1, and its gradient
	inner   input[T]  // what the second map is fed
	outputs int
}

func (g *gin[T]) pass(x *input[T], mix sparse[T], outputs int, _ *dropout[T]) pass[T] {
	p := &ginPass[T]{gin: g, x: x, mix: mix, outputs: outputs}
	p.p, p.dp = make([]T, x.rows*g.mid), make([]T, x.rows*g.mid)
	p.inner = input[T]{rows: outputs, width: g.mid, dense: make([]T, outputs*g.mid), grad: make([]T, outputs*g.mid)}
	p.spread = newSparse[T](x.rows, len(mix.index))
	mix.transpose(&p.spread)
	return p
}

func (p *ginPass[T]) forward(state []T) {
	p.x.times(p.p, p.weight1.value, p.mid)
	for i := range p.outputs {
		u := p.inner.dense[i*p.mid : (i+1)*p.mid]
		copy(u, p.bias1.value)
		axpy(u, 1+p.eps.value[0], p.p[i*p.mid:(i+1)*p.mid])
		index, value := p.mix.row(i)
		gather(u, index, value, p.p, p.mid)
		rectify(u, u)
	}
	p.inner.times(state, p.weight2.value, p.out)
	for i := range p.outputs {
		axpy(state[i*p.out:(i+1)*p.out], 1, p.bias2.value)
	}
}

func (p *ginPass[T]) backward(grad []T) {
	clear(p.bias2.grad)
	sum(p.bias2.grad, grad)
	p.inner.backward(p.weight2.grad, grad, p.weight2.value, p.out)

	du := p.inner.grad
	gate(du, p.inner.dense, 1)
	clear(p.bias1.grad)
	sum(p.bias1.grad, du)
	p.eps.grad[0] = 0
	clear(p.dp)
	for j := range p.x.rows {
		row := p.dp[j*p.mid : (j+1)*p.mid]
		index, value := p.spread.row(j)
		gather(row, index, value, du, p.mid)
		if j < p.outputs {
			own := du[j*p.mid : (j+1)*p.mid]
			axpy(row, 1+p.eps.value[0], own)
			p.eps.grad[0] += dot(own, p.p[j*p.mid:(j+1)*p.mid])
		}
	}
	p.x.backward(p.weight1.grad, p.dp, p.weight1.value, p.mid)
}
