package pool

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/internal/words"
)

// wide is softmax regression on blocks of columns,
//
//	p(y = c) = softmax(φᵀM)_c.
//
// φ has the blocks one behind the other. With [Unit] scale features are x/|x| and s/|s|;
// with [Standard] scale see standardizer. Every weight has the prior N(0, v), v =
// Variance, and an independent Gaussian posterior N(M_jc, 1/T_jc).
//
// A batch is one softmaxFit from M0 = M and T0 = λ^share T + (1-λ^share)/v: only
// the precision is forgotten, so an estimate stays until labels contradict it. The
// time of a batch is proportional to its own columns: other columns are forgotten
// later, by the next batch that uses them.
//
// A head that replays then learns m of the n labelled nodes again, with their rows as they are now,
// in another fit, before which it forgets as much as these told it before: e^(-m/n) is kept, so that
// a sweep over all of them takes the place of the one before.
type wide struct {
	cfg     Wide
	shape   Shape
	blocks  []placed
	columns int
	stride  int
	version uint64

	mean, precision []float64 // M and T, columns × stride

	// clock is -log of what is kept of the first batch: the sum of -share log λ over all batches, and
	// of m/n. updated[j] ≤ clock is its value when column j's T was last written: forgetting
	// by the factor e^(updated[j] - clock) is still due.
	clock   float64
	updated []float64

	// One of the two, by Scale.
	sparse *sparseMatrix // Unit
	dense  *denseMatrix  // Standard
	of     *Rows         // the rows of Φ

	mixed *interactions // the last columns, nil if there are none
	read  []float64     // scratch: the columns of a row that they read
	std   []float64     // scratch: these, standardised

	fit    softmaxFit
	buffer []float64 // the columns of a block

	changed columnSet // columns that the last learn changed
}

func newWide(cfg Wide, shape Shape) *wide {
	w := &wide{cfg: cfg, shape: shape, blocks: cfg.place(shape), stride: strideOf(shape.Classes)}
	w.columns = w.blocks[len(w.blocks)-1].end + cfg.Interactions
	w.mix()
	w.newMatrix()
	w.fit = softmaxFit{classes: shape.Classes, stride: w.stride}
	w.mean = make([]float64, w.columns*w.stride)
	w.precision = make([]float64, w.columns*w.stride)
	for i := range w.precision {
		w.precision[i] = 1 / w.cfg.Variance
	}
	w.updated, w.changed = make([]float64, w.columns), newColumnSet(w.columns)
	return w
}

// mix gives w its interactions, if it has any.
func (w *wide) mix() {
	columns := 0
	for _, b := range w.blocks {
		if n := b.end - b.at; w.cfg.mixes(b.Block, float64(n)) {
			columns += n
		}
	}
	if w.cfg.Interactions > 0 {
		w.mixed = newInteractions(w.cfg.Interactions, columns)
	}
}

// newMatrix gives w a matrix Φ of its own.
func (w *wide) newMatrix() {
	w.of = nil
	if w.cfg.Scale == Standard {
		w.dense = newDenseMatrix(w.columns)
	} else {
		w.sparse = newSparseMatrix(w.columns)
	}
}

// designMatrix returns Φ of rows. It is valid until the next call; of the same rows, which do not change, it is made once. learn
// says whether it will be learned from or only predicted with.
func (w *wide) designMatrix(rows *Rows, learn bool) designMatrix {
	known := w.of == rows
	w.of = rows
	if w.cfg.Scale == Unit {
		if known {
			return w.sparse
		}
		w.sparse.reset()
		for i := range rows.N {
			w.appendRow(rows, i)
		}
		w.sparse.finish()
		return w.sparse
	}
	if !known {
		w.dense.reset(rows.N)
		for i := range rows.N {
			w.writeRow(w.dense.row(i), rows, i)
		}
	}
	if learn {
		w.dense.setAbsolute()
	}
	return w.dense
}

// writeRow writes φ of row i to dst, with standardised features.
func (w *wide) writeRow(dst []float64, rows *Rows, i int) {
	w.read = w.read[:0]
	for _, b := range w.blocks {
		to := dst[b.at:b.end]
		if b.standard != nil {
			b.standard.write(to, b.Block, rows, i)
		} else {
			b.around(to, rows, i, w.shape.Classes)
		}
		w.reads(b, to)
	}
	if w.mixed != nil {
		w.std = w.mixed.write(dst[w.columns-w.cfg.Interactions:], w.read, w.std)
	}
}

// reads keeps the columns of a block for the interactions if these read it.
func (w *wide) reads(b placed, columns []float64) {
	if w.mixed != nil && w.cfg.mixes(b.Block, float64(len(columns))) {
		w.read = append(w.read, columns...)
	}
}

// appendRow appends φ of row i to the sparse matrix, with features of unit length.
func (w *wide) appendRow(rows *Rows, i int) {
	w.read = w.read[:0]
	for _, b := range w.blocks {
		switch b.Block {
		case OwnFeatures:
			w.sparse.appendUnit(&rows.X, i, w.shape.Features, b.at)
		case meanFeatures:
			w.sparse.appendUnit(&rows.S, i, w.shape.Features, b.at)
		default:
			w.buffer = kernel.Resize(w.buffer, b.end-b.at)
			b.around(w.buffer, rows, i, w.shape.Classes)
			w.sparse.rows.Append(b.at, w.buffer...)
			w.reads(b, w.buffer)
		}
	}
	if w.mixed != nil {
		w.buffer = kernel.Resize(w.buffer, w.cfg.Interactions)
		w.std = w.mixed.write(w.buffer, w.read, w.std)
		w.sparse.rows.Append(w.columns-w.cfg.Interactions, w.buffer...)
	}
	w.sparse.rows.EndRow()
}

// loadPrior sets the fit's M0 and T0: the moments of Φ's columns, T after the
// forgetting that is due.
func (w *wide) loadPrior(phi designMatrix) {
	rows, columns := phi.size()
	w.fit.resize(rows, columns)
	for k, name := range phi.columns() {
		from, to := int(name)*w.stride, k*w.stride
		copyLanes(w.fit.m[to:to+w.stride], w.mean[from:])
		if w.updated[name] == w.clock {
			copyLanes(w.fit.t[to:to+w.stride], w.precision[from:])
			continue
		}
		keep := double.Exp(w.updated[name] - w.clock)
		for c, t := range w.precision[from : from+w.stride] {
			w.fit.t[to+c] = float64(keep*t) + float64((1-keep)/w.cfg.Variance)
		}
	}
}

// store writes the fit's moments back to Φ's columns.
func (w *wide) store(phi designMatrix) {
	for k, name := range phi.columns() {
		to, from := int(name)*w.stride, k*w.stride
		copyLanes(w.mean[to:to+w.stride], w.fit.m[from:])
		copyLanes(w.precision[to:to+w.stride], w.fit.t[from:])
		w.updated[name] = w.clock
	}
}

func (w *wide) predict(rows *Rows, logp []float64) {
	phi := w.designMatrix(rows, false)
	n, columns := phi.size()
	w.fit.resize(n, columns)
	m := w.mean
	if w.cfg.Scale == Unit { // Φ has only the columns that occur
		m = w.fit.m
		for k, name := range phi.columns() {
			copyLanes(m[k*w.stride:(k+1)*w.stride], w.mean[int(name)*w.stride:])
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
	for _, block := range w.blocks {
		if block.standard != nil {
			block.standard.fitRows(block.Block, &b.Rows)
		}
	}
	if w.mixed != nil {
		w.mixed.fit(b.N, func(i int) []float64 { return w.readOf(&b.Rows, i) })
	}
	w.of = nil // what scales Φ is new
	w.update(&b.Rows, b.Labels, w.cfg.TrainingPasses)
	w.version++
}

// readOf returns the columns of a row that interactions read.
func (w *wide) readOf(rows *Rows, i int) []float64 {
	if w.cfg.Scale == Standard {
		w.buffer = kernel.Resize(w.buffer, w.columns)
		w.writeRow(w.buffer, rows, i)
	} else {
		w.sparse.reset()
		w.appendRow(rows, i)
	}
	return w.read
}

func (w *wide) learn(b *Batch, share float64) posterior.Report {
	w.clock -= float64(share * double.Log(w.cfg.Lambda))
	w.changed.clear()
	w.fit.keeps = w.cfg.Scale == Standard
	w.fit.scratch.offset = b.LogRates
	w.update(&b.Rows, b.Labels, w.cfg.Passes)
	if n := b.Replay.N; w.cfg.Replay > 0 && n > 0 {
		w.clock += float64(n) / float64(max(n, b.Known))
		w.update(&b.Replay, b.ReplayLabels, w.cfg.Passes)
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

// takeOver takes over all weights: none is on the embedding. Where there are more classes,
// a block on labels has more columns, for each mean if it is by kind of edge, and those of the
// first classes are its first.
func (w *wide) takeOver(from classifier, _ float64) {
	old := from.(*wide)
	for k, b := range old.blocks {
		parts := 1
		if b.needs() == NeedKinds {
			parts = w.shape.Means
		}
		n, wider := (b.end-b.at)/parts, (w.blocks[k].end-w.blocks[k].at)/parts
		for p := range parts {
			at, to := b.at+p*n, w.blocks[k].at+p*wider
			copyClasses(w.mean[to*w.stride:], w.stride, old.mean[at*old.stride:(at+n)*old.stride], old.stride, old.shape.Classes)
			copyClasses(w.precision[to*w.stride:], w.stride, old.precision[at*old.stride:(at+n)*old.stride], old.stride, old.shape.Classes)
			copy(w.updated[to:to+n], old.updated[at:at+n])
		}
	}
	w.clock = old.clock
	if w.columns == old.columns { // interactions of other columns are others
		at := w.columns - w.cfg.Interactions
		copy(w.mean[at*w.stride:], old.mean[at*w.stride:])
		copy(w.precision[at*w.stride:], old.precision[at*w.stride:])
		copy(w.updated[at:], old.updated[at:])
	}
	moments := old.moments()
	for k, to := range w.moments() {
		if len(to) == len(moments[k]) {
			copy(to, moments[k])
		}
	}
}

// moments returns the means and then the inverse deviations of the blocks that have them, and those of
// what interactions read.
func (w *wide) moments() (list [][]float64) {
	for _, b := range w.blocks {
		if b.standard != nil {
			list = append(list, b.standard.mean)
		}
	}
	for _, b := range w.blocks {
		if b.standard != nil {
			list = append(list, b.standard.inverse)
		}
	}
	if w.mixed != nil {
		list = append(list, w.mixed.mean, w.mixed.inverse)
	}
	return list
}

func (w *wide) state(s *words.Stream) {
	s.Uint(&w.version)
	s.Float(&w.clock)
	for j := range w.columns {
		s.Float(&w.updated[j])
		s.Floats(w.means(j))
		s.Positives(w.precision[j*w.stride:j*w.stride+w.shape.Classes], "a precision")
	}
	for _, x := range w.moments() {
		s.Floats(x)
	}
}

func (w *wide) twin() classifier {
	t := *w
	t.fit, t.buffer, t.read, t.std = softmaxFit{classes: w.shape.Classes, stride: w.stride}, nil, nil, nil
	t.newMatrix()
	return &t
}

// change writes the means of the columns that changed. It leaves out the
// precisions: two states that differ in them alone differ in their means after the
// next batch.
func (w *wide) change(s *words.Stream) {
	s.Put(w.version)
	s.Float(&w.clock)
	var d digest
	for _, j := range w.changed.list {
		d.uint(uint64(j))
		d.floats(w.means(int(j)))
	}
	s.Put(uint64(d))
}

// means returns the means of column j.
func (w *wide) means(j int) []float64 { return w.mean[j*w.stride : j*w.stride+w.shape.Classes] }
