package pool

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/optimize"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
	"github.com/gvbll/gvbll/posterior"
)

// randomSparse draws n rows of d features with values 1 to 3 at the given density. The
// second row has none.
func randomSparse(rng *rand.Rand, n, d int, density float64) Features {
	f := Features{Start: []int{0}}
	for i := range n {
		for j := range d {
			if i != 1 && rng.Float64() < density {
				f.Index, f.Value = append(f.Index, int32(j)), append(f.Value, float32(1+rng.IntN(3)))
			}
		}
		f.Start = append(f.Start, len(f.Index))
	}
	return f
}

// randomDense draws n rows of d normal features.
func randomDense(rng *rand.Rand, n, d int) (f Features) {
	for range n * d {
		f.Dense = append(f.Dense, float32(2+rng.NormFloat64()))
	}
	return f
}

// randomBatch draws a batch with everything that any head needs.
func randomBatch(rng *rand.Rand, n int, s Shape, dense bool) Batch {
	make := func(n int) Rows {
		r := Rows{N: n}
		if dense {
			r.X, r.S = randomDense(rng, n, s.Features), randomDense(rng, n, s.Features)
		} else {
			r.X, r.S = randomSparse(rng, n, s.Features, .3), randomSparse(rng, n, s.Features, .5)
		}
		for range n {
			r.Degree = append(r.Degree, int32(rng.IntN(4)))
			r.Embedded.Tau = append(r.Embedded.Tau, .5+rng.Float64())
			for range s.Classes {
				r.Labelled, r.Second = append(r.Labelled, float32(rng.IntN(3))), append(r.Second, rng.Float32())
			}
			for range s.Means * s.Classes {
				r.Kinds = append(r.Kinds, float32(rng.IntN(3))/2)
			}
			for range s.Embedding {
				r.Embedded.Z = append(r.Embedded.Z, float32(rng.NormFloat64()))
			}
		}
		return r
	}
	b := Batch{Rows: make(n), Replay: make(n / 2)}
	for range n {
		b.Labels = append(b.Labels, int32(rng.IntN(s.Classes)))
	}
	for range n / 2 {
		b.ReplayLabels = append(b.ReplayLabels, int32(rng.IntN(s.Classes)))
	}
	b.Known = n + n/2
	if n > 3 {
		b.Pairs = [][2]int32{{0, 2}, {3, 1}}
	}
	return b
}

// randomPrior draws a posterior over the weights on the embedding.
func randomPrior(rng *rand.Rand, s Shape) *posterior.Gaussian {
	q := &posterior.Gaussian{Dim: s.Embedding, Classes: s.Classes}
	for range s.Embedding * s.Classes {
		q.Mean, q.Precision = append(q.Mean, rng.NormFloat64()), append(q.Precision, 1+rng.Float64())
	}
	return q
}

// matrix returns n rows of d features in dense form.
func (f Features) matrix(n, d int) [][]float64 {
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, d)
		if f.Start == nil {
			for j := range d {
				m[i][j] = float64(f.Dense[i*d+j])
			}
			continue
		}
		for k := f.Start[i]; k < f.Start[i+1]; k++ {
			m[i][f.Index[k]] = float64(f.Value[k])
		}
	}
	return m
}

// plainUnit returns x scaled to length 1, unless it is 0.
func plainUnit(x []float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	y := slices.Clone(x)
	for j := range y {
		if sum > 0 {
			y[j] /= math.Sqrt(sum)
		}
	}
	return y
}

// plainSoftmax is the softmax of a, by its definition.
func plainSoftmax(a []float64) []float64 {
	p, sum := make([]float64, len(a)), 0.0
	for c, x := range a {
		p[c] = math.Exp(x)
		sum += p[c]
	}
	for c := range p {
		p[c] /= sum
	}
	return p
}

// plainLogits is φᵀM.
func plainLogits(m [][]float64, phi []float64) []float64 {
	a := make([]float64, len(m[0]))
	for j, x := range phi {
		for c := range a {
			a[c] += x * m[j][c]
		}
	}
	return a
}

// plainWide is the update of a wide head by its formulas, over all columns.
type plainWide struct {
	m, t  [][]float64
	keeps bool // the curvature at the first pass
}

func (w *plainWide) forget(lambda, variance float64) {
	for _, t := range w.t {
		for c := range t {
			t[c] = lambda*t[c] + (1-lambda)/variance
		}
	}
}

func (w *plainWide) update(phi [][]float64, labels []int32, passes int) {
	m0, best, step := plainClone(w.m), plainClone(w.m), plainClone(w.m)
	probs := func() (p [][]float64) {
		for i := range phi {
			p = append(p, plainSoftmax(plainLogits(w.m, phi[i])))
		}
		return p
	}
	objective := func() (f float64) {
		for i, p := range probs() {
			f -= math.Log(p[labels[i]])
		}
		for j := range w.m {
			for c, x := range w.m[j] {
				f += .5 * w.t[j][c] * (x - m0[j][c]) * (x - m0[j][c])
			}
		}
		return f
	}
	var first [][]float64
	f, least := objective(), math.Inf(1)
	for range passes {
		p := probs()
		if first == nil || !w.keeps {
			first = p
		}
		better := f <= least
		if better {
			least, best = f, plainClone(w.m)
		}
		for j := range w.m {
			for c := range w.m[j] {
				if !better {
					step[j][c] /= 2
					continue
				}
				g, h := -w.t[j][c]*(w.m[j][c]-m0[j][c]), w.t[j][c]
				for i := range phi {
					a, y := 0.0, 0.0
					for _, x := range phi[i] {
						a += math.Abs(x)
					}
					if int(labels[i]) == c {
						y = 1
					}
					g += phi[i][j] * (y - p[i][c])
					h += math.Abs(phi[i][j]) * a * max(first[i][c]*(1-first[i][c]), .05)
				}
				step[j][c] = g / h
			}
		}
		for j := range w.m {
			for c := range w.m[j] {
				w.m[j][c] = best[j][c] + step[j][c]
			}
		}
		f = objective()
	}
	if f > least {
		w.m = best
	}
	for i, p := range probs() {
		for j := range w.t {
			for c := range w.t[j] {
				w.t[j][c] += phi[i][j] * phi[i][j] * p[c] * (1 - p[c])
			}
		}
	}
}

func plainClone(m [][]float64) (list [][]float64) {
	for _, row := range m {
		list = append(list, slices.Clone(row))
	}
	return list
}

// plainRows are the rows of blocks by their definitions, with features of unit length.
func plainRows(blocks []Block, r *Rows, s Shape) (phi [][]float64) {
	x, sums := r.X.matrix(r.N, s.Features), r.S.matrix(r.N, s.Features)
	for i := range r.N {
		of := func(from []float32) (n []float64, total float64) {
			for _, x := range from[i*s.Classes : (i+1)*s.Classes] {
				n, total = append(n, float64(x)), total+float64(x)
			}
			return n, total
		}
		by := func(n []float64, divisor float64) []float64 {
			for k := range n {
				n[k] /= divisor
			}
			return n
		}
		var row []float64
		for _, b := range blocks {
			labels, total := of(r.Labelled)
			if b == secondCounts || b == secondShares {
				labels, total = of(r.Second)
			}
			switch b {
			case OwnFeatures:
				row = append(row, plainUnit(x[i])...)
			case meanFeatures:
				row = append(row, plainUnit(sums[i])...)
			case labelCounts, secondCounts:
				row = append(row, by(labels, math.Sqrt(max(1, total)))...)
			case labelShares, secondShares:
				if total == 0 {
					total = 1
				}
				row = append(row, by(labels, total)...)
			case LogDegree:
				row = append(row, math.Log1p(float64(r.Degree[i]))/4)
			case constant:
				row = append(row, 1)
			}
		}
		phi = append(phi, row)
	}
	return phi
}

// plainInteractions returns the interactions of a row by their formula, with the moments and draws of x.
func plainInteractions(x *interactions, cfg Wide, row []float64, s Shape) (list []float64) {
	if x == nil {
		return nil
	}
	var read []float64
	for _, b := range cfg.place(s) {
		if b.Block != constant && (!b.isFeatures() || cfg.Scale == Standard) {
			read = append(read, row[b.at:b.end]...)
		}
	}
	for k, t := range x.phase {
		for i, j := range x.index[k*x.reads : (k+1)*x.reads] {
			t += x.weight[k*x.reads+i] * math.Max(-4, math.Min(4, (read[j]-x.mean[j])*x.inverse[j]))
		}
		wave := 2*math.Acos(math.Cos(2*math.Pi*t))/math.Pi - 1 // 1 half way between whole periods, -1 at them
		list = append(list, -wave*math.Sqrt(3/float64(len(x.phase))))
	}
	return list
}

// TestInteractionMoments: interactions are scaled by mean and deviation of what they read over the
// training rows, whose constants stay as they are.
func TestInteractionMoments(t *testing.T) {
	x := newInteractions(3, 2)
	rows := [][]float64{{1, 7}, {2, 7}, {6, 7}}
	x.fit(len(rows), func(i int) []float64 { return rows[i] })
	kerneltest.WantClose(t, "mean", x.mean, []float64{3, 7}, 1e-12)
	kerneltest.WantClose(t, "1/deviation", x.inverse, []float64{1 / math.Sqrt(14.0/3), 1}, 1e-12)
}

// TestWideIsItsFormulas compares a wide head, which updates only the columns of a batch,
// with its formulas over all columns, through training and a stream with forgetting.
func TestWideIsItsFormulas(t *testing.T) {
	s := Shape{Classes: 5, Features: 30}
	for _, cfg := range []Wide{
		{Blocks: []Block{OwnFeatures}, Scale: Unit, Variance: 30, Lambda: 1, Passes: 4, TrainingPasses: 9},
		{Blocks: []Block{OwnFeatures, meanFeatures, constant}, Scale: Unit, Variance: 3, Lambda: .8, Passes: 3, TrainingPasses: 9, Replay: 2},
		{Blocks: allBlocks, Scale: Unit, Variance: 1, Lambda: .9, Passes: 3, TrainingPasses: 9},
		{Blocks: []Block{secondShares, LogDegree, labelCounts}, Scale: Standard, Variance: 2, Lambda: .9, Passes: 3, TrainingPasses: 9},
		{Blocks: []Block{secondShares, LogDegree, constant}, Scale: Standard, Variance: 2, Lambda: .9, Passes: 3, TrainingPasses: 9, Interactions: 7, Replay: 1},
		{Blocks: []Block{meanFeatures, labelShares, LogDegree}, Scale: Unit, Variance: 2, Lambda: 1, Passes: 2, TrainingPasses: 9, Interactions: 5, Replay: 1},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		head := newWide(cfg, s)
		plain := &plainWide{}
		for range head.columns {
			plain.m = append(plain.m, make([]float64, s.Classes))
			plain.t = append(plain.t, slices.Repeat([]float64{1 / cfg.Variance}, s.Classes))
		}
		phi := func(r *Rows) [][]float64 {
			rows := plainRows(cfg.Blocks, r, s)
			for i := range rows {
				rows[i] = append(rows[i], plainInteractions(head.mixed, cfg, rows[i], s)...)
			}
			return rows
		}
		for step := range 6 {
			b := randomBatch(rng, 1+step*3, s, step == 4)
			clear(b.Labelled[:s.Classes]) // a node without labels around it
			clear(b.Second[:s.Classes])
			got, want := make([]float64, b.N*s.Classes), []float64(nil)
			predictNormalised(head, &b.Rows, got, s.Classes)
			for _, row := range phi(&b.Rows) {
				for _, p := range plainSoftmax(plainLogits(plain.m, row)) {
					want = append(want, math.Log(p))
				}
			}
			kerneltest.WantClose(t, "log p", got, want, 1e-9)
			if step == 0 {
				head.train(&b)
				plain.update(phi(&b.Rows), b.Labels, cfg.TrainingPasses)
				continue
			}
			head.learn(&b, .5)
			plain.keeps = cfg.Scale == Standard
			plain.forget(math.Sqrt(cfg.Lambda), cfg.Variance)
			plain.update(phi(&b.Rows), b.Labels, cfg.Passes)
			if n := b.Replay.N; cfg.Replay > 0 && n > 0 {
				plain.forget(math.Exp(-float64(n)/float64(max(n, b.Known))), cfg.Variance)
				plain.update(phi(&b.Replay), b.ReplayLabels, cfg.Passes)
			}
		}
	}
}

// TestStandardFeatures: dense features are standardised by the moments of the training rows
// and scaled to length 1, for a node and for the mean of its neighbours, with a constant at
// the end.
func TestStandardFeatures(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := Shape{Classes: 3, Features: 4}
	b := randomBatch(rng, 50, s, true)
	for i := range b.N {
		b.X.Dense[i*s.Features+2] = 7 // constant, so that its deviation is 0
	}
	w := newWide(Wide{Blocks: []Block{OwnFeatures, meanFeatures, constant}, Scale: Standard, Variance: 30, Lambda: .99, Passes: 3, TrainingPasses: 5}, s)
	w.train(&b)
	x, sums := b.X.matrix(b.N, s.Features), b.S.matrix(b.N, s.Features)
	standard := func(m [][]float64) {
		for j := range m[0] {
			mean, square, n := 0.0, 0.0, 0.0
			for i := range m {
				if m[i] != nil {
					mean, square, n = mean+m[i][j], square+m[i][j]*m[i][j], n+1
				}
			}
			mean /= n
			sd := math.Sqrt(max(0, square/n-mean*mean))
			if sd < 1e-6 {
				sd = 1
			}
			for i := range m {
				if m[i] != nil {
					m[i][j] = (m[i][j] - mean) / sd
				}
			}
		}
	}
	for i := range sums {
		if b.Degree[i] == 0 {
			sums[i] = nil
			continue
		}
		for j := range sums[i] {
			sums[i][j] /= float64(b.Degree[i])
		}
	}
	standard(x)
	standard(sums)
	phi := w.designMatrix(&b.Rows, true).(*denseMatrix)
	for i := range b.N {
		want := plainUnit(x[i])
		if sums[i] == nil {
			sums[i] = make([]float64, s.Features)
		}
		want = append(append(want, plainUnit(sums[i])...), 1)
		kerneltest.WantClose(t, "φ", phi.row(i), want, 1e-6)
	}
}

// TestDesignsAgree: the sparse and the dense form of a design matrix give the same fit.
func TestDesignsAgree(t *testing.T) {
	const n, d, classes = 12, 17, 9
	rng := rand.New(rand.NewPCG(1, 2))
	f := randomSparse(rng, n, d, .4)
	f.Value[0] = -2
	sparse, dense := newSparseMatrix(d), newDenseMatrix(d)
	sparse.reset()
	dense.reset(n)
	for i, row := range f.matrix(n, d) {
		sparse.appendUnit(&f, i, d, 0)
		sparse.rows.EndRow()
		copy(dense.row(i), plainUnit(row))
	}
	sparse.finish()
	dense.setAbsolute()
	labels := make([]int32, n)
	for i := range labels {
		labels[i] = int32(rng.IntN(classes))
	}
	var means, precisions [][]float64
	for _, phi := range []designMatrix{sparse, dense} {
		s := softmaxFit{classes: classes, stride: strideOf(classes)}
		s.resize(phi.size())
		clear(s.m)
		for i := range s.t {
			s.t[i] = .1
		}
		s.fit(phi, labels, 5)
		m, p := make([]float64, d*classes), make([]float64, d*classes)
		for k, j := range phi.columns() {
			copy(m[int(j)*classes:(int(j)+1)*classes], s.m[k*s.stride:])
			copy(p[int(j)*classes:(int(j)+1)*classes], s.t[k*s.stride:])
		}
		means, precisions = append(means, m), append(precisions, p)
	}
	kerneltest.WantClose(t, "M", means[0], means[1], 1e-12)
	kerneltest.WantClose(t, "T", precisions[0], precisions[1], 1e-12)
}

// predictNormalised writes normalised log probabilities of the rows, as the pool computes
// them from what a head predicts.
func predictNormalised(h classifier, rows *Rows, logp []float64, classes int) {
	h.predict(rows, logp)
	new(softmaxScratch).logSoftmax(logp, classes)
}

// surrogateObjective is the objective F of the fit at m.
func surrogateObjective(s *softmaxFit, phi designMatrix, labels []int32) float64 {
	f := s.logLoss(phi, labels)
	for i, m := range s.m {
		d := m - s.m0[i]
		f += 0.5 * s.t[i] * d * d
	}
	return f
}

// TestSurrogateFalls: no pass increases the objective, even where the bound does not hold
// (two classes, one feature a row), and many passes reach the minimum that BFGS finds.
func TestSurrogateFalls(t *testing.T) {
	for _, c := range []struct {
		name       string
		classes, d int
		density    float64
	}{{"many features", 4, 30, .3}, {"one feature", 2, 1, 1}, {"two classes", 2, 3, .5}} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			const n = 25
			f := randomSparse(rng, n, c.d, c.density)
			phi := newSparseMatrix(c.d)
			phi.reset()
			for i := range n {
				phi.appendUnit(&f, i, c.d, 0)
				phi.rows.EndRow()
			}
			phi.finish()
			labels := make([]int32, n)
			for i := range labels {
				labels[i] = int32(i * i % c.classes)
			}
			fit := func(passes int) (*softmaxFit, float64) {
				s := &softmaxFit{classes: c.classes, stride: strideOf(c.classes)}
				s.resize(phi.size())
				for i := range s.t {
					s.m[i], s.t[i] = 0, .01
					if i%s.stride < c.classes {
						s.m[i] = float64(i%3) - 1
					}
				}
				start := slices.Clone(s.m)
				s.fit(phi, labels, passes)
				end := slices.Clone(s.m)
				_, columns := phi.size()
				copy(s.m0, start)
				for i := range columns * s.stride {
					s.t[i] = .01
				}
				copy(s.m, end)
				return s, surrogateObjective(s, phi, labels)
			}
			last := math.Inf(1)
			for passes := range 12 {
				_, f := fit(passes)
				if f > last {
					t.Fatalf("F = %v after %d passes, want at most the %v of one pass less", f, passes, last)
				}
				last = f
			}
			s, got := fit(3000)
			problem := optimize.Problem{Func: func(x []float64) float64 {
				clear(s.m)
				for i, v := range x {
					s.m[i/c.classes*s.stride+i%c.classes] = v
				}
				return surrogateObjective(s, phi, labels)
			}, Grad: func(grad, x []float64) {
				clear(s.m)
				for i, v := range x {
					s.m[i/c.classes*s.stride+i%c.classes] = v
				}
				surrogateObjective(s, phi, labels)
				copy(s.best, s.m)
				s.newtonStep(phi, labels, true)
				for i := range grad {
					at := i/c.classes*s.stride + i%c.classes
					grad[i] = -s.step[at] * (s.h[at] + s.t[at])
				}
			}}
			_, columns := phi.size()
			r, err := optimize.Minimize(problem, make([]float64, columns*c.classes), &optimize.Settings{GradientThreshold: 1e-9}, &optimize.BFGS{})
			if r == nil {
				t.Fatal(err)
			}
			if math.Abs(got-r.F) > 1e-6 {
				t.Errorf("F = %v after many passes, want the minimum %v of BFGS", got, r.F)
			}
		})
	}
}

// TestBayesIsItsFormula compares naive Bayes with its formula over a stream of batches.
func TestBayesIsItsFormula(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := Shape{Classes: 4, Features: 12}
	head := newBayes(Bayes{Smoothing: .2}, s)
	count := make([][]float64, s.Classes)
	for c := range count {
		count[c] = make([]float64, s.Features)
	}
	for range 4 {
		b := randomBatch(rng, 8, s, false)
		x := b.X.matrix(b.N, s.Features)
		got, want := make([]float64, b.N*s.Classes), []float64(nil)
		predictNormalised(head, &b.Rows, got, s.Classes)
		for i := range x {
			a := make([]float64, s.Classes)
			for c := range a {
				total := 0.0
				for _, n := range count[c] {
					total += n + .2
				}
				for j, v := range x[i] {
					a[c] += v * math.Log((count[c][j]+.2)/total)
				}
			}
			most := slices.Max(a)
			for c := range a {
				a[c] -= most
			}
			for _, p := range plainSoftmax(a) {
				want = append(want, math.Log(p))
			}
		}
		kerneltest.WantClose(t, "log p", got, want, 1e-9)
		head.learn(&b, 1)
		for i, y := range b.Labels {
			for j, v := range x[i] {
				count[y][j] += v
			}
		}
	}
}

// TestLabelChannelsAreTheirFormulas compares the heads on neighbours' labels, and their
// compatibility matrices, with their formulas over a stream of batches.
func TestLabelChannelsAreTheirFormulas(t *testing.T) {
	s := Shape{Classes: 3, Features: 2}
	for _, evidence := range []evidence{byCounts, byScaled} {
		rng := rand.New(rand.NewPCG(1, 2))
		head := newLabel(labelConfig{evidence}, s.Classes)
		h := [][]float64{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}
		for range 4 {
			b := randomBatch(rng, 8, s, false)
			got, want := make([]float64, b.N*s.Classes), []float64(nil)
			predictNormalised(head, &b.Rows, got, s.Classes)
			e := make([][]float64, b.N)
			for i := range e {
				total := 0.0
				for k := range s.Classes {
					e[i] = append(e[i], float64(b.Labelled[i*s.Classes+k]))
					total += e[i][k]
				}
				a := make([]float64, s.Classes)
				for c := range a {
					for k := range e[i] {
						if evidence != byCounts && c == 0 {
							e[i][k] /= math.Sqrt(max(1, total))
						}
						a[c] += e[i][k] * math.Log(h[c][k]/(h[c][0]+h[c][1]+h[c][2]))
					}
				}
				for _, p := range plainSoftmax(a) {
					want = append(want, math.Log(p))
				}
			}
			kerneltest.WantClose(t, "log p", got, want, 1e-9)
			head.learn(&b, 1)
			for i, y := range b.Labels {
				for k := range s.Classes {
					h[y][k] += e[i][k]
					h[k][y] += e[i][k]
				}
			}
			for _, pair := range b.Pairs {
				i, j := b.Labels[pair[0]], b.Labels[pair[1]]
				h[i][j]++
				h[j][i]++
			}
		}
		for c, row := range h {
			kerneltest.WantClose(t, "H", head.h[c*s.Classes:(c+1)*s.Classes], row, 1e-9)
		}
	}
}

// TestVoteIsItsFormula: a vote adds the class shares to the counts of the neighbours'
// labels.
func TestVoteIsItsFormula(t *testing.T) {
	head := newVote(2)
	rows := Rows{N: 2, Labelled: []float32{3, 1, 0, 0}}
	head.learn(&Batch{Labels: []int32{0, 0, 0, 1}}, 1) // class shares become 4/6 and 2/6
	got := make([]float64, 4)
	head.predict(&rows, got)
	kerneltest.WantClose(t, "log p", got, []float64{
		math.Log((3 + 4./6) / 5), math.Log((1 + 2./6) / 5), math.Log(4. / 6), math.Log(2. / 6),
	}, 1e-12)
}

// TestWeightsAreLaplace: the weights are the minimum that BFGS finds, their precision Q is
// the curvature there, and forgetting follows the formulas of weights.
func TestWeightsAreLaplace(t *testing.T) {
	t.Run("biases", func(t *testing.T) { testWeightsAreLaplace(t, true) })
	t.Run("no biases", func(t *testing.T) { testWeightsAreLaplace(t, false) })
}

func testWeightsAreLaplace(t *testing.T, biased bool) {
	const heads, classes, n = 3, 4, 40
	cfg := weightsConfig{Total: 1.5, WeightSD: .2, BiasSD: .5, Floor: -8, Lambda: .97, Steps: 50}
	said := newOpinions(heads, classes, cfg.Floor)
	w := newWeights(cfg, []float64{.5, .5, .5}, said, biased)
	size := heads
	if biased {
		size += classes
	}
	at := func(q []float64, i, j int) float64 { return q[min(i, j)*size+max(i, j)] }
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		logProbs, labels := make([]float32, n*heads*classes), make([]int32, n)
		for i := range labels {
			labels[i] = int32(rng.IntN(classes))
			for k := range heads {
				for c := range classes {
					logProbs[(i*heads+k)*classes+c] = float32(-12 * rng.Float64())
				}
				logProbs[(i*heads+k)*classes+int(labels[i])] *= .3
			}
		}
		keep := math.Pow(.97, .5)
		q0, theta0 := make([]float64, size*size), make([]float64, size)
		for i := range size {
			for j := i; j < size; j++ {
				q0[i*size+j] = keep * w.precision[i*size+j]
			}
			q0[i*size+i] += (1 - keep) * w.diagonal[i]
		}
		old, oldQ := slices.Clone(w.theta), slices.Clone(w.precision)
		said.load(n, func(i, k int) []float32 { return logProbs[(i*heads+k)*classes:][:classes] })
		said.transpose(n)
		w.learn(labels, .5)
		copy(theta0, w.descent.from)
		for i := range size { // (λQ + (1-λ)Q0)θ0 = λQθ + (1-λ)Q0 θ_prior
			left, right := 0.0, (1-keep)*w.diagonal[i]*w.prior[i]
			for j := range size {
				left += at(q0, i, j) * theta0[j]
				right += keep * at(oldQ, i, j) * old[j]
			}
			kerneltest.WantClose(t, "Qθ0", []float64{left}, []float64{right}, 1e-9)
		}
		probs := func(theta []float64, i int) ([]float64, [][]float64) {
			jacobian := make([][]float64, classes)
			a := make([]float64, classes)
			for c := range classes {
				jacobian[c] = make([]float64, size)
				for k := range heads {
					mean := 0.0
					for e := range classes {
						mean += max(-8, float64(logProbs[(i*heads+k)*classes+e])) / classes
					}
					jacobian[c][k] = max(-8, float64(logProbs[(i*heads+k)*classes+c])) - mean
				}
				if biased {
					jacobian[c][heads+c] = 1
				}
				for k, x := range jacobian[c] {
					a[c] += x * theta[k]
				}
			}
			return plainSoftmax(a), jacobian
		}
		objective := func(theta []float64) (f float64) {
			for i, y := range labels {
				p, _ := probs(theta, i)
				f -= math.Log(p[y])
			}
			for i := range size {
				for j := range size {
					f += .5 * at(q0, i, j) * (theta[i] - theta0[i]) * (theta[j] - theta0[j])
				}
			}
			return f
		}
		gradient := func(g, theta []float64) {
			for i := range size {
				g[i] = 0
				for j := range size {
					g[i] += at(q0, i, j) * (theta[j] - theta0[j])
				}
			}
			for i, y := range labels {
				p, jacobian := probs(theta, i)
				p[y]--
				for c, row := range jacobian {
					for k, x := range row {
						g[k] += p[c] * x
					}
				}
			}
		}
		r, err := optimize.Minimize(optimize.Problem{Func: objective, Grad: gradient}, theta0, &optimize.Settings{GradientThreshold: 1e-8}, &optimize.BFGS{})
		if r == nil {
			t.Fatal(err)
		}
		if f, least := objective(w.theta), r.F; f > least+enough*(1+least) {
			t.Errorf("F is %v at θ, want %v, the minimum", f, least)
		}
		for i := range labels {
			p, jacobian := probs(w.theta, i)
			for c := range classes {
				for e := range classes {
					lambda := -p[c] * p[e]
					if c == e {
						lambda += p[c]
					}
					for k := range size {
						for l := k; l < size; l++ {
							q0[k*size+l] += lambda * jacobian[c][k] * jacobian[e][l]
						}
					}
				}
			}
		}
		for i := range size {
			kerneltest.WantClose(t, "Q", w.precision[i*size+i:(i+1)*size], q0[i*size+i:(i+1)*size], 1e-9)
		}
	}
}
