package posterior

import (
	"sync"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// block holds rows transposed into lanes, and their MAP predictions.
type block struct {
	lanes       int                       // rows, rounded up to a multiple of laneWidth
	z           []float64                 // zᵀ, d_e × lanes; 0 beyond the rows
	byTau       [double.BlockRows]float64 // 1/τ; 0 beyond the rows
	probs       []float64                 // C × lanes
	double.Sums                           // of the last softmax
}

var blocks = sync.Pool{New: func() any { return new(block) }}

// lanesOf returns rows rounded up to a multiple of laneWidth.
func lanesOf(rows int) int { return (rows + double.LaneWidth - 1) &^ (double.LaneWidth - 1) }

// load sets lanes, z and byTau from rows.
func (b *block) load(rows Rows, dim int) {
	b.lanes = lanesOf(rows.Len())
	b.z = kernel.Resize(b.z, dim*b.lanes)
	toLanes(b.z, rows.Z, rows.Len(), dim)
	clear(b.byTau[:])
	for l, tau := range rows.Tau {
		b.byTau[l] = 1 / tau
	}
}

// linear sets dst, C × lanes, to (zᵀw)ᵀ for w, d_e × C, with lane l scaled by by[l].
func (b *block) linear(dst, w, z, by []float64) {
	classes, dim := len(dst)/b.lanes, len(z)/b.lanes
	clear(dst)
	double.Product(double.Dense(dst, classes, b.lanes), double.Dense(w, dim, classes).T(), double.Dense(z, dim, b.lanes))
	double.ScaleByLane(dst, by)
}

// probabilities sets probs to softmax(zᵀM/τ).
func (b *block) probabilities(q *Gaussian, rows Rows) {
	b.load(rows, q.Dim)
	b.probs = kernel.Resize(b.probs, q.Classes*b.lanes)
	b.linear(b.probs, q.Mean, b.z, b.byTau[:b.lanes])
	b.softmax(b.probs)
}

// softmax replaces logits, C × lanes, by probabilities.
func (b *block) softmax(p []float64) {
	double.LaneExponentials(p, b.lanes, &b.Sums)
	double.ScaleByLane(p, b.Inverse[:b.lanes])
}

// toLanes transposes src, rows × cols, into dst, cols × lanes, with 0 beyond the rows.
func toLanes[T float32 | float64](dst []float64, src []T, rows, cols int) {
	lanes := len(dst) / cols
	i := 0
	for ; i+double.LaneWidth <= rows; i += double.LaneWidth {
		// Eight numbers fill a cache line: write them together.
		s := src[i*cols : (i+double.LaneWidth)*cols]
		r0, r1, r2, r3 := s[:cols], s[cols:2*cols], s[2*cols:3*cols], s[3*cols:4*cols]
		r4, r5, r6, r7 := s[4*cols:5*cols], s[5*cols:6*cols], s[6*cols:7*cols], s[7*cols:8*cols]
		for j := range cols {
			d := dst[j*lanes+i:][:double.LaneWidth]
			d[0], d[1], d[2], d[3] = float64(r0[j]), float64(r1[j]), float64(r2[j]), float64(r3[j])
			d[4], d[5], d[6], d[7] = float64(r4[j]), float64(r5[j]), float64(r6[j]), float64(r7[j])
		}
	}
	if i == lanes {
		return
	}
	for j := range cols {
		d := dst[j*lanes+i : (j+1)*lanes]
		clear(d)
		for l := range rows - i {
			d[l] = float64(src[(i+l)*cols+j])
		}
	}
}

// fromLanes transposes src, cols × lanes, into rows of cols numbers that begin stride
// numbers apart.
func fromLanes[T float32 | float64](dst []T, stride int, src []float64, rows, cols int) {
	lanes := len(src) / cols
	i := 0
	for ; i+double.LaneWidth <= rows; i += double.LaneWidth {
		// Eight numbers fill a cache line: read them together.
		d := dst[i*stride:]
		d0, d1, d2, d3 := d[:cols], d[stride:][:cols], d[2*stride:][:cols], d[3*stride:][:cols]
		d4, d5, d6, d7 := d[4*stride:][:cols], d[5*stride:][:cols], d[6*stride:][:cols], d[7*stride:][:cols]
		for j := range cols {
			s := src[j*lanes+i:][:double.LaneWidth]
			d0[j], d1[j], d2[j], d3[j] = T(s[0]), T(s[1]), T(s[2]), T(s[3])
			d4[j], d5[j], d6[j], d7[j] = T(s[4]), T(s[5]), T(s[6]), T(s[7])
		}
	}
	for ; i < rows; i++ {
		d := dst[i*stride:][:cols]
		for j := range d {
			d[j] = T(src[j*lanes+i])
		}
	}
}
