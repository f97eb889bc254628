package pool

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/posterior"
)

// fitted is softmax regression that is kept at its optimum on labelled rows:
//
//	p(y = c) ∝ π_c e^(φᵀW)_c,  W = argmin Σ_i ω_i ℓ_i(W) + ½ s ‖W‖²,
//
// with the class shares π of all labels and the log loss ℓ_i of row i. The rows are a reservoir of
// bounded size (reservoir.go), with the weights ω that make up for those that it lacks. They are
// replaced by what they are now when they are replayed.
//
// The optimum is found by dual coordinate ascent (Shalev-Shwartz & Zhang 2013). Row i has
// probabilities q_i, and W = 1/s Σ_i ω_i φ_i (y_i - q_i)ᵀ at every moment: it is the optimum where q_i
// = p_i for all i. A visit moves q_i towards p_i by the step
//
//	t = [KL(q‖p) + |p-q|²] / [|p-q|² (2 + ω|φ|²/s)], at most 1,
//
// which cannot make the dual objective fall, and needs no step size, no matrix and no line search. A row
// that comes, changes or goes is a change of W by its own term, so nothing is ever fitted anew: each label pays
// for a visit of its own row, of those that it replays, and of as many others of a sweep as Work allows.
//
// It is fitted with several strengths s beside each other. The one that serves is that with the best log
// likelihood of labels before they are learned, from rows held out in training on.
type fitted struct {
	cfg     Fitted
	shape   Shape
	blocks  []placed
	columns int
	stride  int

	*fittedWeights
	degree []float64 // the mean of log(1 + deg) of training rows: one number
	score  []float64 // log likelihood of each strength
	reservoir
	inverse []float64 // 1/s, by strength

	row            entries // scratch: φ of a row
	buffer, square []float64
	p, log, delta  []float64 // scratch, stride
	most, total    []float64
	visited        digest // of what the last learn changed
	spent          int    // multiply-adds of the last learn
	version        uint64
}

// fittedWeights are what a fitted head predicts with.
type fittedWeights struct {
	w      [][]float64 // by strength, columns × stride
	offset []float64   // log π, stride; 0 beyond the classes
	best   int         // the strength that serves
}

func newFitted(cfg Fitted, shape Shape) *fitted {
	f := &fitted{cfg: cfg, shape: shape, stride: strideOf(shape.Classes), fittedWeights: &fittedWeights{}}
	f.blocks = Wide{Blocks: cfg.Blocks, Scale: cfg.Scale}.place(shape)
	f.columns = f.blocks[len(f.blocks)-1].end
	f.score, f.degree = make([]float64, len(cfg.Strengths)), make([]float64, 1)
	for _, s := range cfg.Strengths {
		f.w = append(f.w, make([]float64, f.columns*f.stride))
		f.inverse = append(f.inverse, 1/s)
	}
	f.reservoir = newReservoir(cfg.Rows, shape.Classes)
	f.makeScratch()
	f.offset = make([]float64, f.stride)
	f.setOffset(nil)
	return f
}

func (f *fitted) makeScratch() {
	f.row, f.buffer = entries{}, nil
	for _, x := range []*[]float64{&f.p, &f.log, &f.delta} {
		*x = make([]float64, f.stride)
	}
	f.most, f.total = make([]float64, 1), make([]float64, 1)
}

// setOffset sets π from the labels seen, of which classes have those rates.
func (f *fitted) setOffset(logRates []float64) {
	for c, n := range f.seen {
		f.offset[c] = double.Log((n + 1) / (f.labels + float64(f.shape.Classes)))
		if logRates != nil {
			f.offset[c] -= logRates[c]
		}
	}
}

// load sets row to φ of row i: dense features standardised, not beyond mostDeviations, and sparse ones
// of unit length.
func (f *fitted) load(rows *Rows, i int) {
	f.row.index, f.row.value = f.row.index[:0], f.row.value[:0]
	for _, b := range f.blocks {
		if b.standard == nil && b.isFeatures() {
			from := &rows.X
			if b.Block == meanFeatures {
				from = &rows.S
			}
			f.loadUnit(from, i, b.at)
			continue
		}
		f.buffer = kernel.Resize(f.buffer, b.end-b.at)
		switch {
		case b.standard == nil:
			b.around(f.buffer, rows, i, f.shape.Classes)
			if b.Block == LogDegree {
				f.buffer[0] = f.buffer[0]/degreeScale - f.degree[0]
			}
		case !b.standard.raw(f.buffer, b.Block, rows, i):
			continue
		default:
			for j, m := range b.standard.mean {
				f.buffer[j] = min(max((f.buffer[j]-m)*b.standard.inverse[j], -mostDeviations), mostDeviations)
			}
		}
		for j, x := range f.buffer {
			f.append(b.at+j, x)
		}
	}
}

// mostDeviations bounds standardised features: one that is far out shall not decide alone.
const mostDeviations = 5

func (f *fitted) append(column int, x float64) {
	if v := float32(x); v != 0 {
		f.row.index, f.row.value = append(f.row.index, int32(column)), append(f.row.value, v)
	}
}

func (f *fitted) loadUnit(from *Features, i, at int) {
	var dense entries
	index, value := from.entries(i, f.shape.Features, &dense)
	var square float64
	for _, x := range value {
		square += float64(float64(x) * float64(x))
	}
	if square == 0 {
		return
	}
	by := 1 / math.Sqrt(square)
	for k, j := range index {
		f.append(at+int(j), float64(value[k])*by)
	}
}

// logits sets p to φᵀW + log π of a strength.
func (f *fitted) logits(x *entries, k int) {
	copy(f.p, f.offset)
	w := f.w[k]
	for e, j := range x.index {
		double.AddScaled(f.p, float64(x.value[e]), w[int(j)*f.stride:(int(j)+1)*f.stride])
	}
}

// add adds φ δᵀ to the weights of a strength.
func (f *fitted) add(x *entries, k int, delta []float64) {
	w := f.w[k]
	for e, j := range x.index {
		double.AddScaled(w[int(j)*f.stride:(int(j)+1)*f.stride], float64(x.value[e]), delta)
	}
	f.spent += len(x.index) * f.stride
}

// softmax replaces p by its softmax, and returns the log of the sum of exponentials.
func (f *fitted) softmax() (logSum float64) {
	for c := f.shape.Classes; c < f.stride; c++ {
		f.p[c] = math.Inf(-1)
	}
	double.RowExponentials(f.p, f.most, f.total)
	by := 1 / f.total[0]
	for c := range f.p {
		f.p[c] *= by
	}
	return f.most[0] + double.Log(f.total[0])
}

func (f *fitted) predict(rows *Rows, logp []float64) {
	for i := range rows.N {
		f.load(rows, i)
		f.logits(&f.row, f.best)
		copy(logp[i*f.shape.Classes:(i+1)*f.shape.Classes], f.p)
	}
}

// tally adds the log likelihoods of the label of the loaded row to the scores of all strengths.
func (f *fitted) tally(label int32, logRates []float64) {
	for k := range f.w {
		f.logits(&f.row, k)
		for c, r := range logRates {
			f.p[c] += r
		}
		at := f.p[label]
		f.score[k] += at - f.softmax()
	}
}

// visit moves q of a row, of a class and with the weight that its class has, towards p, for all strengths.
func (f *fitted) visit(r *kept, class int, logRates []float64) {
	weight := f.weight(class)
	for k, inverse := range f.inverse {
		q := r.said[k*f.shape.Classes : (k+1)*f.shape.Classes]
		f.logits(&r.entries, k)
		f.spent += len(r.index) * f.stride
		for c, o := range logRates {
			f.p[c] += o
		}
		f.softmax()
		var apart, divergence float64 // |p-q|² and KL(q‖p)
		copy(f.log, f.p)
		for c := range f.log {
			f.log[c] = max(f.log[c], math.SmallestNonzeroFloat64)
		}
		double.Logarithms(f.log)
		for c, x := range q {
			d := f.p[c] - x
			apart += float64(d * d)
			if x > 0 {
				divergence += float64(x * (double.Log(x) - f.log[c]))
			}
		}
		t := 0.0
		if apart > 0 {
			t = min(1, (divergence+apart)/float64(apart*(2+float64(weight*float64(r.square*inverse)))))
		}
		t = max(t, 0)
		for c, x := range q {
			next := x + float64(t*(f.p[c]-x))
			y := 0.0
			if c == class {
				y = 1
			}
			f.delta[c] = inverse * (float64(weight*(y-next)) - float64(r.weight*(y-x)))
			q[c] = next
		}
		f.add(&r.entries, k, f.delta)
		f.visited.floats(q)
	}
	r.weight = weight
}

// change adds a row's own term to the weights, times by: -1 where it goes.
func (f *fitted) change(r *kept, class int, by float64) {
	for k, inverse := range f.inverse {
		for c, x := range r.said[k*f.shape.Classes : (k+1)*f.shape.Classes] {
			y := 0.0
			if c == class {
				y = 1
			}
			f.delta[c] = by * float64(inverse*float64(r.weight*(y-x)))
		}
		f.add(&r.entries, k, f.delta)
	}
}

// remove takes a row from the reservoir.
func (f *fitted) remove(class, i int) {
	f.change(&f.rows[class][i], class, -1)
	f.drop(class, i)
}

// insert gives the loaded row, of a node, to the reservoir and visits it, unless it is one of those that are left out.
func (f *fitted) insert(node int32, class int, trained bool, logRates []float64) {
	f.seen[class]++
	f.labels++
	if f.has(node) {
		at := f.at[node] // what had the number before
		f.rows[at.class][at.row].node = none
		delete(f.at, node)
	}
	switch from, i := f.room(class); {
	case i == leftOut:
		return
	case i >= 0:
		f.remove(from, i)
	}
	r := f.put(node, class, &f.row, len(f.w)*f.shape.Classes, trained)
	for k := range f.w {
		r.said[k*f.shape.Classes+class] = 1
	}
	f.visit(r, class, logRates)
}

// refresh replaces the row of a node by the loaded one, and visits it. A node that the reservoir does not have takes
// the place of a training row of its class.
func (f *fitted) refresh(node int32, class int, logRates []float64) {
	if !f.has(node) {
		i := f.trainedRow(class)
		if i < 0 {
			return
		}
		f.rows[class][i].node, f.rows[class][i].trained = node, false
		f.at[node] = place{class, i}
	}
	at := f.at[node]
	if at.class != class {
		return
	}
	r := &f.rows[class][at.row]
	if !r.equals(&f.row) {
		f.change(r, class, -1)
		r.set(&f.row)
		f.change(r, class, 1)
	}
	f.visit(r, class, logRates)
}

// train fits the training rows, and finds the strength that is best for rows held out.
func (f *fitted) train(b *Batch) {
	if b.Replay.N > 0 {
		b = &Batch{Rows: b.Replay, Labels: b.ReplayLabels}
	}
	for _, block := range f.blocks {
		if block.standard != nil {
			block.standard.fit(OwnFeatures, &b.Rows)
		}
	}
	for _, n := range b.Degree {
		f.degree[0] += double.Log(1+float64(n)) / float64(b.N)
	}
	for fold := range f.folds(b.N) {
		held := func(i int) bool { return mix(uint64(i))%heldFolds == uint64(fold) }
		f.fit(b, func(i int) bool { return !held(i) })
		for i, y := range b.Labels {
			if held(i) {
				f.load(&b.Rows, i)
				f.tally(y, nil)
			}
		}
		f.forget()
	}
	f.fit(b, func(int) bool { return true })
	f.choose()
	f.version++
}

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

// fit inserts training rows and sweeps over them until q hardly moves.
func (f *fitted) fit(b *Batch, use func(i int) bool) {
	for i, y := range b.Labels { // classes first: they are the offset of the first visit
		if use(i) {
			f.seen[y]++
			f.labels++
		}
	}
	f.setOffset(nil)
	clear(f.seen)
	f.labels = 0
	for i, y := range b.Labels {
		if use(i) {
			f.load(&b.Rows, i)
			f.insert(none, int(y), true, nil)
		}
	}
	for range f.cfg.TrainingPasses {
		f.sweep(f.count(), math.MaxInt, nil)
	}
}

// forget empties the reservoir and the weights.
func (f *fitted) forget() {
	f.reservoir = newReservoir(f.cfg.Rows, f.shape.Classes)
	for _, w := range f.w {
		clear(w)
	}
}

// sweep visits the next rows, at most so many, until so many multiply-adds are spent.
func (f *fitted) sweep(rows, work int, logRates []float64) {
	for ; rows > 0 && f.spent < work; rows-- {
		if class, i := f.next(); class >= 0 {
			f.visit(&f.rows[class][i], class, logRates)
		}
	}
}

func (f *fitted) choose() {
	for k, x := range f.score {
		if x > f.score[f.best] {
			f.best = k
		}
	}
}

// mostSweeps bounds the sweeps of a batch, where rows are few.
const mostSweeps = 4

func (f *fitted) learn(b *Batch, _ float64) posterior.Report {
	f.visited, f.spent = 0, 0
	for i, y := range b.TakenLabels {
		f.seen[y] = max(f.seen[y]-1, 0)
		f.labels = max(f.labels-1, 0)
		if node := nodeOf(b.TakenNodes, i); f.has(node) && f.at[node].class == int(y) {
			f.remove(int(y), f.at[node].row)
		}
	}
	for i, y := range b.Labels {
		f.load(&b.Rows, i)
		f.tally(y, b.LogRates)
	}
	f.choose()
	for i, y := range b.Labels {
		f.load(&b.Rows, i)
		f.insert(nodeOf(b.Nodes, i), int(y), false, b.LogRates)
	}
	work := f.cfg.Work * b.N
	for i, y := range b.ReplayLabels {
		if node := nodeOf(b.ReplayNodes, i); f.spent < work && node != none {
			f.load(&b.Replay, i)
			f.refresh(node, int(y), b.LogRates)
		}
	}
	f.setOffset(b.LogRates)
	f.sweep(mostSweeps*f.count(), work, b.LogRates)
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
	if f.shape.Classes != old.shape.Classes { // its columns are others
		return
	}
	var s writer
	old.appendState(&s)
	f.readState(&reader{b: s.b})
}

func (f *fitted) twin() classifier {
	t := *f
	t.makeScratch()
	return &t
}

func (f *fitted) appendChange(s *writer) {
	s.uint(f.version)
	s.floats(f.score)
	s.floats(f.offset[:f.shape.Classes])
	s.uint(uint64(f.visited))
}

func (f *fitted) appendState(s *writer) {
	f.appendServing(s)
	s.uint(f.version)
	s.floats(f.score)
	s.floats(f.degree)
	for k := range f.w {
		if k != f.best {
			f.appendWeights(s, k)
		}
	}
	for _, b := range f.blocks {
		if b.standard != nil {
			s.floats(b.standard.mean)
			s.floats(b.standard.inverse)
		}
	}
	f.appendRows(s)
}

func (f *fitted) readState(r *reader) {
	f.readServing(r)
	f.version = r.uint()
	r.floats(f.score)
	r.floats(f.degree)
	for k := range f.w {
		if k != f.best {
			f.readWeights(r, k)
		}
	}
	for _, b := range f.blocks {
		if b.standard != nil {
			r.floats(b.standard.mean)
			r.floats(b.standard.inverse)
		}
	}
	f.readRows(r, f.columns, len(f.w)*f.shape.Classes)
}

func (f *fitted) appendWeights(s *writer, k int) {
	for at := 0; at < len(f.w[k]); at += f.stride {
		s.floats(f.w[k][at : at+f.shape.Classes])
	}
}

func (f *fitted) readWeights(r *reader, k int) {
	for at := 0; at < len(f.w[k]); at += f.stride {
		r.floats(f.w[k][at : at+f.shape.Classes])
	}
}

// appendServing appends the weights that serve.
func (f *fitted) appendServing(s *writer) {
	s.uint(uint64(f.best))
	s.floats(f.offset[:f.shape.Classes])
	f.appendWeights(s, f.best)
}

func (f *fitted) readServing(r *reader) {
	best := r.uint()
	r.check(best < uint64(len(f.w)), "strength %d of %d", best, len(f.w))
	if r.err != nil {
		return
	}
	f.best = int(best)
	r.floats(f.offset[:f.shape.Classes])
	f.readWeights(r, f.best)
}
