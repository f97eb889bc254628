package pool

import (
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/internal/words"
)

// fitted is softmax regression that is kept at its optimum on labelled rows:
//
//	p(y = c) ∝ π_c e^(φᵀW)_c,  W = argmin Σ_i ω_i ℓ_i(W) + ½ s ‖W‖²,
//
// with the class shares π of all labels and the log loss ℓ_i of row i. The rows are a reservoir of
// bounded size (reservoir.go), with the weights ω that make up for those that it lacks. They are
// replaced by what they are now when they are replayed.
//
// It is fitted with several strengths s beside each other: in training with all, in the stream with the one that was best for
// rows held out and its neighbours. The one that serves is that with the best log likelihood of labels before they are learned.
type fitted struct {
	cfg     Fitted
	classes int
	phi     *featureMap
	weights *fittedWeights
	rows    *reservoir
	solver  solver
	mass    []float64 // nodes of each class, by their labels and these' rates
	score   []float64 // log likelihood of each strength
	version uint64
	changed digest  // of what the last learn changed
	at      chances // scratch
	loaded  []phi   // scratch: the rows of a batch
	of      *Rows   // that are loaded
}

// solver brings the weights of a fitted head to the optimum of its rows, as far as labels pay for it: by Newton's
// method where columns are few, else by dual ascent.
type solver interface {
	// add, replace and remove take up that a row, of a class, has come to the reservoir, becomes x, or is to leave it.
	add(r *kept, class int, logRates []float64)
	replace(r *kept, x *phi, class int, logRates []float64)
	remove(r *kept, class int)
	// train does passes over the rows, at most so many, until the weights settle.
	train(passes int)
	// begin begins a batch whose labels pay for so many multiply-adds, isPaid reports whether any are left, and work
	// spends these. It returns what tells apart two states that were equal before the batch.
	begin(paid int)
	isPaid() bool
	work(logRates []float64) digest
	// state declares the rows, and not the weights.
	state(s *words.Stream)
}

// fittedWeights are what a fitted head predicts with.
type fittedWeights struct {
	strengths                []float64 // all, of which some are fitted
	columns, classes, stride int
	w                        []float64 // columns × strengths from the first that is fitted × stride
	first, n                 int       // strengths that are fitted
	offset                   []float64 // log π, stride; 0 beyond the classes
	best                     int       // the strength that serves
}

func newFitted(cfg Fitted, shape Shape) *fitted {
	phi, rows := newFeatureMap(cfg, shape), newReservoir(cfg.Rows, shape.Classes)
	f := &fitted{cfg: cfg, classes: shape.Classes, phi: phi, rows: &rows}
	f.weights = &fittedWeights{
		strengths: cfg.Strengths, columns: phi.columns, classes: shape.Classes, stride: strideOf(shape.Classes),
	}
	f.weights.offset, f.mass = make([]float64, f.weights.stride), make([]float64, shape.Classes)
	f.score = make([]float64, len(cfg.Strengths))
	f.fitAbout(0)
	f.setOffset()
	return f
}

// fitAbout begins anew, with the strengths about one.
func (f *fitted) fitAbout(about int) {
	n := f.cfg.streamed()
	f.fitFrom(min(max(about-1, 0), len(f.cfg.Strengths)-n), n)
}

// fitFrom begins anew, with n strengths from first on.
func (f *fitted) fitFrom(first, n int) {
	w := f.weights
	w.first, w.n, w.w = first, n, make([]float64, w.columns*n*w.stride)
	*f.rows = newReservoir(f.cfg.Rows, f.classes)
	if f.cfg.isNewton(f.phi.shape) {
		f.solver = newNewton(w, f.rows)
	} else {
		f.solver = newAscent(w, f.rows)
	}
}

func (w *fittedWeights) strength(k int) float64 { return w.strengths[w.first+k] }

// inverse returns 1/s of weights k.
func (w *fittedWeights) inverse(k int) float64 { return 1 / w.strength(k) }

// of returns those of column j with strength k.
func (w *fittedWeights) of(j, k int) []float64 { return w.w[(j*w.n+k)*w.stride:][:w.classes] }

// serving returns which weights serve.
func (w *fittedWeights) serving() int { return w.best - w.first }

// setOffset sets π from the nodes that labels stand for.
func (f *fitted) setOffset() {
	all := total(f.mass) + float64(f.classes)
	for c, n := range f.mass {
		f.weights.offset[c] = double.Log((n + 1) / all)
	}
}

// standsFor returns how many nodes a label of a class stands for, where labels have those rates.
func standsFor(class int, logRates []float64) float64 {
	if logRates == nil {
		return 1
	}
	return double.Exp(slices.Max(logRates) - logRates[class])
}

// chances are scratch memory of the probabilities of one row.
type chances struct {
	p       []float64 // strengths × stride
	scratch softmaxScratch
}

// logits sets p to φᵀW + log π + logRates of n strengths from k on, and returns it.
func (s *chances) logits(w *fittedWeights, x *phi, k, n int, logRates []float64) []float64 {
	s.p = kernel.Resize(s.p, n*w.stride)
	x.Product(s.p, w.w[k*w.stride:], w.n*w.stride)
	for at := 0; at < len(s.p); at += w.stride {
		p := s.p[at : at+w.stride]
		for c, o := range w.offset {
			p[c] += o
		}
		for c, o := range logRates {
			p[c] += o
		}
	}
	return s.p
}

// softmax replaces p of n strengths by its softmax.
func (s *chances) softmax(classes, n int) {
	stride := len(s.p) / n
	s.scratch.exponentials(s.p, n, classes, stride)
	for k, total := range s.scratch.total {
		by := 1 / total
		for c := range s.p[k*stride : (k+1)*stride] {
			s.p[k*stride+c] *= by
		}
	}
}

func (f *fitted) predict(rows *Rows, logp []float64) {
	f.each(rows, func(i int) {
		copy(logp[i*f.classes:(i+1)*f.classes], f.at.logits(f.weights, &f.phi.row, f.weights.serving(), 1, nil))
	})
}

// each loads rows and calls do for each. The same rows, which do not change, are read once.
func (f *fitted) each(rows *Rows, do func(i int)) {
	for len(f.loaded) < rows.N {
		f.loaded = append(f.loaded, phi{})
	}
	for i := range rows.N {
		if f.phi.row, f.loaded[i] = f.loaded[i], f.phi.row; f.of != rows {
			f.phi.load(rows, i)
		}
		do(i)
		f.phi.row, f.loaded[i] = f.loaded[i], f.phi.row
	}
	f.of = rows
}

// tally adds the log likelihoods of the label of the loaded row to the scores of all strengths.
func (f *fitted) tally(label int32, logRates []float64) {
	w := f.weights
	p, said := f.at.logits(w, &f.phi.row, 0, w.n, logRates), &f.at.scratch
	var at [maxStrengths]float64
	for k := range w.n {
		at[k] = p[k*w.stride+int(label)]
	}
	said.exponentials(p, w.n, w.classes, w.stride)
	for k := range w.n {
		f.score[w.first+k] += at[k] - (said.most[k] + double.Log(said.total[k]))
	}
}

// insert gives the loaded row, of a node, to the reservoir, unless it is one of those that are left out.
func (f *fitted) insert(key int64, class int, logRates []float64) {
	f.rows.seen[class]++
	f.rows.labels++
	if at, has := f.rows.at[key]; has && key >= 0 { // what had the number before
		f.rows.rename(at, none)
	}
	switch from, i := f.rows.room(class); {
	case i == leftOut:
		return
	case i >= 0:
		f.remove(from, i)
	}
	f.solver.add(f.rows.put(key, class, &f.phi.row), class, logRates)
}

// remove takes a row from the reservoir.
func (f *fitted) remove(class, i int) {
	f.solver.remove(&f.rows.rows[class][i], class)
	f.rows.drop(class, i)
}

// refresh replaces the row of a node by the loaded one. A node that the reservoir does not have may be one of
// those that trained.
func (f *fitted) refresh(node int32, class int, logRates []float64) {
	at, has := f.rows.at[int64(node)]
	if !has {
		key := f.phi.trainedKey(class)
		if at, has = f.rows.at[key]; has && at.class == class {
			f.rows.rename(at, int64(node))
			f.rows.find(key, class)
		}
	}
	if has && at.class == class {
		f.solver.replace(&f.rows.rows[class][at.row], &f.phi.row, class, logRates)
	}
}

// train fits the training rows, and finds the strength that is best for rows held out.
func (f *fitted) train(b *Batch) {
	if b.Replay.N > 0 {
		b = &Batch{Rows: b.Replay, Labels: b.ReplayLabels}
	}
	f.phi.fit(b)
	f.of = nil
	for fold := range f.folds(b.N) {
		held := func(i int) bool { return mix(uint64(i))%heldFolds == uint64(fold) }
		f.fitFrom(0, len(f.cfg.Strengths))
		f.fit(b, func(i int) bool { return !held(i) })
		for i, y := range b.Labels {
			if held(i) {
				f.phi.load(&b.Rows, i)
				f.tally(y, nil)
			}
		}
	}
	f.choose()
	f.fitAbout(f.weights.best)
	for k := range f.score {
		f.score[k] *= min(1, trusted/float64(max(b.N, 1)))
	}
	f.fit(b, func(int) bool { return true })
	f.version++
}

// trusted is the number of labels of the stream that rows held out count as, at most: they are rows of another time.
const trusted = 30

// Rows are held out in folds, all of them in turn where they are few.
const (
	heldFolds = 5
	fewRows   = 2000
)

func (f *fitted) folds(rows int) int {
	switch {
	case rows < 2*heldFolds:
		return 0
	case rows < fewRows:
		return heldFolds
	}
	return 1
}

// fit inserts training rows and solves them.
func (f *fitted) fit(b *Batch, use func(i int) bool) {
	clear(f.mass)
	for i, y := range b.Labels { // classes first: they are the offset of the first visit
		if use(i) {
			f.mass[y]++
		}
	}
	f.setOffset()
	for i, y := range b.Labels {
		if use(i) {
			f.phi.load(&b.Rows, i)
			f.insert(f.phi.trainedKey(int(y)), int(y), nil)
		}
	}
	f.solver.train(f.cfg.TrainingPasses)
}

func (f *fitted) choose() {
	w := f.weights
	w.best = w.first
	for k := w.first; k < w.first+w.n; k++ {
		if f.score[k] > f.score[w.best] {
			w.best = k
		}
	}
}

func (f *fitted) learn(b *Batch, _ float64) posterior.Report {
	f.solver.begin(b.N * int(float64(float64(f.cfg.Work)*(1+f.cfg.Few/max(f.rows.labels, 1)))))
	for i, y := range b.TakenLabels {
		if f.rows.seen[y] > 0 {
			f.rows.seen[y]--
			f.rows.labels--
			f.mass[y] = max(f.mass[y]-standsFor(int(y), b.LogRates), 0)
		}
		if at, has := f.rows.at[int64(nodeOf(b.TakenNodes, i))]; has && at.class == int(y) {
			f.remove(int(y), at.row)
		}
	}
	f.each(&b.Rows, func(i int) { f.tally(b.Labels[i], b.LogRates) })
	f.choose()
	f.each(&b.Rows, func(i int) {
		y := int(b.Labels[i])
		f.mass[y] += standsFor(y, b.LogRates)
		f.insert(int64(nodeOf(b.Nodes, i)), y, b.LogRates)
	})
	for i, y := range b.ReplayLabels {
		if node := nodeOf(b.ReplayNodes, i); node != none && f.solver.isPaid() {
			f.phi.load(&b.Replay, i)
			f.refresh(node, int(y), b.LogRates)
		}
	}
	f.setOffset()
	f.changed = f.solver.work(b.LogRates)
	f.version++
	return posterior.Report{}
}

// nodeOf returns the number of the node of a row, none where numbers are not given.
func nodeOf(nodes []int32, i int) int32 {
	if i >= len(nodes) {
		return none
	}
	return nodes[i]
}

// takeOver takes over rows and scores: no column is of the embedding.
func (f *fitted) takeOver(from classifier, _ float64) {
	old := from.(*fitted)
	if f.classes != old.classes { // its columns are others
		return
	}
	var s words.Stream
	old.state(&s)
	f.state(&words.Stream{B: s.B, Reads: true})
}

func (f *fitted) twin() classifier {
	t := *f
	t.phi, t.at, t.loaded, t.of = f.phi.twin(), chances{}, nil, nil
	return &t
}

func (f *fitted) change(s *words.Stream) {
	s.Put(f.version)
	s.Floats(f.score)
	s.Floats(f.weights.offset[:f.classes])
	s.Put(uint64(f.changed))
}

func (f *fitted) state(s *words.Stream) {
	f.weights.serve(s)
	s.Uint(&f.version)
	s.Floats(f.score)
	s.Floats(f.phi.degree)
	s.Floats(f.phi.shares)
	s.Counts(f.mass)
	for k := range f.weights.n {
		if k != f.weights.serving() {
			f.weights.each(k, s.Floats)
		}
	}
	f.phi.eachScale(s.Floats)
	f.solver.state(s)
}

// each visits the weights of strength k.
func (w *fittedWeights) each(k int, visit func([]float64)) {
	for j := range w.columns {
		visit(w.of(j, k))
	}
}

// serve declares the weights that serve.
func (w *fittedWeights) serve(s *words.Stream) {
	first, best := w.first, w.serving()
	s.Below(&first, len(w.strengths)-w.n+1, "a strength")
	if s.Below(&best, w.n, "a strength"); s.Err != nil {
		return
	}
	w.first, w.best = first, first+best
	s.Floats(w.offset[:w.classes])
	w.each(best, s.Floats)
}
