package posterior

import (
	"fmt"
	"math"
)

// What package pool's layers on features are fitted with. Matrices with a number
// for each class have rows of stride numbers, a multiple of 8.

// Exponentials replaces every x of a, which must not be above 709, by [Exp] of it.
func Exponentials(a []float64) {
	for i := exponentialEachKernel(a); i < len(a); i++ {
		a[i] = exp(a[i])
	}
}

// Logarithms replaces every x of a by [Log] of it.
func Logarithms(a []float64) {
	done := len(a) &^ (laneWidth - 1)
	if done > 0 {
		logarithms(a[:done], a[:done])
	}
	for i := done; i < len(a); i++ {
		a[i] = log(a[i])
	}
}

// Raise sets dst to src, entry by entry, or to least where that is more.
func Raise(dst []float64, src []float32, least float64) {
	src = src[:len(dst)]
	for i := raiseKernel(dst, src, least); i < len(dst); i++ {
		if dst[i] = float64(src[i]); dst[i] < least {
			dst[i] = least
		}
	}
}

// RowExponentials takes its largest number from every row of a, sets it to most,
// and replaces what is left by [Exp] of it, of which the sum is total. Rows have a
// multiple of 8 numbers; -Inf is no number, of which there is at least one. The
// sum is of eight sums, of every eighth each.
func RowExponentials(a, most, total []float64) {
	if len(a) == 0 {
		return
	}
	n := len(a) / max(len(most), 1)
	if n == 0 || n%laneWidth != 0 || len(a) != n*len(most) || len(most) != len(total) {
		panic(fmt.Sprintf("posterior: %d numbers in %d rows with %d sums: want a multiple of %d in each", len(a), len(most), len(total), laneWidth))
	}
	rowExponentials(a, most, total)
}

// Newton sets step to (g - t(m-start))/(t+h), entry by entry, a multiple of 8 of
// them: the step from m against the gradient -g and the curvature h of a
// function, and those of ½t(m-start)².
func NewtonStep(step, m, start, t, g, h []float64) {
	n := len(step)
	checkLengths(n, m, start, t, g, h)
	newton(step, m[:n], start[:n], t[:n], g[:n], h[:n])
}

// Stride sets m to held + step and returns Σ t(m-start)², of a multiple of 8
// numbers: the sum of eight sums, of every eighth each.
func Advance(m, held, step, start, t []float64) (sum float64) {
	checkLengths(len(m), held, step, start, t)
	var sums [laneWidth]float64
	if n := len(m); n > 0 {
		stride(m, held[:n], step[:n], start[:n], t[:n], &sums)
	}
	return total(sums[:])
}

// AddCentred sets every row of dst to by (a - mean), with a factor for each row
// and a mean for each column, of which there are a multiple of 8, and adds that
// to sum.
func AddCentred(sum, dst, a, by, mean []float64) {
	n := len(by) * len(mean)
	if n == 0 || len(mean)%laneWidth != 0 {
		panic(fmt.Sprintf("posterior: %d rows of %d numbers: want some, of a multiple of %d", len(by), len(mean), laneWidth))
	}
	addCentred(sum[:n:n], dst[:n:n], a[:n:n], by, mean)
}

func checkLengths(n int, of ...[]float64) {
	for _, x := range of {
		if n%laneWidth != 0 || len(x) != n {
			panic(fmt.Sprintf("posterior: %d numbers beside %d: want as many, a multiple of %d", len(x), n, laneWidth))
		}
	}
}

// Sparse are rows of numbers of which most are 0: the entries of row i are those
// from Start[i] to below Start[i+1] of Column and Value.
type Sparse struct {
	Start  []int
	Column []int32
	Value  []float64
}

// Len returns the number of rows.
func (s *Sparse) Len() int { return len(s.Start) - 1 }

// Product sets dst, rows × stride, to the product with m, columns × stride. The
// sum of an entry is that of four sums, of every fourth product each.
func (s *Sparse) Product(dst, m []float64, stride int) {
	s.check(stride, len(m), len(dst))
	for i := range s.Len() {
		column, value := s.row(i)
		for c := 0; c < stride; c += laneWidth {
			to := (*[laneWidth]float64)(dst[i*stride+c:])
			if len(column) == 0 {
				clear(to[:])
				continue
			}
			sparseProduct(to, column, value, m[c:], stride)
		}
	}
}

// AddTransposed adds Σ_i x_ij r_i to row j of g and Σ_i |x_ij| w_i to that of h,
// both columns × stride; r and w are rows × stride. Sums go over i in ascending
// order.
func (s *Sparse) AddTransposed(g, h, r, w []float64, stride int) {
	s.check(stride, min(len(g), len(h)), min(len(r), len(w)))
	for i := range s.Len() {
		column, value := s.row(i)
		if len(column) == 0 {
			continue
		}
		for c := 0; c < stride; c += laneWidth {
			at := i*stride + c
			sparseTransposed(g[c:], h[c:], column, value, (*[laneWidth]float64)(r[at:]), (*[laneWidth]float64)(w[at:]), stride)
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
		for c := 0; c < stride; c += laneWidth {
			sparseSquares(t[c:], column, value, (*[laneWidth]float64)(w[i*stride+c:]), stride)
		}
	}
}

func (s *Sparse) row(i int) (column []int32, value []float64) {
	from, to := s.Start[i], s.Start[i+1]
	return s.Column[from:to], s.Value[from:to]
}

// check panics unless matrices of so many numbers have all columns and rows.
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
	if stride <= 0 || stride%laneWidth != 0 || rows < s.Len()*stride || len(s.Column) != len(s.Value) || len(s.Column) > 0 && int(most) >= columns/stride {
		panic(fmt.Sprintf("posterior: %d sparse rows with column %d beside %d numbers of rows and %d of columns, %d each", s.Len(), most, rows, columns, stride))
	}
}

func sparseProductPlain(dst *[laneWidth]float64, column []int32, value []float64, m []float64, stride int) {
	var sum [4][laneWidth]float64
	for k, j := range column {
		row, to := (*[laneWidth]float64)(m[int(j)*stride:]), &sum[k%4]
		for c, x := range row {
			to[c] += float64(value[k] * x)
		}
	}
	for c := range dst {
		dst[c] = (sum[0][c] + sum[1][c]) + (sum[2][c] + sum[3][c])
	}
}

func sparseTransposedPlain(g, h []float64, column []int32, value []float64, r, w *[laneWidth]float64, stride int) {
	for k, j := range column {
		x, y := value[k], math.Abs(value[k])
		to, too := (*[laneWidth]float64)(g[int(j)*stride:]), (*[laneWidth]float64)(h[int(j)*stride:])
		for c := range to {
			to[c] += float64(x * r[c])
			too[c] += float64(y * w[c])
		}
	}
}

func sparseSquaresPlain(t []float64, column []int32, value []float64, w *[laneWidth]float64, stride int) {
	for k, j := range column {
		x, to := float64(value[k]*value[k]), (*[laneWidth]float64)(t[int(j)*stride:])
		for c := range to {
			to[c] += float64(x * w[c])
		}
	}
}

func newtonPlain(step, m, start, t, g, h []float64) {
	for i, from := range t {
		step[i] = (g[i] - float64((m[i]-start[i])*from)) / (from + h[i])
	}
}

func stridePlain(m, held, step, start, t []float64, sum *[laneWidth]float64) {
	for i, x := range step {
		m[i] = held[i] + x
		off := m[i] - start[i]
		sum[i%laneWidth] += float64(float64(off*t[i]) * off)
	}
}

func addCentredPlain(sum, dst, a, by, mean []float64) {
	lanes := len(mean)
	for i, p := range by {
		for l, m := range mean {
			at := i*lanes + l
			dst[at] = float64((a[at] - m) * p)
			sum[at] += dst[at]
		}
	}
}

func rowExponentialsPlain(a, most, total []float64) {
	n := len(a) / len(most)
	for i := range most {
		row := a[i*n : (i+1)*n]
		most[i] = math.Inf(-1)
		for _, x := range row {
			if x > most[i] {
				most[i] = x
			}
		}
		var sum [laneWidth]float64
		for c, x := range row {
			row[c] = exp(x - most[i])
			sum[c%laneWidth] += row[c]
		}
		total[i] = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]))
	}
}
