package gp

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/diff/fd"
)

// scattered returns a bound of n rows with parameters far from where they
// start, so that no term of a gradient is small.
func scattered(n, points, dim, classes, samples int) (b *bound, x blas64.General, labels []int32) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := newParams(points, dim, classes)
	for i := range p.all {
		p.all[i] = 0.4 * rng.NormFloat64()
	}
	for j := range points {
		clear(rowOf(p.factor, j)[(j+1)*classes:])
	}
	for i := range p.inducing.Data {
		p.inducing.Data[i] = rng.NormFloat64()
	}
	x = matrix(n, dim)
	for i := range x.Data {
		x.Data[i] = rng.NormFloat64()
	}
	for range n {
		labels = append(labels, int32(rng.IntN(classes)))
	}
	return newBound(n, n, samples, p), x, labels
}

// from loads the rows of x.
func from(x blas64.General) func(int, blas64.General) {
	return func(lo int, dst blas64.General) { copy(dst.Data, x.Data[lo*x.Cols:]) }
}

func noise() *rand.Rand { return rand.New(rand.NewPCG(3, 4)) }

func TestGradients(t *testing.T) {
	for _, c := range []struct {
		name                                string
		rows, points, dim, classes, samples int
	}{
		{"more rows than points", 9, 5, 3, 3, 4},
		{"one point", 4, 1, 2, 2, 3},
		{"two panels of the factors", 6, 18, 2, 3, 2},
		{"two chunks of rows", chunk + 3, 3, 1, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, x, labels := scattered(c.rows, c.points, c.dim, c.classes, c.samples)
			b.n *= 2 // the rows are a batch of more
			p := b.params
			loss := func() float64 {
				l, _, err := b.estimate(labels, from(x), noise())
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			loss()
			g := newParams(c.points, c.dim, c.classes)
			copy(g.all, b.grad.all)
			for _, v := range []struct {
				name    string
				at, got []float64
			}{
				{"mean", p.mean.Data, g.mean.Data},
				{"factor", p.factor.Data, g.factor.Data},
				{"inducing points", p.inducing.Data, g.inducing.Data},
				{"constant", p.constant, g.constant},
				{"kernel", p.kernel, g.kernel},
			} {
				was := slices.Clone(v.at)
				want := fd.Gradient(nil, func(at []float64) float64 {
					copy(v.at, at)
					return loss()
				}, was, &fd.Settings{Formula: fd.Central, Step: 1e-5})
				copy(v.at, was)
				if v.name == "factor" { // has no numbers above the diagonals
					for j := range c.points {
						for i := range c.points * c.classes {
							if i >= (j+1)*c.classes {
								want[j*c.points*c.classes+i] = 0
							}
						}
					}
				}
				wantClose(t, v.name, v.got, want, 1e-6)
			}
		})
	}
}
