package double

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel/level"
)

// Vector operations of the Newton steps of package pool. Their kernels work on eight
// numbers at a time.

// Raise sets every entry of dst to that of src, or to least if that is more.
func Raise(dst []float64, src []float32, least float64) {
	src = src[:len(dst)]
	done := registers(len(dst))
	if done > 0 {
		raise(&dst[0], &src[0], least, done)
	}
	for i := done; i < len(dst); i++ {
		if dst[i] = float64(src[i]); dst[i] < least {
			dst[i] = least
		}
	}
}

// NewtonStep sets step, entry by entry, to (g - t(m-m0))/(t+h): the Newton step from m
// for a function with gradient -g and curvature h plus ½t(m-m0)². There are a
// multiple of 8 entries.
func NewtonStep(step, m, m0, t, g, h []float64) {
	checkLengths(len(step), m, m0, t, g, h)
	if registers(len(step)) > 0 {
		newton(&step[0], &m[0], &m0[0], &t[0], &g[0], &h[0], len(step))
		return
	}
	for i, t := range t {
		step[i] = (g[i] - float64((m[i]-m0[i])*t)) / (t + h[i])
	}
}

// Advance sets m to from + step and returns Σ t(m-m0)². There are a multiple of 8
// entries, summed as eight sums of every eighth.
func Advance(m, from, step, m0, t []float64) (sum float64) {
	checkLengths(len(m), from, step, m0, t)
	var sums [LaneWidth]float64
	if registers(len(m)) > 0 {
		stride(&m[0], &from[0], &step[0], &m0[0], &t[0], &sums[0], len(m))
	} else {
		for i, x := range step {
			m[i] = from[i] + x
			off := m[i] - m0[i]
			sums[i%LaneWidth] += float64(float64(off*t[i]) * off)
		}
	}
	for _, x := range sums {
		sum += x
	}
	return sum
}

// AddCentred sets row i of dst to by_i (a_i - mean) and adds it to sum. Rows have
// len(mean) numbers, a multiple of 8, and there are len(by) of them.
func AddCentred(sum, dst, a, by, mean []float64) {
	n := len(by) * len(mean)
	if n == 0 || len(mean)%LaneWidth != 0 {
		panic(fmt.Sprintf("double: %d rows of %d numbers: want some, of a multiple of %d", len(by), len(mean), LaneWidth))
	}
	sum, dst, a = sum[:n:n], dst[:n:n], a[:n:n]
	if level.Active != level.Plain {
		addCentred(&sum[0], &dst[0], &a[0], &by[0], &mean[0], len(by), len(mean))
		return
	}
	for i, p := range by {
		for l, m := range mean {
			at := i*len(mean) + l
			dst[at] = float64((a[at] - m) * p)
			sum[at] += dst[at]
		}
	}
}

func checkLengths(n int, of ...[]float64) {
	for _, x := range of {
		if n%LaneWidth != 0 || len(x) != n {
			panic(fmt.Sprintf("double: %d numbers beside %d: want as many, a multiple of %d", len(x), n, LaneWidth))
		}
	}
}
