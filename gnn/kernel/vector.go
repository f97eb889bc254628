package kernel

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel/level"
)

// The loops that go number by number. What follows the assembly in each is its plain form,
// which runs on other machines and defines what the assembly computes. The conversions
// float32(x*y) forbid the compiler to fuse (Go specification, "Floating-point operators").

// vectors reports whether assembly computes numbers: there are some, and it is in use.
func vectors[T any](x []T) bool { return len(x) > 0 && level.Active != level.Plain }

// Axpy computes dst[j] += a·x[j].
func Axpy(dst []float32, a float32, x []float32) {
	x = x[:len(dst)]
	if vectors(dst) {
		axpy(&dst[0], len(dst), a, &x[0])
		return
	}
	for j := range dst {
		dst[j] += float32(a * x[j])
	}
}

// axpy4 is four calls of the plain form of [Axpy], with a[0] and x to a[3] and w: dst is loaded
// and stored a quarter as often.
func axpy4(dst, a, x, y, z, w []float32) {
	x, y, z, w = x[:len(dst)], y[:len(dst)], z[:len(dst)], w[:len(dst)]
	a0, a1, a2, a3 := a[0], a[1], a[2], a[3]
	for j := range dst {
		s := dst[j]
		s += float32(a0 * x[j])
		s += float32(a1 * y[j])
		s += float32(a2 * z[j])
		s += float32(a3 * w[j])
		dst[j] = s
	}
}

// Add computes dst[j] += x[j].
func Add(dst, x []float32) {
	x = x[:len(dst)]
	if vectors(dst) {
		add(&dst[0], len(dst), &x[0])
		return
	}
	for j := range dst {
		dst[j] += x[j]
	}
}

// Scale computes dst[j] *= a.
func Scale(dst []float32, a float32) {
	if vectors(dst) {
		scale(&dst[0], len(dst), a)
		return
	}
	for j := range dst {
		dst[j] *= a
	}
}

// Combine computes dst[j] = x[j] + a·y[j].
func Combine(dst, x, y []float32, a float32) {
	x, y = x[:len(dst)], y[:len(dst)]
	if vectors(dst) {
		combine(&dst[0], len(dst), &x[0], &y[0], a)
		return
	}
	for j := range dst {
		dst[j] = x[j] + float32(a*y[j])
	}
}

// Rectify computes dst[j] = max(x[j], 0): never -0, and NaN for NaN.
func Rectify(dst, x []float32) {
	x = x[:len(dst)]
	if vectors(dst) {
		rectify(&dst[0], len(dst), &x[0])
		return
	}
	for j := range dst {
		dst[j] = max(x[j], 0)
	}
}

// AddRectified computes dst[j] += max(x[j] + a·y[j], 0).
func AddRectified(dst, x, y []float32, a float32) {
	x, y = x[:len(dst)], y[:len(dst)]
	if vectors(dst) {
		addRectified(&dst[0], len(dst), &x[0], &y[0], a)
		return
	}
	for j := range dst {
		dst[j] += max(x[j]+float32(a*y[j]), 0)
	}
}

// Gate computes dst[j] = a·dst[j] where x[j] > 0, and 0 elsewhere.
func Gate(dst, x []float32, a float32) {
	x = x[:len(dst)]
	if vectors(dst) {
		gate(&dst[0], len(dst), &x[0], a)
		return
	}
	for j, v := range x {
		if v > 0 {
			dst[j] *= a
		} else {
			dst[j] = 0
		}
	}
}

// Draws is the number of draws that [Dropout] reads for n numbers: n rounded up
// to a multiple of 16, a register of AVX-512.
func Draws(n int) int { return (n + 15) &^ 15 }

// Dropout computes dst[j] = scale·x[j] where draws[j] < below, and 0 elsewhere.
func Dropout(dst, x []float32, draws []uint16, below uint32, scale float32) {
	x, draws = x[:len(dst)], draws[:Draws(len(dst))]
	if vectors(dst) {
		dropout(&dst[0], len(dst), &x[0], &draws[0], below, scale)
		return
	}
	for j, v := range x {
		dst[j] = 0
		if uint32(draws[j]) < below {
			dst[j] = float32(scale * v)
		}
	}
}

// Widen sets dst[j] to the bfloat16 number src[j]: the upper half of a float32.
func Widen(dst []float32, src []uint16) {
	src = src[:len(dst)]
	if whole := registers(dst); vectors(whole) {
		widen(&dst[0], len(whole), &src[0])
		dst, src = dst[len(whole):], src[len(whole):]
	}
	for j, b := range src {
		dst[j] = math.Float32frombits(uint32(b) << 16)
	}
}

// Narrow sets dst[j] to the bfloat16 number nearest to src[j], to the even one
// of two equally near. The relative error is at most 2⁻⁹; magnitudes from about
// 3.4e38 on become infinite. src must not have NaN.
func Narrow(dst []uint16, src []float32) {
	src = src[:len(dst)]
	if whole := registers(dst); vectors(whole) {
		narrow(&dst[0], len(whole), &src[0])
		dst, src = dst[len(whole):], src[len(whole):]
	}
	for j, x := range src {
		bits := math.Float32bits(x)
		dst[j] = uint16((bits + 0x7fff + bits>>16&1) >> 16)
	}
}

// registers returns the numbers that fill whole registers of every level.
func registers[T any](x []T) []T { return x[:len(x)&^15] }

// Transpose sets dst, cols×rows, to the transpose of x, rows×cols.
func Transpose[D, S float32 | float64](dst []D, x []S, rows, cols int) {
	// By squares of 16×16, the 16 numbers of a cache line of float32: each line
	// is used whole while it is in the first-level cache.
	const square = 16
	for i0 := 0; i0 < rows; i0 += square {
		for k0 := 0; k0 < cols; k0 += square {
			for i := i0; i < min(i0+square, rows); i++ {
				row := x[i*cols+k0 : i*cols+min(k0+square, cols)]
				for k, v := range row {
					dst[(k0+k)*rows+i] = D(v)
				}
			}
		}
	}
}
