package pool

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// designMatrix is the matrix Φ of a batch: a row for each node, a column for each
// feature. A head may have very many columns, and a batch use few of them, so Φ has
// only the columns that occur, numbered from 0 in the order of appearance; columns
// maps these to the head's own.
//
// Matrices with a number for each class have rows of stride numbers, the classes
// first and then zeros; see [strideOf].
type designMatrix interface {
	// size returns the number of rows and columns.
	size() (rows, columns int)
	// columns returns the head's column of every column of Φ.
	columns() []int32
	// absoluteSums returns a_i = Σ_j |φ_ij| of every row.
	absoluteSums() []float64
	// logits sets dst, rows × stride, to ΦM; m is columns × stride.
	logits(dst, m []float64, stride int)
	// addGradient adds Φᵀr to g and |Φ|ᵀw to h; r and w are rows × stride, g and h
	// columns × stride. h may be nil of a dense matrix.
	addGradient(g, h, r, w []float64, stride int)
	// addSquares adds (Φ∘Φ)ᵀw to t, columns × stride.
	addSquares(t, w []float64, stride int)
}

// classLanes is what strides are multiples of: the float64s in an AVX-512 register.
const classLanes = 8

// strideOf returns classes rounded up to whole registers.
func strideOf(classes int) int { return (classes + classLanes - 1) / classLanes * classLanes }

// copyLanes copies the numbers of a column: a call of copy takes longer.
func copyLanes(to, from []float64) {
	for c := 0; c < len(to); c += classLanes {
		*(*[classLanes]float64)(to[c:]) = *(*[classLanes]float64)(from[c:])
	}
}

// columnSet is a set of columns of a head. It remembers the order in which they were
// added.
type columnSet struct {
	list []int32 // each once
	has  []bool  // by column
}

func newColumnSet(columns int) columnSet { return columnSet{has: make([]bool, columns)} }

// add adds column j unless it is in the set.
func (s *columnSet) add(j int32) {
	if !s.has[j] {
		s.has[j] = true
		s.list = append(s.list, j)
	}
}

// clear empties the set, in time proportional to its length.
func (s *columnSet) clear() {
	for _, j := range s.list {
		s.has[j] = false
	}
	s.list = s.list[:0]
}

// sparseMatrix is a designMatrix in compressed sparse rows.
type sparseMatrix struct {
	rows   double.Sparse // columns numbered as in Φ once it is finished
	sums   []float64     // a
	column []int32       // the head's column of each column of Φ
	number []int32       // scratch
	buffer entries
}

// newSparseMatrix returns an empty matrix for a head of that many columns.
func newSparseMatrix(columns int) *sparseMatrix { return &sparseMatrix{number: make([]int32, columns)} }

// reset removes all rows. The caller then appends rows in the head's columns, and ends with finish.
func (s *sparseMatrix) reset() {
	s.rows.Reset()
	s.sums, s.column = s.sums[:0], s.column[:0]
}

// appendUnit appends row i of f, scaled to unit length, to the unfinished row, in
// the head's columns from offset on.
func (s *sparseMatrix) appendUnit(f *Features, i, d, offset int) {
	index, value, by := f.unit(i, d, &s.buffer)
	s.rows.AppendScaled(offset, index, value, by)
}

// finish numbers the columns.
func (s *sparseMatrix) finish() { s.column = s.rows.Compact(s.number, s.column) }

func (s *sparseMatrix) size() (rows, columns int) { return s.rows.Len(), len(s.column) }
func (s *sparseMatrix) columns() []int32          { return s.column }

func (s *sparseMatrix) absoluteSums() []float64 {
	if len(s.sums) == 0 {
		s.sums = s.rows.AbsoluteSums(s.sums)
	}
	return s.sums
}

func (s *sparseMatrix) logits(dst, m []float64, stride int) { s.rows.Product(dst, m, stride) }

func (s *sparseMatrix) addGradient(g, h, r, w []float64, stride int) {
	s.rows.AddTransposed(g, h, r, w, stride)
}

func (s *sparseMatrix) addSquares(t, w []float64, stride int) { s.rows.AddSquares(t, w, stride) }

// denseMatrix is a designMatrix with all of the head's columns.
type denseMatrix struct {
	rows     int
	value    []float64 // rows × columns
	absolute []float64 // |value|
	square   []float64 // scratch of addSquares
	sums     []float64 // a
	column   []int32   // 0, 1, …
}

func newDenseMatrix(columns int) *denseMatrix {
	d := &denseMatrix{column: make([]int32, columns)}
	for j := range d.column {
		d.column[j] = int32(j)
	}
	return d
}

// reset sets the number of rows. The caller then writes every row; before
// absoluteSums and addGradient it calls setAbsolute.
func (d *denseMatrix) reset(rows int) {
	d.rows = rows
	d.value = kernel.Resize(d.value, rows*len(d.column))
}

func (d *denseMatrix) row(i int) []float64 { return d.value[i*len(d.column) : (i+1)*len(d.column)] }

// setAbsolute computes |Φ| and a, which only learning needs.
func (d *denseMatrix) setAbsolute() {
	d.absolute, d.sums = kernel.Resize(d.absolute, len(d.value)), kernel.Resize(d.sums, d.rows)
	for i, x := range d.value {
		d.absolute[i] = math.Abs(x)
	}
	for i := range d.rows {
		d.sums[i] = total(d.absolute[i*len(d.column) : (i+1)*len(d.column)])
	}
}

func (d *denseMatrix) size() (rows, columns int) { return d.rows, len(d.column) }
func (d *denseMatrix) columns() []int32          { return d.column }
func (d *denseMatrix) absoluteSums() []float64   { return d.sums }

func (d *denseMatrix) logits(dst, m []float64, stride int) {
	clear(dst)
	double.AddProduct(dst, d.value, m, d.rows, len(d.column), stride)
}

func (d *denseMatrix) addGradient(g, h, r, w []float64, stride int) {
	double.AddTransposed(g, d.value, r, len(d.column), d.rows, stride)
	if h != nil {
		double.AddTransposed(h, d.absolute, w, len(d.column), d.rows, stride)
	}
}

func (d *denseMatrix) addSquares(t, w []float64, stride int) {
	d.square = kernel.Resize(d.square, len(d.value))
	for i, x := range d.value {
		d.square[i] = float64(x * x)
	}
	double.AddTransposed(t, d.square, w, len(d.column), d.rows, stride)
}
