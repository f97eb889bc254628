package pool

import (
	"math"

	"github.com/gvbll/gvbll/posterior"
)

// design is the matrix Φ of a batch's rows, over the columns that occur in
// them. Matrices with a number for each class have rows of stride numbers, the
// classes first and then zeros.
type designMatrix interface {
	// size returns the rows and columns.
	size() (rows, columns int)
	// columns returns the head's column of every column here.
	columns() []int32
	// lengths returns a_i = Σ_j |φ_ij|.
	absoluteSums() []float64
	// logits sets dst to ΦM.
	logits(dst, m []float64, stride int)
	// gather adds Φᵀr to g and |Φ|ᵀw to h.
	addGradient(g, h, r, w []float64, stride int)
	// squares adds (Φ²)ᵀw to t.
	addSquares(t, w []float64, stride int)
}

// lane is what strides are multiples of: the classes that a register holds.
const lane = 8

func strideOf(classes int) int { return (classes + lane - 1) / lane * lane }

type sparseMatrix struct {
	rows   posterior.Sparse // columns by their numbers here
	sum    []float64        // a
	name   []int32
	place  []int32 // by the head's column: 1 + number here, or 0
	buffer entries
}

func newSparseMatrix(columns int) *sparseMatrix { return &sparseMatrix{place: make([]int32, columns)} }

// reset leaves no rows.
func (s *sparseMatrix) reset() {
	for _, j := range s.name {
		s.place[j] = 0
	}
	r := &s.rows
	r.Start, r.Column, r.Value = append(r.Start[:0], 0), r.Column[:0], r.Value[:0]
	s.sum, s.name = s.sum[:0], s.name[:0]
}

// appendUnit appends row i of f, scaled to unit length, to the row that is being
// made.
func (s *sparseMatrix) appendUnit(f *Features, i, d, offset int) {
	index, value := f.entries(i, d, &s.buffer)
	var square float64
	for _, x := range value {
		square += float64(float64(x) * float64(x))
	}
	if square == 0 {
		return
	}
	by := 1 / math.Sqrt(square)
	for k, j := range index {
		j += int32(offset)
		if s.place[j] == 0 {
			s.name = append(s.name, j)
			s.place[j] = int32(len(s.name))
		}
		s.rows.Column = append(s.rows.Column, s.place[j]-1)
		s.rows.Value = append(s.rows.Value, float64(value[k])*by)
	}
}

// endRow ends the row that is being made.
func (s *sparseMatrix) endRow() {
	var sum float64
	for _, x := range s.rows.Value[s.rows.Start[s.rows.Len()]:] {
		sum += math.Abs(x)
	}
	s.sum = append(s.sum, sum)
	s.rows.Start = append(s.rows.Start, len(s.rows.Value))
}

func (s *sparseMatrix) size() (rows, columns int) { return len(s.sum), len(s.name) }
func (s *sparseMatrix) columns() []int32          { return s.name }
func (s *sparseMatrix) absoluteSums() []float64   { return s.sum }

func (s *sparseMatrix) logits(dst, m []float64, stride int) { s.rows.Product(dst, m, stride) }

func (s *sparseMatrix) addGradient(g, h, r, w []float64, stride int) {
	s.rows.AddTransposed(g, h, r, w, stride)
}

func (s *sparseMatrix) addSquares(t, w []float64, stride int) { s.rows.AddSquares(t, w, stride) }

type denseMatrix struct {
	rows     int
	value    []float64 // rows × columns
	absolute []float64
	square   []float64
	sum      []float64
	name     []int32 // 0, 1, …
}

func newDenseMatrix(columns int) *denseMatrix {
	d := &denseMatrix{name: make([]int32, columns)}
	for j := range d.name {
		d.name[j] = int32(j)
	}
	return d
}

// reset makes room for rows, which row then gives.
func (d *denseMatrix) reset(rows int) {
	d.rows = rows
	d.value = resize(d.value, rows*len(d.name))
}

func (d *denseMatrix) row(i int) []float64 { return d.value[i*len(d.name) : (i+1)*len(d.name)] }

// measure makes what learning needs, when all rows are written.
func (d *denseMatrix) measure() {
	d.absolute, d.sum = resize(d.absolute, len(d.value)), resize(d.sum, d.rows)
	for i := range d.rows {
		d.sum[i] = 0
		for j, x := range d.row(i) {
			x = math.Abs(x)
			d.absolute[i*len(d.name)+j] = x
			d.sum[i] += x
		}
	}
}

func (d *denseMatrix) size() (rows, columns int) { return d.rows, len(d.name) }
func (d *denseMatrix) columns() []int32          { return d.name }
func (d *denseMatrix) absoluteSums() []float64   { return d.sum }

func (d *denseMatrix) logits(dst, m []float64, stride int) {
	clear(dst)
	posterior.AddProduct(dst, d.value, m, d.rows, len(d.name), stride)
}

func (d *denseMatrix) addGradient(g, h, r, w []float64, stride int) {
	posterior.AddTransposed(g, d.value, r, len(d.name), d.rows, stride)
	posterior.AddTransposed(h, d.absolute, w, len(d.name), d.rows, stride)
}

func (d *denseMatrix) addSquares(t, w []float64, stride int) {
	d.square = resize(d.square, len(d.value))
	for i, x := range d.value {
		d.square[i] = float64(x * x)
	}
	posterior.AddTransposed(t, d.square, w, len(d.name), d.rows, stride)
}
