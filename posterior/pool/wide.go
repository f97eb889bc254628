package pool

import (
	"math"

	"github.com/gvbll/gvbll/posterior"
)

// wide is softmax regression on features, without a bias for sparse ones:
//
//	p(y = c) = softmax(φᵀM)_c.
//
// With [Unit] scale φ = x/|x|, or [x/|x| ; s/|s|] with neighbours; with [Standard]
// scale see standardizer. Every weight has the prior N(0, v), v = Variance, and an
// independent Gaussian posterior N(M_jc, 1/T_jc).
//
// A batch is one softmaxFit from M0 = M and T0 = λ^share T + (1-λ^share)/v: only
// the precision is forgotten, so an estimate stays until labels contradict it. The
// time of a batch is proportional to its own columns: other columns are forgotten
// later, by the next batch that uses them.
type wide struct {
	Wide
	shape   Shape
	columns int
	stride  int
	version uint64

	mean, precision []float64 // M and T, columns × stride

	// clock is the sum of the shares of all batches learned. updated[j] ≤ clock is
	// its value when column j's T was last written: forgetting by the factor
	// λ^(clock - updated[j]) is still due.
	clock   float64
	updated []float64

	// One of the two, by Scale.
	sparse *sparseMatrix // Unit
	dense  *denseMatrix  // Standard

	standardizer *standardizer // Standard only
	fit          softmaxFit

	changed columnSet // columns that the last learn changed
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
	w.updated, w.changed = make([]float64, w.columns), newColumnSet(w.columns)
	return w
}

// designMatrix returns Φ of rows. It is valid until the next call. learn says
// whether it will be learned from or only predicted with.
func (w *wide) designMatrix(rows *Rows, learn bool) designMatrix {
	d := w.shape.Features
	if w.Scale == Standard {
		w.dense.reset(rows.N)
		for i := range rows.N {
			w.standardizer.row(w.dense.row(i), rows, i)
		}
		if learn {
			w.dense.setAbsolute()
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

// loadPrior sets the fit's M0 and T0: the moments of Φ's columns, T after the
// forgetting that is due.
func (w *wide) loadPrior(phi designMatrix) {
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
		keep := posterior.Exp(log * (w.clock - w.updated[name]))
		for c, t := range w.precision[from : from+w.stride] {
			w.fit.t[to+c] = float64(keep*t) + float64((1-keep)/w.Variance)
		}
	}
}

// store writes the fit's moments back to Φ's columns.
func (w *wide) store(phi designMatrix) {
	for k, name := range phi.columns() {
		to, from := int(name)*w.stride, k*w.stride
		copy(w.mean[to:to+w.stride], w.fit.m[from:])
		copy(w.precision[to:to+w.stride], w.fit.t[from:])
		w.updated[name] = w.clock
	}
}

func (w *wide) predict(rows *Rows, logp []float64) {
	phi := w.designMatrix(rows, false)
	n, columns := phi.size()
	w.fit.resize(n, columns)
	m := w.mean
	if w.Scale == Unit { // Φ has only the columns that occur
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

// train standardises by the training rows and fits them, all at once, from the
// prior.
func (w *wide) train(b *Batch) {
	if w.Scale == Standard {
		w.standardizer.fit(&b.Rows)
	}
	w.update(&b.Rows, b.Labels, w.TrainingPasses)
	w.version++
}

func (w *wide) learn(b *Batch, share float64) posterior.Report {
	w.clock += share
	w.changed.clear()
	w.update(&b.Rows, b.Labels, w.Passes)
	if w.Refresh && b.Refresh.N > 0 {
		w.update(&b.Refresh, b.RefreshLabels, w.Passes)
	}
	w.version++
	return posterior.Report{}
}

// update learns from rows and adds their columns to changed.
func (w *wide) update(rows *Rows, labels []int32, passes int) {
	phi := w.designMatrix(rows, true)
	w.loadPrior(phi)
	w.fit.fit(phi, labels, passes)
	w.store(phi)
	for _, j := range phi.columns() {
		w.changed.add(j)
	}
}

// takeOver takes over all weights: none is on the embedding.
func (w *wide) takeOver(from classifier, _ float64) {
	old := from.(*wide)
	copyClasses(w.mean, w.stride, old.mean, old.stride, old.shape.Classes)
	copyClasses(w.precision, w.stride, old.precision, old.stride, old.shape.Classes)
	w.clock = old.clock
	copy(w.updated, old.updated)
	if w.standardizer != nil {
		copy(w.standardizer.mean, old.standardizer.mean)
		copy(w.standardizer.inverse, old.standardizer.inverse)
	}
}

func (w *wide) appendState(s *writer) {
	s.uint(w.version)
	s.float(w.clock)
	for j := range w.columns {
		w.appendColumn(s, j)
	}
	if w.standardizer != nil {
		w.standardizer.appendState(s)
	}
}

func (w *wide) appendColumn(s *writer, j int) {
	s.float(w.updated[j])
	s.floats(w.mean[j*w.stride : j*w.stride+w.shape.Classes])
	s.floats(w.precision[j*w.stride : j*w.stride+w.shape.Classes])
}

// appendChange appends the means of the columns that changed. It leaves out the
// precisions: two states that differ in them alone differ in their means after the
// next batch.
func (w *wide) appendChange(s *writer) {
	s.uint(w.version)
	s.float(w.clock)
	for _, j := range w.changed.list {
		s.uint(uint64(j))
		s.floats(w.mean[int(j)*w.stride : int(j)*w.stride+w.shape.Classes])
	}
}

func (w *wide) readState(r *reader) {
	w.version = r.uint()
	w.clock = r.float()
	for j := range w.columns {
		w.updated[j] = r.float()
		r.floats(w.mean[j*w.stride : j*w.stride+w.shape.Classes])
		r.positives(w.precision[j*w.stride:j*w.stride+w.shape.Classes], "a precision")
	}
	if w.standardizer != nil {
		w.standardizer.readState(r)
	}
}

// standardizer makes the rows of Φ of dense features,
//
//	φ = [u((x - μ)∘σ⁻¹) ; u((s/deg - μ')∘σ'⁻¹) ; 1],  u(x) = x/|x|,
//
// where μ and σ are mean and standard deviation over the training rows, μ' and σ'
// those of the neighbours' mean features s/deg over the training rows that have
// neighbours. The second part is left out without Neighbours and is 0 for a row
// without neighbours.
type standardizer struct {
	features   int       // d
	neighbours bool      // whether there is a second part
	mean       []float64 // [μ ; μ']
	inverse    []float64 // [1/σ ; 1/σ'], 1 where σ is 0
	buffer     entries
}

func newStandardizer(features int, neighbours bool) *standardizer {
	n := features
	if neighbours {
		n *= 2
	}
	s := &standardizer{features: features, neighbours: neighbours, mean: make([]float64, n), inverse: make([]float64, n)}
	for j := range s.inverse {
		s.inverse[j] = 1
	}
	return s
}

// raw writes [x ; s/deg] of row i to dst. It reports whether the second part is
// there.
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

// fit sets mean and inverse from the training rows.
func (s *standardizer) fit(rows *Rows) {
	row, square := make([]float64, len(s.mean)), make([]float64, len(s.mean))
	count := make([]float64, len(s.mean))
	clear(s.mean)
	for i := range rows.N {
		present := len(row)
		if !s.raw(row, rows, i) {
			present = s.features
		}
		for j, x := range row[:present] {
			count[j]++
			// Welford 1962: Σx² - (Σx)²/n would cancel where the mean is large.
			d := x - s.mean[j]
			s.mean[j] += d / count[j]
			square[j] += float64(d * (x - s.mean[j]))
		}
	}
	for j := range s.inverse {
		s.inverse[j] = 1
		if sd := math.Sqrt(square[j] / max(count[j], 1)); sd > 0 {
			s.inverse[j] = 1 / sd
		}
	}
}

// row writes φ of row i to dst.
func (s *standardizer) row(dst []float64, rows *Rows, i int) {
	last := len(s.mean)
	neighbours := s.raw(dst[:last], rows, i)
	for j, m := range s.mean {
		dst[j] = (dst[j] - m) * s.inverse[j]
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

// unit scales x to unit length, unless it is 0.
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

func (s *standardizer) appendState(b *writer) {
	b.floats(s.mean)
	b.floats(s.inverse)
}

func (s *standardizer) readState(r *reader) {
	r.floats(s.mean)
	r.floats(s.inverse)
}
