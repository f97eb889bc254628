package gp

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// rbf is the kernel k(x, z) = s² exp(-|x-z|²/2ℓ²).
type rbf struct {
	variance    float64 // s², the outputscale
	lengthscale float64 // ℓ
}

// matrix writes the squared distances between the rows of x and the columns of zT to dist,
// and the kernel's values to k, both n×M; xx and zz are the squared lengths.
//
// The inducing points are transposed so that the product is a sum of rows: the bits of a
// row of x then do not depend on the other rows.
func (f rbf) matrix(x blas64.General, xx []float64, zT blas64.General, zz []float64, dist, k blas64.General) {
	blas64.Gemm(blas.NoTrans, blas.NoTrans, -2, x, zT, 0, dist)
	exponent := -0.5 / (f.lengthscale * f.lengthscale)
	for i, x2 := range xx {
		d, row := rowOf(dist, i), rowOf(k, i)
		for j, z2 := range zz {
			r := max(d[j]+(x2+z2), 0) // rounding may make it negative for equal rows
			d[j] = r
			row[j] = f.variance * exp(float64(exponent*r))
		}
	}
}

// backward propagates the gradient dk with respect to the kernel matrix k of x and z, at
// squared distances dist, to log s², log ℓ and, added to dz, the rows of z. It replaces
// dk by dk∘k.
func (f rbf) backward(x, z, dist, k, dk, dz blas64.General) (byVariance, byLengthscale float64) {
	inv := 1 / (f.lengthscale * f.lengthscale)
	column := make([]float64, z.Rows) // sums of dk∘k
	for i := range dk.Rows {
		d, w, row := rowOf(dist, i), rowOf(dk, i), rowOf(k, i)
		for j := range w {
			w[j] *= row[j]
			column[j] += w[j]
			byLengthscale += float64(w[j] * d[j])
		}
	}
	// ∂k/∂z_j = k (x_i - z_j)/ℓ².
	blas64.Gemm(blas.Trans, blas.NoTrans, inv, dk, x, 1, dz)
	for j, w := range column {
		byVariance += w
		addScaled(rowOf(dz, j), -w*inv, rowOf(z, j))
	}
	return byVariance, byLengthscale * inv
}

// exp returns e^x with an error of up to about |x| ulp. It uses math.Exp2, which is
// plain Go on amd64, so its bits do not depend on the processor. posterior.Exp has
// other bits: the published results of Table I have those of this function.
func exp(x float64) float64 { return math.Exp2(x * math.Log2E) }

func addScaled(dst []float64, s float64, x []float64) {
	x = x[:len(dst)]
	for j := range dst {
		dst[j] += float64(s * x[j])
	}
}

// squares writes the squared length of every row of x to dst.
func squares(dst []float64, x blas64.General) {
	for i := range dst {
		var sum float64
		for _, v := range rowOf(x, i) {
			sum += float64(v * v)
		}
		dst[i] = sum
	}
}

func matrix(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float64, rows*cols)}
}

func rowOf(g blas64.General, i int) []float64 {
	return g.Data[i*g.Stride : i*g.Stride+g.Cols]
}

// part returns a view of g's rows from r0 and columns c0 to c1.
func part(g blas64.General, r0, c0, c1 int) blas64.General {
	return blas64.General{Rows: g.Rows - r0, Cols: c1 - c0, Stride: g.Stride, Data: g.Data[r0*g.Stride+c0:]}
}
