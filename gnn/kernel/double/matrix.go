package double

import (
	"fmt"
	"math"

	"github.com/gvbll/gvbll/gnn/kernel/level"
)

// AddProduct adds the m × n product of a, m × k, and b, k × n, to dst. The sum of
// each entry goes over k in ascending order. Wrong lengths panic.
func AddProduct(dst, a, b []float64, m, k, n int) {
	Product(Dense(dst[:m*n:m*n], m, n), Dense(a[:m*k:m*k], m, k), Dense(b[:k*n:k*n], k, n))
}

// AddEach adds to row i of dst the product of x_i, k numbers, and matrix i of b, k × n. Rows
// of dst begin every down numbers, x_i every next, which is 0 if all rows have the same. The
// sum of each entry goes over k in ascending order. Wrong lengths panic.
func AddEach(dst []float64, down int, x []float64, next int, b []float64, k, n int) {
	if k < 1 || n < 1 || down < n || next < 0 || len(b)%(k*n) != 0 {
		panic(fmt.Sprintf("double: %d numbers in matrices of %d × %d for rows every %d and %d numbers", len(b), k, n, down, next))
	}
	for i := 0; len(b) > 0; i, b = i+1, b[k*n:] {
		add(Dense(dst[i*down:][:n], 1, n), Dense(x[i*next:][:k], 1, k), Dense(b[:k*n], k, n))
	}
}

// AddTransposed adds the m × n product of aᵀ, where a is k × m, and b, k × n, to
// dst. The sum of each entry goes over k in ascending order. Wrong lengths panic.
func AddTransposed(dst, a, b []float64, m, k, n int) {
	Product(Dense(dst[:m*n:m*n], m, n), Dense(a[:m*k:m*k], k, m).T(), Dense(b[:k*n:k*n], k, n))
}

// matrix is a view of rows × cols numbers: entry (i, k) is
// data[i·down + k·right].
type matrix struct {
	data        []float64
	rows, cols  int
	down, right int
}

// Dense returns data as a row-major matrix.
func Dense(data []float64, rows, cols int) matrix {
	return matrix{data: data, rows: rows, cols: cols, down: cols, right: 1}
}

// T returns the transpose, a view of the same data.
func (m matrix) T() matrix {
	m.rows, m.cols, m.down, m.right = m.cols, m.rows, m.right, m.down
	return m
}

// Left returns the first cols columns.
func (m matrix) Left(cols int) matrix {
	m.cols = cols
	return m
}

// fits reports whether every entry lies within data.
func (m matrix) fits() bool {
	return m.rows == 0 || m.cols == 0 || (m.rows-1)*m.down+(m.cols-1)*m.right < len(m.data)
}

// Product adds a·b to dst. The sum of each entry goes over the columns of a in
// ascending order, in fused multiplications and additions. The rows of dst and b
// must be contiguous.
func Product(dst, a, b matrix) {
	if dst.rows != a.rows || dst.cols != b.cols || a.cols != b.rows || dst.right != 1 || b.right != 1 || !dst.fits() ||
		!a.fits() || !b.fits() {
		panic(fmt.Sprintf("double: %d × %d times %d × %d into %d × %d", a.rows, a.cols, b.rows, b.cols, dst.rows, dst.cols))
	}
	if dst.rows > 0 && dst.cols > 0 && a.cols > 0 {
		add(dst, a, b)
	}
}

// productTerms is how many terms of each sum are added before the next sum's turn, so
// that the rows of b that they use stay in the first-level cache.
const productTerms = 64

// add is [Product] of matrices that are not empty.
func add(dst, a, b matrix) {
	if level.Active != level.Plain {
		for k := 0; k < a.cols; k += productTerms {
			for i := 0; i < dst.rows; i += 8 {
				product(&dst.data[i*dst.down], dst.down, &a.data[i*a.down+k*a.right], a.down, a.right,
					&b.data[k*b.down], b.down, min(8, dst.rows-i), min(productTerms, a.cols-k), dst.cols)
			}
		}
		return
	}
	n := dst.cols
	for i := range dst.rows {
		row, k := dst.data[i*dst.down:][:n], 0
		at := func(k int) (x float64, w []float64) { return a.data[i*a.down+k*a.right], b.data[k*b.down:][:n] }
		// Four terms at a time load and store each entry once for the four.
		for ; k+4 <= a.cols; k += 4 {
			x0, w0 := at(k)
			x1, w1 := at(k + 1)
			x2, w2 := at(k + 2)
			x3, w3 := at(k + 3)
			for c, sum := range row {
				row[c] = math.FMA(x3, w3[c], math.FMA(x2, w2[c], math.FMA(x1, w1[c], math.FMA(x0, w0[c], sum))))
			}
		}
		for ; k < a.cols; k++ {
			x, w := at(k)
			for c, sum := range row {
				row[c] = math.FMA(x, w[c], sum)
			}
		}
	}
}
