package pool

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/gvbll/gvbll/posterior"
)

// cholesky solves symmetric positive definite systems. It calls LAPACK itself
// because mat.Cholesky also estimates the condition number, which costs several
// solutions.
type cholesky struct {
	factor []float64
}

// factorize factorises the symmetric n × n matrix m and reports whether m is positive
// definite; solve may follow only if it is. Only the upper triangle of m is read.
func (c *cholesky) factorize(m []float64, n int) bool {
	c.factor = posterior.Resize(c.factor, n*n)
	copy(c.factor, m)
	_, ok := lapack64.Potrf(blas64.Symmetric{N: n, Stride: n, Uplo: blas.Upper, Data: c.factor})
	return ok
}

// solve replaces x by m⁻¹x, m as last factorised.
func (c *cholesky) solve(x []float64) {
	n := len(x)
	lapack64.Potrs(
		blas64.Triangular{N: n, Stride: n, Uplo: blas.Upper, Diag: blas.NonUnit, Data: c.factor},
		blas64.General{Rows: n, Cols: 1, Stride: 1, Data: x},
	)
}

// multiplySymmetric sets dst to m x for a symmetric m. Only the upper triangle of m
// is read.
func multiplySymmetric(dst, m, x []float64) {
	n := len(x)
	clear(dst)
	for i := range n {
		row := m[i*n : (i+1)*n]
		dst[i] += float64(row[i] * x[i])
		for j := i + 1; j < n; j++ {
			dst[i] += float64(row[j] * x[j])
			dst[j] += float64(row[j] * x[i])
		}
	}
}
