package gp

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
)

// standard standardises every dimension to mean 0 and standard deviation 1 over the rows
// that it was made from.
type standard struct{ mean, scale []float64 }

func newStandard(z []float32, dim int) standard {
	s := standard{make([]float64, dim), make([]float64, dim)}
	n := float64(len(z) / dim)
	for i, x := range z {
		s.mean[i%dim] += float64(x)
	}
	for d := range s.mean {
		s.mean[d] /= n
	}
	for i, x := range z {
		r := float64(x) - s.mean[i%dim]
		s.scale[i%dim] += float64(r * r)
	}
	for d, v := range s.scale {
		s.scale[d] = math.Sqrt(v / n)
		// A dimension that is constant, up to float32's rounding, has no scale.
		if s.scale[d] <= 1e-7*math.Abs(s.mean[d]) {
			s.scale[d] = 1
		}
	}
	return s
}

// row writes row i of z to dst.
func (s standard) row(dst []float64, z []float32, i int) {
	for d, x := range z[i*len(dst) : (i+1)*len(dst)] {
		dst[d] = (float64(x) - s.mean[d]) / s.scale[d]
	}
}

// spread returns at most most rows of x, chosen by k-means++ (Arthur & Vassilvitskii
// 2007): each with probability proportional to its squared distance from those already
// chosen. It returns all distinct rows if there are no more than that.
func spread(x blas64.General, most int, rng *rand.Rand) [][]float64 {
	var chosen [][]float64
	nearest := make([]float64, x.Rows)
	for i := range nearest {
		nearest[i] = 1
	}
	for len(chosen) < most {
		var sum float64
		for _, d := range nearest {
			sum += d
		}
		if sum == 0 {
			break
		}
		at, left := -1, rng.Float64()*sum
		for i, d := range nearest {
			if d > 0 {
				at = i
				if left -= d; left < 0 {
					break
				}
			}
		}
		point := rowOf(x, at)
		for i := range nearest {
			if d := squaredDistance(rowOf(x, i), point); len(chosen) == 0 || d < nearest[i] {
				nearest[i] = d
			}
		}
		chosen = append(chosen, slices.Clone(point))
	}
	return chosen
}

// medianDistance returns the median distance of two different rows, over some
// hundred rows spread evenly over x, and 1 where there are none.
func medianDistance(x blas64.General) float64 {
	const most = 500
	step := (x.Rows + most - 1) / most
	var squared []float64
	for i := 0; i < x.Rows; i += step {
		for j := 0; j < i; j += step {
			if d := squaredDistance(rowOf(x, i), rowOf(x, j)); d > 0 {
				squared = append(squared, d)
			}
		}
	}
	if len(squared) == 0 {
		return 1
	}
	slices.Sort(squared)
	return math.Sqrt(squared[len(squared)/2])
}

func squaredDistance(a, b []float64) (sum float64) {
	b = b[:len(a)]
	for d, x := range a {
		r := x - b[d]
		sum += float64(r * r)
	}
	return sum
}
