package double

import (
	"fmt"
	"math"

	"github.com/gvbll/gvbll/gnn/kernel/level"
)

// Sparse is a Matrix in compressed sparse rows: row i has the numbers
// Value[Start[i]:Start[i+1]] in the columns beside them. Start has one entry more
// than there are rows.
//
// The matrices that it is multiplied with have stride numbers, a multiple of 8, in
// each row.
type Sparse struct {
	Start  []int
	Column []int32
	Value  []float64
}

// Len returns the number of rows.
func (s *Sparse) Len() int { return len(s.Start) - 1 }

// Product sets dst, rows × stride, to the product with m, columns × stride. An entry
// is summed as four sums of every fourth product.
func (s *Sparse) Product(dst, m []float64, stride int) {
	s.check(stride, len(m), len(dst))
	for i := range s.Len() {
		column, value := s.row(i)
		for c := 0; c < stride; c += LaneWidth {
			to := (*[LaneWidth]float64)(dst[i*stride+c:])
			if len(column) == 0 {
				clear(to[:])
				continue
			}
			productRow(to, column, value, m[c:], stride)
		}
	}
}

// AddTransposed adds Σ_i x_ij r_i to row j of g and Σ_i |x_ij| w_i to row j of h, for
// g and h columns × stride, r and w rows × stride. Sums go over i in ascending
// order.
func (s *Sparse) AddTransposed(g, h, r, w []float64, stride int) {
	s.check(stride, min(len(g), len(h)), min(len(r), len(w)))
	for i := range s.Len() {
		column, value := s.row(i)
		if len(column) == 0 {
			continue
		}
		for c := 0; c < stride; c += LaneWidth {
			at := i*stride + c
			addTransposedRow(g[c:], h[c:], column, value, (*[LaneWidth]float64)(r[at:]), (*[LaneWidth]float64)(w[at:]), stride)
		}
	}
}

// AddSquares adds Σ_i x_ij² w_i to row j of t, columns × stride.
func (s *Sparse) AddSquares(t, w []float64, stride int) {
	s.check(stride, len(t), len(w))
	for i := range s.Len() {
		column, value := s.row(i)
		if len(column) == 0 {
			continue
		}
		for c := 0; c < stride; c += LaneWidth {
			addSquaresRow(t[c:], column, value, (*[LaneWidth]float64)(w[i*stride+c:]), stride)
		}
	}
}

func (s *Sparse) row(i int) (column []int32, value []float64) {
	from, to := s.Start[i], s.Start[i+1]
	return s.Column[from:to], s.Value[from:to]
}

// check panics unless matrices of that many numbers have a row for every column and
// every row.
func (s *Sparse) check(stride, columns, rows int) {
	var most, m1, m2, m3 uint32
	k := 0
	for ; k+4 <= len(s.Column); k += 4 {
		j := (*[4]int32)(s.Column[k:])
		most, m1, m2, m3 = max(most, uint32(j[0])), max(m1, uint32(j[1])), max(m2, uint32(j[2])), max(m3, uint32(j[3]))
	}
	for _, j := range s.Column[k:] {
		most = max(most, uint32(j))
	}
	most = max(most, m1, m2, m3)
	if stride <= 0 || stride%LaneWidth != 0 || rows < s.Len()*stride || len(s.Column) != len(s.Value) ||
		len(s.Column) > 0 && int(most) >= columns/stride {
		panic(fmt.Sprintf("double: %d sparse rows with column %d beside %d numbers of rows and %d of columns, %d each",
			s.Len(), most, rows, columns, stride))
	}
}

// productRow sets dst to LaneWidth columns of the product of a row that is not empty.
func productRow(dst *[LaneWidth]float64, column []int32, value, m []float64, stride int) {
	if level.Active != level.Plain {
		sparseProduct(&dst[0], &column[0], &value[0], len(column), &m[0], stride)
		return
	}
	var sum [4][LaneWidth]float64
	for k, j := range column {
		row, to := (*[LaneWidth]float64)(m[int(j)*stride:]), &sum[k%4]
		for c, x := range row {
			to[c] += float64(value[k] * x)
		}
	}
	for c := range dst {
		dst[c] = (sum[0][c] + sum[1][c]) + (sum[2][c] + sum[3][c])
	}
}

// addTransposedRow adds the products of a row's numbers with LaneWidth columns of r and w.
func addTransposedRow(g, h []float64, column []int32, value []float64, r, w *[LaneWidth]float64, stride int) {
	if level.Active != level.Plain {
		sparseTransposed(&g[0], &h[0], &column[0], &value[0], &r[0], &w[0], len(column), stride)
		return
	}
	for k, j := range column {
		x, y := value[k], math.Abs(value[k])
		to, too := (*[LaneWidth]float64)(g[int(j)*stride:]), (*[LaneWidth]float64)(h[int(j)*stride:])
		for c := range to {
			to[c] += float64(x * r[c])
			too[c] += float64(y * w[c])
		}
	}
}

// addSquaresRow adds the products of a row's squares with LaneWidth columns of w.
func addSquaresRow(t []float64, column []int32, value []float64, w *[LaneWidth]float64, stride int) {
	if level.Active != level.Plain {
		sparseSquares(&t[0], &column[0], &value[0], &w[0], len(column), stride)
		return
	}
	for k, j := range column {
		x, to := float64(value[k]*value[k]), (*[LaneWidth]float64)(t[int(j)*stride:])
		for c := range to {
			to[c] += float64(x * w[c])
		}
	}
}
