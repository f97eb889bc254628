package pool

import (
	"math"

	"github.com/gvbll/gvbll/posterior"
)

// wide is a last layer on features: softmax(φᵀM), without a bias, M = 0 and
// T = 1/v at the start. A batch leaves what softmaxFit finds, from M0 = M and
// T0 = λT + (1-λ)/v; a column that is not in a batch forgets when it next is.
type wide struct {
	Wide
	shape   Shape
	columns int
	stride  int
	version uint64

	mean, precision []float64 // M and T, columns × stride
	// clock is the time that forgetting has run, in full batches, and touched,
	// for each column, what it was when T was last brought up to date.
	clock        float64
	touched      []float64
	standardizer *standardizer // of Standard features

	sparse  *sparseMatrix // one of the two
	dense   *denseMatrix
	fit     softmaxFit
	changed []int32 // columns that the last batch changed, each once
	listed  []bool  // by column: whether it is in changed
}

func newWide(cfg Wide, shape Shape) *wide {
	w := &wide{Wide: cfg, shape: shape, columns: shape.Features, stride: strideOf(shape.Classes)}
	if w.Neighbours {
		w.columns *= 2
	}
	if w.Scale == Standard {
		w.columns++
		w.dense = newDenseMatrix(w.columns)
		w.standardizer = newStandardizer(shape.Features, w.Neighbours)
	} else {
		w.sparse = newSparseMatrix(w.columns)
	}
	w.fit = softmaxFit{classes: shape.Classes, stride: w.stride}
	w.mean = make([]float64, w.columns*w.stride)
	w.precision = make([]float64, w.columns*w.stride)
	for i := range w.precision {
		w.precision[i] = 1 / w.Variance
	}
	w.touched, w.listed = make([]float64, w.columns), make([]bool, w.columns)
	return w
}

// design makes Φ of rows, to learn from or only to predict.
func (w *wide) design(rows *Rows, learn bool) designMatrix {
	d := w.shape.Features
	if w.Scale == Standard {
		w.dense.reset(rows.N)
		for i := range rows.N {
			w.standardizer.row(w.dense.row(i), rows, i)
		}
		if learn {
			w.dense.measure()
		}
		return w.dense
	}
	w.sparse.reset()
	for i := range rows.N {
		w.sparse.appendUnit(&rows.X, i, d, 0)
		if w.Neighbours {
			w.sparse.appendUnit(&rows.S, i, d, d)
		}
		w.sparse.endRow()
	}
	return w.sparse
}

// take copies the moments of the design's columns to the fit, T as it is after
// the forgetting since.
func (w *wide) take(phi designMatrix) {
	rows, columns := phi.size()
	w.fit.resize(rows, columns)
	forgets, log := w.Lambda < 1, posterior.Log(w.Lambda)
	for k, name := range phi.columns() {
		from, to := int(name)*w.stride, k*w.stride
		copy(w.fit.m[to:to+w.stride], w.mean[from:])
		if !forgets {
			copy(w.fit.t[to:to+w.stride], w.precision[from:])
			continue
		}
		keep := posterior.Exp(log * (w.clock - w.touched[name]))
		for c, t := range w.precision[from : from+w.stride] {
			w.fit.t[to+c] = float64(keep*t) + float64((1-keep)/w.Variance)
		}
	}
}

// give copies them back.
func (w *wide) give(phi designMatrix) {
	for k, name := range phi.columns() {
		to, from := int(name)*w.stride, k*w.stride
		copy(w.mean[to:to+w.stride], w.fit.m[from:])
		copy(w.precision[to:to+w.stride], w.fit.t[from:])
		w.touched[name] = w.clock
	}
}

func (w *wide) predict(rows *Rows, logp []float64) {
	phi := w.design(rows, false)
	n, columns := phi.size()
	w.fit.resize(n, columns)
	m := w.mean
	if w.Scale == Unit { // the columns that occur have numbers of their own
		m = w.fit.m
		for k, name := range phi.columns() {
			copy(m[k*w.stride:(k+1)*w.stride], w.mean[int(name)*w.stride:])
		}
	}
	phi.logits(w.fit.probs, m, w.stride)
	for i := range n {
		row := logp[i*w.shape.Classes : (i+1)*w.shape.Classes]
		copy(row, w.fit.probs[i*w.stride:])
	}
}

func (w *wide) train(b *Batch) {
	if w.Scale == Standard {
		w.standardizer.fit(&b.Rows)
	}
	w.update(&b.Rows, b.Labels, w.TrainingPasses)
	w.version++
}

func (w *wide) learn(b *Batch, share float64) posterior.Report {
	w.clock += share
	for _, j := range w.changed {
		w.listed[j] = false
	}
	w.changed = w.changed[:0]
	w.update(&b.Rows, b.Labels, w.Passes)
	if w.Refresh && b.Refresh.N > 0 {
		w.update(&b.Refresh, b.RefreshLabels, w.Passes)
	}
	w.version++
	return posterior.Report{}
}

func (w *wide) update(rows *Rows, labels []int32, passes int) {
	phi := w.design(rows, true)
	w.take(phi)
	w.fit.run(phi, labels, passes)
	w.give(phi)
	for _, j := range phi.columns() {
		if !w.listed[j] {
			w.listed[j] = true
			w.changed = append(w.changed, j)
		}
	}
}

func (w *wide) appendState(s *state) {
	s.uint(w.version)
	s.float(w.clock)
	for j := range w.columns {
		w.appendColumn(s, j)
	}
	if w.standardizer != nil {
		w.standardizer.appendState(s)
	}
}

func (w *wide) appendColumn(s *state, j int) {
	s.float(w.touched[j])
	s.floats(w.mean[j*w.stride : j*w.stride+w.shape.Classes])
	s.floats(w.precision[j*w.stride : j*w.stride+w.shape.Classes])
}

// appendChange leaves out the precisions: where they differ, the next means do.
func (w *wide) appendChange(s *state) {
	s.uint(w.version)
	s.float(w.clock)
	for _, j := range w.changed {
		s.uint(uint64(j))
		s.floats(w.mean[int(j)*w.stride : int(j)*w.stride+w.shape.Classes])
	}
}

func (w *wide) readState(r *reader) {
	w.version = r.uint()
	w.clock = r.float()
	for j := range w.columns {
		w.touched[j] = r.float()
		r.floats(w.mean[j*w.stride : j*w.stride+w.shape.Classes])
		precision := w.precision[j*w.stride : j*w.stride+w.shape.Classes]
		r.floats(precision)
		for _, t := range precision {
			r.want(t > 0, "precision of column %d is not positive", j)
		}
	}
	if w.standardizer != nil {
		w.standardizer.readState(r)
	}
}

// standardizer standardises features and neighbours' means by the training rows.
type standardizer struct {
	features   int
	neighbours bool
	mean       []float64 // of x, and of the neighbours' mean
	by         []float64 // 1/standard deviation
	buffer     entries
}

func newStandardizer(features int, neighbours bool) *standardizer {
	n := features
	if neighbours {
		n *= 2
	}
	s := &standardizer{features: features, neighbours: neighbours, mean: make([]float64, n), by: make([]float64, n)}
	for j := range s.by {
		s.by[j] = 1
	}
	return s
}

// raw writes x and the neighbours' mean of row i to dst. It reports whether
// there are neighbours.
func (s *standardizer) raw(dst []float64, rows *Rows, i int) bool {
	d := s.features
	clear(dst)
	index, value := rows.X.entries(i, d, &s.buffer)
	for k, j := range index {
		dst[j] = float64(value[k])
	}
	if !s.neighbours || rows.Degree[i] == 0 {
		return false
	}
	by := 1 / float64(rows.Degree[i])
	index, value = rows.S.entries(i, d, &s.buffer)
	for k, j := range index {
		dst[d+int(j)] = float64(value[k]) * by
	}
	return true
}

// fit takes means and standard deviations over rows; the neighbours' over those
// that have any.
func (s *standardizer) fit(rows *Rows) {
	row, square := make([]float64, len(s.mean)), make([]float64, len(s.mean))
	count := make([]float64, len(s.mean))
	clear(s.mean)
	for i := range rows.N {
		known := len(row)
		if !s.raw(row, rows, i) {
			known = s.features
		}
		for j, x := range row[:known] {
			count[j]++
			// Welford 1962: the squares of large numbers would drown their spread.
			d := x - s.mean[j]
			s.mean[j] += d / count[j]
			square[j] += float64(d * (x - s.mean[j]))
		}
	}
	for j := range s.by {
		s.by[j] = 1
		if sd := math.Sqrt(square[j] / max(count[j], 1)); sd > 0 {
			s.by[j] = 1 / sd
		}
	}
}

// row writes φ of row i to dst: x standardised, of unit length; the neighbours'
// mean likewise, 0 without neighbours; and 1.
func (s *standardizer) row(dst []float64, rows *Rows, i int) {
	last := len(s.mean)
	neighbours := s.raw(dst[:last], rows, i)
	for j, m := range s.mean {
		dst[j] = (dst[j] - m) * s.by[j]
	}
	unit(dst[:s.features])
	if s.neighbours {
		if !neighbours {
			clear(dst[s.features:last])
		}
		unit(dst[s.features:last])
	}
	dst[last] = 1
}

func unit(x []float64) {
	var square float64
	for _, v := range x {
		square += float64(v * v)
	}
	if square == 0 {
		return
	}
	by := 1 / math.Sqrt(square)
	for j := range x {
		x[j] *= by
	}
}

func (s *standardizer) appendState(b *state) {
	b.floats(s.mean)
	b.floats(s.by)
}

func (s *standardizer) readState(r *reader) {
	r.floats(s.mean)
	r.floats(s.by)
}
