package double

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel/level"
)

// Row is a sparse row: numbers beside their columns. Matrices that it is multiplied with have stride numbers, a multiple of 8,
// in each row.
type Row struct {
	column  []int32
	value   []float64
	columns int // more than each column
}

// Append appends those of x that are not 0, in the columns from at on.
func (r *Row) Append(at int, x ...float64) {
	if at < 0 || at+len(x) > math.MaxInt32 {
		panic(fmt.Sprintf("double: %d numbers of a row from column %d on", len(x), at))
	}
	column, value := r.extend(len(x))
	n := 0
	for k, v := range x {
		if column[n], value[n] = int32(at+k), v; v != 0 {
			n++
		}
	}
	r.column, r.value = r.column[:len(r.column)-len(x)+n], r.value[:len(r.value)-len(x)+n]
	if n > 0 {
		r.columns = max(r.columns, int(column[n-1])+1)
	}
}

// AppendScaled appends values times by, also those that are 0, in the columns at + index.
func (r *Row) AppendScaled(at int, index []int32, value []float32, by float64) {
	column, to := r.extend(len(index))
	most, value := r.columns-1, value[:len(column)]
	for k, j := range index {
		column[k], to[k] = j+int32(at), float64(float64(value[k])*by)
		most = max(most, int(uint32(column[k])))
	}
	r.columns = most + 1
}

// extend makes room for n more numbers.
func (r *Row) extend(n int) (column []int32, value []float64) {
	at := len(r.column)
	r.column, r.value = slices.Grow(r.column, n)[:at+n], slices.Grow(r.value, n)[:at+n]
	return r.column[at:], r.value[at:][:n]
}

// Reset removes all numbers.
func (r *Row) Reset() { r.column, r.value, r.columns = r.column[:0], r.value[:0], 0 }

// Set copies x.
func (r *Row) Set(x *Row) {
	r.column, r.value, r.columns = append(r.column[:0], x.column...), append(r.value[:0], x.value...), x.columns
}

// Entries returns columns and numbers, which are not to be changed.
func (r *Row) Entries() (column []int32, value []float64) { return r.column, r.value }

// Product sets dst to the product with the first columns of m. An entry is summed as four sums of every fourth product.
func (r *Row) Product(dst, m []float64, stride int) {
	r.check(len(dst), len(m), stride)
	if len(r.column) == 0 {
		clear(dst)
		return
	}
	for c := 0; c < len(dst); c += LaneWidth {
		productRow((*[LaneWidth]float64)(dst[c:]), r.column, r.value, m[c:], stride)
	}
}

// AddTo adds to row j of m, in its first columns, x_j times by.
func (r *Row) AddTo(m, by []float64, stride int) {
	r.check(len(by), len(m), stride)
	for c := 0; c < len(by) && len(r.column) > 0; c += LaneWidth {
		from := (*[LaneWidth]float64)(by[c:])
		if level.Active != level.Plain {
			sparseAdd(&m[c], &r.column[0], &r.value[0], &from[0], len(r.column), stride)
			continue
		}
		for k, j := range r.column {
			to := (*[LaneWidth]float64)(m[c+int(j)*stride:])
			for c := range to {
				to[c] += float64(r.value[k] * from[c])
			}
		}
	}
}

// check panics unless a matrix of that many numbers has the first so many columns in a row for each column.
func (r *Row) check(first, numbers, stride int) {
	if first%LaneWidth != 0 || first > stride || r.columns > 0 && (r.columns-1)*stride+first > numbers {
		panic(fmt.Sprintf("double: %d of %d columns of a matrix of %d numbers beside a row with column %d", first, stride, numbers, r.columns-1))
	}
}

// Sparse is a matrix of sparse rows.
type Sparse struct {
	Row
	start []int // of row i, from the second on; the last is unfinished
}

// EndRow finishes a row.
func (s *Sparse) EndRow() { s.start = append(s.start, len(s.column)) }

// Reset removes all rows.
func (s *Sparse) Reset() {
	s.Row.Reset()
	s.start = s.start[:0]
}

// Compact numbers the columns anew, in the order of their first numbers, and appends what they were to list. number is
// scratch memory, 0 for all columns before and after.
func (s *Sparse) Compact(number, list []int32) []int32 {
	for k, j := range s.column {
		n := number[j]
		if n == 0 {
			list = append(list, j)
			n = int32(len(list))
			number[j] = n
		}
		s.column[k] = n - 1
	}
	for _, j := range list {
		number[j] = 0
	}
	s.columns = len(list)
	return list
}

// AbsoluteSums appends the sum of the absolute numbers of each row to sums.
func (s *Sparse) AbsoluteSums(sums []float64) []float64 {
	for i := range s.start {
		_, value := s.row(i)
		var sum float64
		for _, x := range value {
			sum += math.Abs(x)
		}
		sums = append(sums, sum)
	}
	return sums
}

// Len returns the number of rows.
func (s *Sparse) Len() int { return len(s.start) }

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
	from, to := 0, s.start[i]
	if i > 0 {
		from = s.start[i-1]
	}
	return s.column[from:to], s.value[from:to]
}

// check panics unless matrices of that many numbers have a row for every column and
// every row.
func (s *Sparse) check(stride, columns, rows int) {
	if stride <= 0 || stride%LaneWidth != 0 || rows < s.Len()*stride || s.columns > columns/stride {
		panic(fmt.Sprintf("double: %d sparse rows with column %d beside %d numbers of rows and %d of columns, %d each",
			s.Len(), s.columns-1, rows, columns, stride))
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
