package train

import "math/rand/v2"

// sums is a layer of [newSAGE] or [newGCN]: a product with the weights, and then a sum whose
// coefficients do not depend on the parameters. The product P = X·weight is read as a matrix of
// parts·rows rows of width out, parts of them for each row of X:
//
//	y_i = bias + Σ_r A_ir P_r
type sums[T float] struct {
	in, out, parts int
	weight         param[T] // in×parts·out
	bias           param[T] // out
	of             func(hood *neighbourhood, n int) sparse[T]
}

// newSums returns a layer with weights for a sum of so many parts, which of gives.
func newSums[T float](rng *rand.Rand, in, out, parts int, of func(hood *neighbourhood, n int) sparse[T]) *sums[T] {
	s := &sums[T]{in: in, out: out, parts: parts, weight: newParam[T](in*parts*out, true), bias: newParam[T](out, false), of: of}
	if rng != nil {
		s.weight.glorot(rng, in, out)
	}
	return s
}

func (s *sums[T]) width() int         { return s.out }
func (s *sums[T]) params() []param[T] { return []param[T]{s.weight, s.bias} }

func (s *sums[T]) coefficients(hood *neighbourhood, n int) sparse[T] { return s.of(hood, n) }

func (s *sums[T]) pass(x *input[T], a sparse[T], outputs int, _ *dropout[T]) pass[T] {
	return &sumsPass[T]{s, newAggregation(x, a, outputs, s.parts, s.out)}
}

type sumsPass[T float] struct {
	*sums[T]
	aggregation[T]
}

func (p *sumsPass[T]) forward(state []T) {
	p.project(p.weight.value)
	for i := range p.outputs {
		y := state[i*p.out : (i+1)*p.out]
		copy(y, p.bias.value)
		p.add(y, i)
	}
}

func (p *sumsPass[T]) backward(grad []T) {
	sumRows(p.bias.grad, grad)
	clear(p.dp)
	for r := range p.at.rows() {
		p.addBack(p.gradRow(r), r, grad)
	}
	p.x.backward(p.weight.grad, p.dp, p.weight.value, p.parts*p.out)
}

// aggregation is a layer's product P = X·W, followed by the sum A·P. Passes of [sums] and [gin]
// have it.
type aggregation[T float] struct {
	x       *input[T]
	outputs int       // rows of A
	a       sparse[T] // A, outputs×parts·X.rows: row i has the coefficients of i's sum
	at      sparse[T] // Aᵀ
	p, dp   []T       // P, parts·X.rows×width, and its gradient
	width   int
}

func newAggregation[T float](x *input[T], a sparse[T], outputs, parts, width int) aggregation[T] {
	rows := x.rows * parts
	s := aggregation[T]{x: x, a: a, outputs: outputs, width: width, at: newSparse[T](rows, len(a.index))}
	s.p, s.dp = make([]T, rows*width), make([]T, rows*width)
	a.transpose(&s.at)
	return s
}

// project sets P to X·w.
func (s *aggregation[T]) project(w []T) { s.x.times(s.p, w, len(s.p)/max(s.x.rows, 1)) }

// row is row j of P, gradRow of its gradient.
func (s *aggregation[T]) row(j int) []T     { return s.p[j*s.width : (j+1)*s.width] }
func (s *aggregation[T]) gradRow(j int) []T { return s.dp[j*s.width : (j+1)*s.width] }

// add adds row i of A·P to dst.
func (s *aggregation[T]) add(dst []T, i int) {
	index, value := s.a.row(i)
	gather(dst, index, value, s.p, s.width)
}

// addBack adds row j of Aᵀ·dy, with dy outputs×len(dst), to dst.
func (s *aggregation[T]) addBack(dst []T, j int, dy []T) {
	index, value := s.at.row(j)
	gather(dst, index, value, dy, len(dst))
}
