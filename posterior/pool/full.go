package pool

import "github.com/gvbll/gvbll/posterior"

// full is softmax regression on u = z/τ,
//
//	p(y = c) = softmax(uᵀM)_c,
//
// with a Gaussian posterior in which the d_e weights of class c have mean M_c and a
// full precision matrix T_c, and weights of different classes are independent. Its
// prior is the training posterior (M*, T*), T* diagonal.
//
// A batch first forgets, T0_c = λ^share T_c + (1-λ^share) diag T*_c, and then
// minimises
//
//	F(M) = -Σ_i log p_i[y_i] + ½ Σ_c (M_c - M0_c)ᵀ T0_c (M_c - M0_c)
//
// by Newton's method with the block-diagonal Hessian
// T0_c + Σ_i p_ic(1-p_ic) u_i u_iᵀ, each step halved until F falls. The blocks at
// the solution are the new T_c. It costs d_e³ a class and step.
type full struct {
	Full
	dim, classes int
	version      uint64
	anchor       []float64 // T*, d_e × C

	mean      []float64   // M, d_e × C
	precision [][]float64 // T_c, d_e × d_e; only the upper triangle is valid

	// Scratch memory of learn.
	u, weighted, probs, residual []float64 // n × d_e, n × d_e, n × C, n × C
	mean0, next, gradient, step  []float64 // d_e × C
	blocks                       [][]float64
	column, solution             []float64
	cholesky                     cholesky
	rows                         []float64 // probs, n × stride
	scratch                      softmaxScratch
}

func newFull(cfg Full, prior *posterior.Gaussian) *full {
	d, classes := prior.Dim, prior.Classes
	q := prior.Clone()
	f := &full{Full: cfg, dim: d, classes: classes, anchor: q.Precision, mean: q.Mean}
	for c := range classes {
		t := make([]float64, d*d)
		for j := range d {
			t[j*d+j] = f.anchor[j*classes+c]
		}
		f.precision = append(f.precision, t)
		f.blocks = append(f.blocks, make([]float64, d*d))
	}
	for _, x := range []*[]float64{&f.mean0, &f.next, &f.gradient, &f.step} {
		*x = make([]float64, d*classes)
	}
	f.column, f.solution = make([]float64, d), make([]float64, d)
	return f
}

func (f *full) load(rows posterior.Rows) {
	f.u = resize(f.u, len(rows.Z))
	divideByTau(f.u, rows)
}

func (f *full) predict(rows *Rows, logp []float64) {
	f.load(rows.Embedded)
	clear(logp)
	posterior.AddProduct(logp, f.u, f.mean, rows.N, f.dim, f.classes)
}

func (f *full) train(*Batch) {}

func (f *full) learn(b *Batch, share float64) posterior.Report {
	f.version++
	if f.Lambda < 1 {
		f.forget(posterior.Exp(float64(posterior.Log(f.Lambda) * share)))
	}
	f.load(b.Embedded)
	f.fit(b.Labels)
	f.precision, f.blocks = f.blocks, f.precision
	return posterior.Report{}
}

// fit minimises F in at most Steps steps from the mean, and leaves the Hessian's
// blocks at the solution in blocks.
func (f *full) fit(labels []int32) {
	copy(f.mean0, f.mean)
	objective := f.objective(f.mean, labels)
	f.curvature(len(labels))
	for range f.Steps {
		if !f.newtonStep(labels) {
			break
		}
		next, ok := f.lineSearch(objective, labels)
		f.curvature(len(labels))
		if !ok {
			break
		}
		objective = next
	}
}

// forget replaces T by T0; keep is λ^share.
func (f *full) forget(keep float64) {
	for c, t := range f.precision {
		for i := range t {
			t[i] *= keep
		}
		for j := range f.dim {
			t[j*f.dim+j] += float64((1 - keep) * f.anchor[j*f.classes+c])
		}
	}
}

// objective returns F at m, sets probs, and sets gradient to the prior's part of
// the gradient.
func (f *full) objective(m []float64, labels []int32) (sum float64) {
	n, stride := len(labels), strideOf(f.classes)
	f.probs, f.rows = resize(f.probs, n*f.classes), resize(f.rows, n*stride)
	clear(f.probs)
	posterior.AddProduct(f.probs, f.u, m, n, f.dim, f.classes)
	for i := range n {
		copy(f.rows[i*stride:], f.probs[i*f.classes:(i+1)*f.classes])
	}
	sum = f.scratch.softmax(f.rows, f.classes, stride, labels)
	for i := range n {
		copy(f.probs[i*f.classes:(i+1)*f.classes], f.rows[i*stride:])
	}
	for c, t := range f.precision {
		for j := range f.column {
			f.column[j] = m[j*f.classes+c] - f.mean0[j*f.classes+c]
		}
		multiplySymmetric(f.solution, t, f.column)
		for j, x := range f.solution {
			f.gradient[j*f.classes+c] = x
		}
		sum += 0.5 * dot(f.column, f.solution)
	}
	return sum
}

// curvature sets the Hessian's blocks from the probabilities of n rows.
func (f *full) curvature(n int) {
	f.weighted = resize(f.weighted, len(f.u))
	for c, block := range f.blocks {
		copy(block, f.precision[c])
		for i := range n {
			p := f.probs[i*f.classes+c]
			by := p * (1 - p)
			for j, x := range f.u[i*f.dim : (i+1)*f.dim] {
				f.weighted[i*f.dim+j] = x * by
			}
		}
		posterior.AddTransposed(block, f.u, f.weighted, f.dim, n, f.dim)
	}
}

// newtonStep sets step to the step from the mean, where objective was last called.
// It reports false if a block is not positive definite.
func (f *full) newtonStep(labels []int32) bool {
	f.residual = resize(f.residual, len(f.probs))
	copy(f.residual, f.probs)
	for i, y := range labels {
		row := f.residual[i*f.classes : (i+1)*f.classes]
		row[y]--
	}
	posterior.AddTransposed(f.gradient, f.u, f.residual, f.dim, len(labels), f.classes)
	for c, block := range f.blocks {
		for j := range f.column {
			f.column[j] = f.gradient[j*f.classes+c]
		}
		if !f.cholesky.factorize(block, f.dim) {
			return false
		}
		f.cholesky.solve(f.column)
		for j, x := range f.column {
			f.step[j*f.classes+c] = -x
		}
	}
	return true
}

// lineSearch moves the mean by step, halved until the objective falls, and returns
// the new one. It reports whether it fell; if not, the mean stays.
func (f *full) lineSearch(objective float64, labels []int32) (float64, bool) {
	for scale := 1.0; scale > 1e-3; scale *= 0.5 {
		for i, x := range f.step {
			f.next[i] = f.mean[i] + float64(scale*x)
		}
		if tried := f.objective(f.next, labels); tried < objective {
			copy(f.mean, f.next)
			return tried, true
		}
	}
	f.objective(f.mean, labels)
	return objective, false
}

func (f *full) appendState(s *writer) {
	s.uint(f.version)
	s.floats(f.mean)
	for _, t := range f.precision {
		for j := range f.dim {
			s.floats(t[j*f.dim+j : (j+1)*f.dim])
		}
	}
}

// appendChange leaves out the precisions but for their diagonals: two states that
// differ elsewhere differ in their means after the next batch.
func (f *full) appendChange(s *writer) {
	s.uint(f.version)
	s.floats(f.mean)
	for _, t := range f.precision {
		for j := range f.dim {
			s.float(t[j*f.dim+j])
		}
	}
}

func (f *full) readState(r *reader) {
	f.version = r.uint()
	r.floats(f.mean)
	for _, t := range f.precision {
		for j := range f.dim {
			r.floats(t[j*f.dim+j : (j+1)*f.dim])
		}
		if r.err == nil {
			r.check(f.cholesky.factorize(t, f.dim), "a precision is not positive definite")
		}
	}
}
