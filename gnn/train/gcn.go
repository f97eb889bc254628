package train

import (
	"math"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// gcn is a graph convolution, see [gnn.GCNLayer]:
//
//	y_i = Bias + Σ over j in N(i) ∪ {i} of Weight·h_j / √(d_j·d_i)
//
// with d the number of terms.
type gcn[T float] struct {
	in, out int
	weight  param[T] // in×out
	bias    param[T]
}

func newGCN[T float](rng *rand.Rand, in, out int) *gcn[T] {
	g := &gcn[T]{in: in, out: out, weight: newParam[T](in*out, true), bias: newParam[T](out, false)}
	g.weight.glorot(rng, in, out)
	return g
}

func importGCN[T float](l gnn.GCNLayer, in int) *gcn[T] {
	out := len(l.Bias)
	g := &gcn[T]{in: in, out: out, weight: newParam[T](in*out, true), bias: newParam[T](out, false)}
	importWeight(g.weight.value, l.Weight, in, out)
	importVector(g.bias.value, l.Bias)
	return g
}

func (g *gcn[T]) export() gnn.GCNLayer {
	return gnn.GCNLayer{Weight: exportWeight(g.weight.value, g.in, g.out), Bias: exportVector(g.bias.value)}
}

func (g *gcn[T]) width() int         { return g.out }
func (g *gcn[T]) params() []param[T] { return []param[T]{g.weight, g.bias} }

// mixing is the normalised adjacency matrix with one loop at every node.
func (g *gcn[T]) aggregation(hood *neighbourhood, n int) sparse[T] {
	root := func(i int32) float64 { return 1 / math.Sqrt(float64(hood.inDegree[i]+1)) }
	mix := sparse[T]{start: make([]int, 1, n+1)}
	for i, from := range hood.sources[:n] {
		own := root(int32(i))
		mix.add(int32(i), T(own*own))
		for _, j := range from {
			if int(j) != i {
				mix.add(j, T(own*root(j)))
			}
		}
		mix.next()
	}
	return mix
}

type gcnPass[T float] struct {
	*gcn[T]
	x       *input[T]
	mix     sparse[T]
	spread  sparse[T] // transpose of mix
	p, dp   []T       // X·weight, and its gradient
	outputs int
}

func (g *gcn[T]) pass(x *input[T], mix sparse[T], outputs int, _ *dropout[T]) pass[T] {
	p := &gcnPass[T]{gcn: g, x: x, mix: mix, outputs: outputs}
	p.p, p.dp = make([]T, x.rows*g.out), make([]T, x.rows*g.out)
	p.spread = newSparse[T](x.rows, len(mix.index))
	mix.transpose(&p.spread)
	return p
}

func (p *gcnPass[T]) forward(state []T) {
	p.x.times(p.p, p.weight.value, p.out)
	for i := range p.outputs {
		y := state[i*p.out : (i+1)*p.out]
		copy(y, p.bias.value)
		index, value := p.mix.row(i)
		gather(y, index, value, p.p, p.out)
	}
}

func (p *gcnPass[T]) backward(grad []T) {
	clear(p.bias.grad)
	sum(p.bias.grad, grad)
	clear(p.dp)
	for j := range p.x.rows {
		index, value := p.spread.row(j)
		gather(p.dp[j*p.out:(j+1)*p.out], index, value, grad, p.out)
	}
	p.x.backward(p.weight.grad, p.dp, p.weight.value, p.out)
}

// importWeight sets dst, in×out, to the transpose of a weight of package gnn, and
// exportWeight is its inverse.
func importWeight[T float](dst []T, weight []float32, in, out int) {
	for j := range out {
		for k := range in {
			dst[k*out+j] = T(weight[j*in+k])
		}
	}
}

func exportWeight[T float](w []T, in, out int) []float32 {
	weight := make([]float32, len(w))
	for j := range out {
		for k := range in {
			weight[j*in+k] = float32(w[k*out+j])
		}
	}
	return weight
}

func importVector[T float](dst []T, src []float32) {
	for i, v := range src {
		dst[i] = T(v)
	}
}

func exportVector[T float](src []T) []float32 {
	dst := make([]float32, len(src))
	for i, v := range src {
		dst[i] = float32(v)
	}
	return dst
}
