package double

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
)

// randomSparse draws a sparse matrix in which about a third of the entries are stored.
func randomSparse(rng *rand.Rand, rows, columns int) *Sparse {
	s := &Sparse{}
	for range rows {
		for j := range columns {
			if rng.IntN(3) == 0 {
				s.Append(j, rng.NormFloat64())
			}
		}
		s.EndRow()
	}
	return s
}

// TestSparseKernels: operations on sparse matrices have the same bits at every level.
func TestSparseKernels(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 62))
	for range 200 {
		rows, columns, stride := rng.IntN(6), 1+rng.IntN(25), LaneWidth*(1+rng.IntN(3))
		s := randomSparse(rng, rows, columns)
		m, r, w, start := randoms(rng, columns*stride), randoms(rng, rows*stride), randoms(rng, rows*stride), randoms(rng, columns*stride)
		kerneltest.SameAtLevels(t, "sparse matrix", func() []float64 {
			dst, g, h, squares := randoms(rng, rows*stride), slices.Clone(start), slices.Clone(start), slices.Clone(start)
			s.Product(dst, m, stride)
			s.AddTransposed(g, h, r, w, stride)
			s.AddSquares(squares, w, stride)
			if rows == 1 {
				last, part, sum := stride-LaneWidth, make([]float64, LaneWidth), slices.Clone(start)
				s.Row.Product(part, m[last:], stride)
				s.AddTo(sum[last:], r[last:], stride)
				for at := range g {
					if at%stride < last {
						g[at] = start[at]
					}
				}
				kerneltest.WantSame(t, "the last columns of a row", append(part, sum...), append(dst[last:], g...))
			}
			return slices.Concat(dst, g, h, squares)
		})
	}
}

// TestSparseIsTheFormula compares operations on sparse matrices with plain loops.
func TestSparseIsTheFormula(t *testing.T) {
	rng := rand.New(rand.NewPCG(63, 64))
	const rows, columns, stride = 5, 30, 2 * LaneWidth
	s := randomSparse(rng, rows, columns)
	m, r, w := randoms(rng, columns*stride), randoms(rng, rows*stride), randoms(rng, rows*stride)
	product, g, h, squares := make([]float64, rows*stride), make([]float64, columns*stride), make([]float64, columns*stride), make([]float64, columns*stride)
	for i := range rows {
		column, value := s.row(i)
		for k, j := range column {
			for c := range stride {
				x, at, in := value[k], int(j)*stride+c, i*stride+c
				product[in] += x * m[at]
				g[at] += x * r[in]
				h[at] += math.Abs(x) * w[in]
				squares[at] += x * x * w[in]
			}
		}
	}
	near := func(what string, got, want []float64) {
		for i, x := range want {
			if math.Abs(got[i]-x) > 1e-12 {
				t.Errorf("%s[%d] = %v, want %v", what, i, got[i], x)
			}
		}
	}
	dst := make([]float64, rows*stride)
	s.Product(dst, m, stride)
	near("product", dst, product)
	a, b, c := make([]float64, len(g)), make([]float64, len(g)), make([]float64, len(g))
	s.AddTransposed(a, b, r, w, stride)
	s.AddSquares(c, w, stride)
	near("gradient", a, g)
	near("bound", b, h)
	near("square", c, squares)
}

// TestSparseRefusesWrongShapes: shapes that do not fit panic, before a kernel accesses
// memory outside its slices.
func TestSparseRefusesWrongShapes(t *testing.T) {
	s, negative := &Sparse{}, &Sparse{}
	s.Append(0, 1)
	s.Append(3, 2)
	s.EndRow()
	negative.AppendScaled(0, []int32{-1}, []float32{1}, 1)
	negative.EndRow()
	row, m := make([]float64, 8), make([]float64, 4*8)
	for what, f := range map[string]func(){
		"a column too many":   func() { s.Product(row, m[8:], 8) },
		"a row too many":      func() { s.Product(row[1:], m, 8) },
		"an odd stride":       func() { s.Product(row, m, 7) },
		"a negative column":   func() { negative.Product(row, m, 8) },
		"few columns":         func() { s.Row.Product(row, m[1:], 8) },
		"half a register":     func() { s.AddTo(m, row[4:], 8) },
		"a short row":         func() { s.AddTo(m, m[:16], 8) },
		"columns below 0":     func() { negative.Append(-1, 1) },
		"a negative sum":      func() { negative.AddTo(m, row, 8) },
		"a short gradient":    func() { s.AddTransposed(m[8:], m, row, row, 8) },
		"a short bound":       func() { s.AddTransposed(m, m[8:], row, row, 8) },
		"a short residual":    func() { s.AddTransposed(m, m, row[1:], row, 8) },
		"a short curvature":   func() { s.AddSquares(m, row[1:], 8) },
		"a step of 7 numbers": func() { NewtonStep(row[1:], row, row, row, row, row) },
		"a longer start":      func() { Advance(row, row, row, m, row) },
	} {
		kerneltest.WantPanic(t, what, f)
	}
}

// TestLayerKernels: the kernels of Newton steps, centred products and row-wise softmax have
// the same bits at every level and agree with their formulas.
func TestLayerKernels(t *testing.T) {
	rng := rand.New(rand.NewPCG(65, 66))
	for _, n := range []int{0, 8, 16, 40, 56} {
		m, held, start, step, g := randoms(rng, n), randoms(rng, n), randoms(rng, n), randoms(rng, n), randoms(rng, n)
		prior, h := randoms(rng, n), randoms(rng, n)
		for i := range prior {
			prior[i], h[i] = math.Abs(prior[i]), math.Abs(h[i])
		}
		kerneltest.SameAtLevels(t, "steps", func() []float64 {
			found, moved := make([]float64, n), make([]float64, n)
			NewtonStep(found, m, start, prior, g, h)
			sum := Advance(moved, held, step, start, prior)
			return append(slices.Concat(found, moved), sum)
		})
	}
	for _, c := range [][2]int{{1, 8}, {7, 16}, {40, 8}} {
		n := c[0] * c[1]
		a, by, mean, sum := randoms(rng, n), randoms(rng, c[0]), randoms(rng, c[1]), randoms(rng, n)
		kerneltest.SameAtLevels(t, "centred", func() []float64 {
			dst, sum := make([]float64, n), slices.Clone(sum)
			AddCentred(sum, dst, a, by, mean)
			if x := (a[n-1] - mean[c[1]-1]) * by[c[0]-1]; dst[n-1] != x {
				t.Errorf("last centred entry %v, want %v", dst[n-1], x)
			}
			return append(sum, dst...)
		})
	}
	for _, c := range [][2]int{{0, 8}, {1, 8}, {3, 16}, {5, 40}} {
		a := randoms(rng, c[0]*c[1])
		for i := range a {
			if i%c[1] > 4 && i%5 == 0 {
				a[i] = odd[rng.IntN(12)]
			}
			if i%c[1] == c[1]-1 {
				a[i] = math.Inf(-1)
			}
		}
		kerneltest.SameAtLevels(t, "rows of exponentials", func() []float64 {
			e, most, total := slices.Clone(a), make([]float64, c[0]), make([]float64, c[0])
			RowExponentials(e, most, total)
			for i := range most {
				var sum float64
				for _, x := range e[i*c[1] : (i+1)*c[1]] {
					sum += x
				}
				if most[i] != slices.Max(a[i*c[1]:(i+1)*c[1]]) || math.Abs(sum-total[i]) > 1e-12 {
					t.Errorf("row %d: largest %v and total %v, want %v and %v", i, most[i], total[i], slices.Max(a[i*c[1]:(i+1)*c[1]]), sum)
				}
			}
			return slices.Concat(e, most, total)
		})
	}
	var want float64
	m, held, step, start, prior := make([]float64, 24), randoms(rng, 24), randoms(rng, 24), randoms(rng, 24), randoms(rng, 24)
	for i := range m {
		d := held[i] + step[i] - start[i]
		want += prior[i] * d * d
	}
	if got := Advance(m, held, step, start, prior); math.Abs(got-want) > 1e-12 {
		t.Errorf("Advance = %v, want %v", got, want)
	}
}

// TestRaise: Raise raises every number that is below the floor to it, infinities included,
// for any number of them.
func TestRaise(t *testing.T) {
	rng := rand.New(rand.NewPCG(69, 70))
	kerneltest.AtLevels(t, func(t *testing.T) {
		for n := range 20 {
			src, dst, want := make([]float32, n+1), make([]float64, n), make([]float64, n)
			for i := range want {
				src[i] = float32(rng.NormFloat64())
				switch rng.IntN(9) {
				case 0:
					src[i] = -0.5
				case 1:
					src[i] = float32(math.Inf(2*rng.IntN(2) - 1))
				}
				want[i] = max(float64(src[i]), -0.5)
			}
			Raise(dst, src, -0.5)
			kerneltest.WantSame(t, "raised", dst, want)
		}
	})
}

// TestExponentialsAndLogarithms: Exponentials and Logarithms have the bits of Exp and Log,
// for any number of numbers.
func TestExponentialsAndLogarithms(t *testing.T) {
	rng := rand.New(rand.NewPCG(67, 68))
	kerneltest.AtLevels(t, func(t *testing.T) {
		for n := range 20 {
			x := randoms(rng, n)
			e, l, exps, logs := slices.Clone(x), slices.Clone(x), make([]float64, n), make([]float64, n)
			if n > 11 {
				x[3], x[n-1] = -1e9, math.Inf(-1)
				e[3], e[n-1] = -1e9, math.Inf(-1)
			}
			for i, v := range x {
				exps[i], logs[i] = Exp(v), Log(l[i])
			}
			Exponentials(e)
			Logarithms(l)
			kerneltest.WantSame(t, "exponentials", e, exps)
			kerneltest.WantSame(t, "logarithms", l, logs)
		}
	})
}
