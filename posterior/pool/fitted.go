package pool

import (
	"math"
	"slices"

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
// Where columns are few the optimum is found by Newton's method (newton.go), and else by dual coordinate ascent
// (Shalev-Shwartz & Zhang 2013). There row i has probabilities q_i, and W = 1/s Σ_i ω_i φ_i (y_i - q_i)ᵀ at every
// moment: it is the optimum where q_i = p_i for all i. A visit moves q_i towards p_i by the step
//
//	t = [KL(q‖p) + |p-q|²] / [|p-q|² (2 + ω|φ|²/s)], at most 1,
//
// which cannot make the dual objective fall, and needs no step size, no matrix and no line search. A row
// that comes, changes or goes is a change of W by its own term, so nothing is ever fitted anew: each label pays
// for a visit of its own row, of those that it replays, and of as many others of a sweep as Work allows.
//
// It is fitted with several strengths s beside each other: in training with all, in the stream with the one that was best for
// rows held out and its neighbours. The one that serves is that with the best log likelihood of labels before they are learned.
type fitted struct {
	cfg     Fitted
	shape   Shape
	blocks  []placed
	columns int
	stride  int

	*fittedWeights
	newton *newton   // nil where the dual is ascended
	mass   []float64 // nodes of each class, by their labels and these' rates
	degree []float64 // the mean of log(1 + deg) of training rows: one number
	score  []float64 // log likelihood of each strength
	reservoir
	version uint64

	row                 phi // scratch: of a row
	buffer              []float64
	p, log, said, delta []float64 // scratch, stride
	zeros               []float64 // stride
	unused              []float64 // columns × stride: always 0
	most, total         []float64
	visited             digest // of what the last learn changed
	spent               int    // multiply-adds of the last learn
	moved               float64
}

// fittedWeights are what a fitted head predicts with.
type fittedWeights struct {
	w        [][]float64 // by strength from the first that is fitted, columns × stride
	first, n int         // strengths that are fitted
	offset   []float64   // log π, stride; 0 beyond the classes
	best     int         // the strength that serves
}

func newFitted(cfg Fitted, shape Shape) *fitted {
	f := &fitted{cfg: cfg, shape: shape, stride: strideOf(shape.Classes), fittedWeights: &fittedWeights{}}
	f.blocks = Wide{Blocks: cfg.Blocks, Scale: cfg.Scale}.place(shape)
	f.columns = cfg.columns(shape)
	f.score, f.degree = make([]float64, len(cfg.Strengths)), make([]float64, 1)
	f.narrow(0)
	f.reservoir = newReservoir(cfg.Rows, shape.Classes)
	f.makeScratch()
	f.offset, f.mass = make([]float64, f.stride), make([]float64, shape.Classes)
	f.setOffset()
	return f
}

// streamed is the number of strengths that are fitted in the stream.
const streamed = 4

// narrow sets the strengths that are fitted to those about one.
func (f *fitted) narrow(about int) {
	f.n = min(streamed, len(f.cfg.Strengths))
	f.first = min(max(about-1, 0), len(f.cfg.Strengths)-f.n)
	f.makeWeights()
}

func (f *fitted) makeWeights() {
	if f.cfg.isNewton(float64(f.shape.Classes), float64(f.columns)) {
		f.newton = newNewton(f.columns, f.shape.Classes, f.n)
	}
	f.w = make([][]float64, f.n)
	for k := range f.w {
		f.w[k] = make([]float64, f.columns*f.stride)
	}
}

// inverse returns 1/s of weights k.
func (f *fitted) inverse(k int) float64 { return 1 / f.cfg.Strengths[f.first+k] }

func (f *fitted) makeScratch() {
	f.row, f.buffer = phi{}, nil
	for _, x := range []*[]float64{&f.p, &f.log, &f.said, &f.delta, &f.zeros} {
		*x = make([]float64, f.stride)
	}
	f.unused = nil
	f.most, f.total = make([]float64, 1), make([]float64, 1)
}

// setOffset sets π from the nodes that labels stand for.
func (f *fitted) setOffset() {
	all := total(f.mass) + float64(f.shape.Classes)
	for c, n := range f.mass {
		f.offset[c] = double.Log((n + 1) / all)
	}
}

// standsFor returns how many nodes a label of a class stands for, where labels have those rates.
func standsFor(class int, logRates []float64) float64 {
	if logRates == nil {
		return 1
	}
	return double.Exp(slices.Max(logRates) - logRates[class])
}

// load sets row to φ of row i: dense features standardised, not beyond mostDeviations, and sparse ones
// of unit length.
func (f *fitted) load(rows *Rows, i int) {
	f.row.column, f.row.value = f.row.column[:0], f.row.value[:0]
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
				f.buffer[0] = float64(f.buffer[0]/degreeScale) - f.degree[0]
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
	if x != 0 {
		f.row.column, f.row.value = append(f.row.column, int32(column)), append(f.row.value, x)
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
func (f *fitted) logits(x *phi, k int) {
	m := x.matrix()
	m.Product(f.p, f.w[k], f.stride)
	for c, o := range f.offset {
		f.p[c] += o
	}
}

// add adds φ δᵀ to the weights of a strength. The kernel would add |φ| times something to unused, too.
func (f *fitted) add(x *phi, k int) {
	if f.unused == nil {
		f.unused = make([]float64, f.columns*f.stride)
	}
	m := x.matrix()
	m.AddTransposed(f.w[k], f.unused, f.delta, f.zeros, f.stride)
	f.spent += 2 * len(x.column) * f.stride
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
		f.logits(&f.row, f.best-f.first)
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
		f.score[f.first+k] += at - f.softmax()
	}
}

// visit moves q of a row, of a class and with the weight that its class has, towards p, for all strengths.
func (f *fitted) visit(r *kept, class int, logRates []float64) {
	weight := f.weight(class)
	for k := range f.w {
		inverse := f.inverse(k)
		q := r.said[k*f.shape.Classes : (k+1)*f.shape.Classes]
		f.logits(&r.phi, k)
		f.spent += len(r.column) * f.stride
		for c, o := range logRates {
			f.p[c] += o
		}
		f.softmax()
		var apart, divergence float64 // |p-q|² and KL(q‖p)
		for c, x := range q {
			f.log[c], f.said[c] = max(f.p[c], leastChance), max(x, leastChance)
		}
		double.Logarithms(f.log[:f.shape.Classes])
		double.Logarithms(f.said[:f.shape.Classes])
		for c, x := range q {
			d := f.p[c] - x
			apart += float64(d * d)
			divergence += float64(x * (f.said[c] - f.log[c]))
		}
		t := 0.0
		if apart > 0 {
			t = min(1, (divergence+apart)/float64(apart*(2+float64(weight*float64(r.square*inverse)))))
		}
		t = max(t, 0)
		f.moved = max(f.moved, float64(t*t)*apart)
		for c, x := range q {
			next := x + float64(t*(f.p[c]-x))
			y := 0.0
			if c == class {
				y = 1
			}
			f.delta[c] = inverse * (float64(weight*(y-next)) - float64(r.weight*(y-x)))
			q[c] = next
		}
		f.add(&r.phi, k)
		f.visited.floats(q)
	}
	r.weight = weight
}

// change adds a row's own term to the weights, times by: -1 where it goes.
func (f *fitted) change(r *kept, class int, by float64) {
	for k := range f.w {
		inverse := f.inverse(k)
		for c, x := range r.said[k*f.shape.Classes : (k+1)*f.shape.Classes] {
			y := 0.0
			if c == class {
				y = 1
			}
			f.delta[c] = by * float64(inverse*float64(r.weight*(y-x)))
		}
		f.add(&r.phi, k)
	}
}

// leastChance bounds probabilities in logarithms.
const leastChance = 1e-300

// remove takes a row from the reservoir.
func (f *fitted) remove(class, i int) {
	if f.newton == nil {
		f.change(&f.rows[class][i], class, -1)
	}
	f.drop(class, i)
}

// insert gives the loaded row, of a node, to the reservoir and visits it, unless it is one of those that are left out.
func (f *fitted) insert(key int64, class int, logRates []float64) {
	f.seen[class]++
	f.labels++
	if at, has := f.at[key]; has && key >= 0 { // what had the number before
		f.rename(at, none)
	}
	switch from, i := f.room(class); {
	case i == leftOut:
		return
	case i >= 0:
		f.remove(from, i)
	}
	if f.newton != nil {
		f.put(key, class, &f.row, 0)
		return
	}
	f.start(f.put(key, class, &f.row, f.n*f.shape.Classes), class, logRates)
}

// start visits a row that is new: one that is learned already has the term 0.
func (f *fitted) start(r *kept, class int, logRates []float64) {
	for k := range f.w {
		r.said[k*f.shape.Classes+class] = 1
	}
	f.visit(r, class, logRates)
}

// refresh replaces the row of a node by the loaded one, and visits it. A node that the reservoir does not have may be one of
// those that trained.
func (f *fitted) refresh(node int32, class int, logRates []float64) {
	at, has := f.at[int64(node)]
	if !has {
		key := f.trainedKey(class)
		if at, has = f.at[key]; has && at.class == class {
			f.rename(at, int64(node))
			f.find(key, class)
		}
	}
	if !has || at.class != class {
		return
	}
	r := &f.rows[class][at.row]
	if f.newton != nil {
		r.set(&f.row)
		return
	}
	if !r.equals(&f.row) {
		f.change(r, class, -1)
		r.set(&f.row)
		f.change(r, class, 1)
	}
	f.visit(r, class, logRates)
}

// trainedKey returns the key of a training row with the class and the features of the loaded row.
func (f *fitted) trainedKey(class int) int64 {
	var d digest
	d.uint(uint64(class))
	for e, j := range f.row.column {
		if b := f.blocks[0]; b.Block == OwnFeatures && int(j) < b.end {
			d.uint(uint64(j))
			d.uint(math.Float64bits(f.row.value[e]))
		}
	}
	return -2 - int64(d>>2)
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
	f.first, f.n = 0, len(f.cfg.Strengths)
	f.makeWeights()
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
	f.choose()
	f.narrow(f.best)
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

// fit inserts training rows and sweeps over them until q hardly moves.
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
			f.load(&b.Rows, i)
			f.insert(f.trainedKey(int(y)), int(y), nil)
		}
	}
	if f.newton != nil {
		f.newton.train(f, f.cfg.TrainingPasses)
		return
	}
	for range f.cfg.TrainingPasses {
		f.moved = 0
		if f.sweep(f.count(), math.MaxInt, nil); f.moved < settled {
			break
		}
	}
}

// settled is |q - q'|² of a sweep at which it is at its optimum.
const settled = 1e-10

// forget empties the reservoir and the weights.
func (f *fitted) forget() {
	f.reservoir = newReservoir(f.cfg.Rows, f.shape.Classes)
	f.makeWeights()
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
	f.best = f.first
	for k := f.first; k < f.first+f.n; k++ {
		if f.score[k] > f.score[f.best] {
			f.best = k
		}
	}
}

// mostSweeps bounds the sweeps of a batch, where rows are few.
const mostSweeps = 32

func (f *fitted) learn(b *Batch, _ float64) posterior.Report {
	f.visited, f.spent = 0, 0
	for i, y := range b.TakenLabels {
		if f.seen[y] > 0 {
			f.seen[y]--
			f.labels--
			f.mass[y] = max(f.mass[y]-standsFor(int(y), b.LogRates), 0)
		}
		if at, has := f.at[int64(nodeOf(b.TakenNodes, i))]; has && at.class == int(y) {
			f.remove(int(y), at.row)
		}
	}
	for i, y := range b.Labels {
		f.load(&b.Rows, i)
		f.tally(y, b.LogRates)
	}
	f.choose()
	for i, y := range b.Labels {
		f.load(&b.Rows, i)
		f.mass[y] += standsFor(int(y), b.LogRates)
		f.insert(int64(nodeOf(b.Nodes, i)), int(y), b.LogRates)
	}
	work := f.cfg.Work * b.N
	for i, y := range b.ReplayLabels {
		if node := nodeOf(b.ReplayNodes, i); f.spent < work && node != none {
			f.load(&b.Replay, i)
			f.refresh(node, int(y), b.LogRates)
		}
	}
	f.setOffset()
	if f.newton != nil {
		f.newton.work(f, work, b.LogRates)
		f.visited.floats(f.newton.gradient)
	} else {
		f.sweep(mostSweeps*f.count(), work, b.LogRates)
	}
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
	s.floats(f.mass)
	for k := range f.w {
		if f.first+k != f.best {
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
	if f.newton != nil {
		f.newton.appendState(s)
	}
}

func (f *fitted) readState(r *reader) {
	f.readServing(r)
	f.version = r.uint()
	r.floats(f.score)
	r.floats(f.degree)
	r.counts(f.mass)
	for k := range f.w {
		if f.first+k != f.best {
			f.readWeights(r, k)
		}
	}
	for _, b := range f.blocks {
		if b.standard != nil {
			r.floats(b.standard.mean)
			r.floats(b.standard.inverse)
		}
	}
	if f.newton == nil {
		f.readRows(r, f.columns, len(f.w)*f.shape.Classes)
		return
	}
	f.readRows(r, f.columns, 0)
	f.newton.readState(r, f)
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
	s.uint(uint64(f.first))
	s.uint(uint64(f.best - f.first))
	s.floats(f.offset[:f.shape.Classes])
	f.appendWeights(s, f.best-f.first)
}

func (f *fitted) readServing(r *reader) {
	first := int(r.below(len(f.cfg.Strengths)-len(f.w)+1, "a strength"))
	best := int(r.below(len(f.w), "a strength"))
	if r.err != nil {
		return
	}
	f.first, f.best = first, first+best
	r.floats(f.offset[:f.shape.Classes])
	f.readWeights(r, best)
}
