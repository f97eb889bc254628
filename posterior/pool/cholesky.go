package pool

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// cholesky solves symmetric positive definite systems m x = b by m = UᵀU, with U upper
// triangular.
//
// Every entry's terms are subtracted one by one in the order of the rows of U, and
// products are rounded before. That, and the two sums in factorize, is the order of
// gonum's LAPACK on amd64, which recorded streams were served with; gonum itself uses
// other orders on other processors.
type cholesky struct {
	factor []float64 // U, square; below the diagonal as in m
}

// blockRows is the block size of gonum's dpotrf.
const blockRows = 64

// factorize factorises the symmetric n × n matrix m and reports whether m is positive
// definite; solve may follow only if it is. Only the upper triangle of m is read.
func (c *cholesky) factorize(m []float64, n int) bool {
	c.factor = kernel.Resize(c.factor, n*n)
	copy(c.factor, m)
	for j := range n {
		row := c.factor[j*n : (j+1)*n]
		// The squares in j's own block of rows are summed apart: those of every second
		// row in one sum, those of the others and of the last row in another.
		block := j &^ (blockRows - 1)
		var sums [2]float64
		for i := range j {
			above := c.factor[i*n : (i+1)*n]
			u := above[j]
			switch square := float64(u * u); {
			case i < block:
				row[j] -= square
			case (i-block)%2 == 0 && i < j-1:
				sums[0] += square
			default:
				sums[1] += square
			}
			for k := j + 1; k < n; k++ {
				row[k] -= float64(u * above[k])
			}
		}
		row[j] -= sums[0] + sums[1]
		if !(row[j] > 0) {
			return false
		}
		row[j] = math.Sqrt(row[j])
		for k, scale := j+1, 1/row[j]; k < n; k++ {
			row[k] *= scale
		}
	}
	return true
}

// solve replaces x by m⁻¹x, m as last factorised.
func (c *cholesky) solve(x []float64) {
	n := len(x)
	for i := range n { // Uᵀ
		row := c.factor[i*n : (i+1)*n]
		x[i] *= 1 / row[i]
		for k := i + 1; k < n; k++ {
			x[k] -= float64(row[k] * x[i])
		}
	}
	for i := n - 1; i >= 0; i-- { // U
		row := c.factor[i*n : (i+1)*n]
		for k := i + 1; k < n; k++ {
			x[i] -= float64(row[k] * x[k])
		}
		x[i] *= 1 / row[i]
	}
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
