package gp

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/distuv"
)

// scattered returns the bound of n rows with parameters far from their initial values, so
// that every term of a gradient counts.
func scattered(n, points, dim, classes, samples int) (b *bound, x blas64.General, labels []int32) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := newParams(points, dim, classes)
	for i := range p.all {
		p.all[i] = 0.4 * rng.NormFloat64()
	}
	for j := range points {
		clear(rowOf(p.factor, j)[(j+1)*classes:])
	}
	for i := range p.inducing.Data {
		p.inducing.Data[i] = rng.NormFloat64()
	}
	x = matrix(n, dim)
	for i := range x.Data {
		x.Data[i] = rng.NormFloat64()
	}
	for range n {
		labels = append(labels, int32(rng.IntN(classes)))
	}
	constant := make([]float64, classes)
	for c := range constant {
		constant[c] = 0.4 * rng.NormFloat64()
	}
	return newBound(n, n, samples, constant, p), x, labels
}

// from returns a function that loads the rows of x.
func from(x blas64.General) func(int, blas64.General) {
	return func(lo int, dst blas64.General) { copy(dst.Data, x.Data[lo*x.Cols:]) }
}

// noise returns a random source, always with the same seed.
func noise() *rand.Rand { return rand.New(rand.NewPCG(3, 4)) }

// TestGradients compares the gradients of the bound with central differences, for every
// parameter.
func TestGradients(t *testing.T) {
	for _, c := range []struct {
		name                                string
		rows, points, dim, classes, samples int
	}{
		{"more rows than points", 9, 5, 3, 3, 4},
		{"one point", 4, 1, 2, 2, 3},
		{"two panels of the factors", 6, 18, 2, 3, 2},
		{"two chunks of rows", chunk + 3, 3, 1, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, x, labels := scattered(c.rows, c.points, c.dim, c.classes, c.samples)
			b.n *= 2 // the rows are a batch of more
			p := b.params
			loss := func() float64 {
				l, _, err := b.estimate(labels, from(x), noise())
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			loss()
			g := newParams(c.points, c.dim, c.classes)
			copy(g.all, b.grad.all)
			for _, v := range []struct {
				name    string
				at, got []float64
			}{
				{"mean", p.mean.Data, g.mean.Data},
				{"factor", p.factor.Data, g.factor.Data},
				{"inducing points", p.inducing.Data, g.inducing.Data},
				{"kernel", p.kernel, g.kernel},
			} {
				was := slices.Clone(v.at)
				want := fd.Gradient(nil, func(at []float64) float64 {
					copy(v.at, at)
					return loss()
				}, was, &fd.Settings{Formula: fd.Central, Step: 1e-5})
				copy(v.at, was)
				if v.name == "factor" { // has no numbers above the diagonals
					for j := range c.points {
						for i := range c.points * c.classes {
							if i >= (j+1)*c.classes {
								want[j*c.points*c.classes+i] = 0
							}
						}
					}
				}
				wantClose(t, v.name, v.got, want, 1e-6)
			}
		})
	}
}

// TestHyperprior: the gradients of the priors of the kernel parameters are those of
// log-normal densities.
func TestHyperprior(t *testing.T) {
	h := newHyperprior(3)
	at, grad := []float64{0.3, 2.5}, []float64{1, 2}
	h.pull(at, grad)
	want := fd.Gradient(nil, func(k []float64) float64 {
		return -distuv.Normal{Mu: math.Log(10), Sigma: 0.5}.LogProb(k[0]) - distuv.Normal{Mu: math.Log(6), Sigma: 0.5}.LogProb(k[1])
	}, at, &fd.Settings{Formula: fd.Central})
	wantClose(t, "gradient", grad, []float64{1 + want[0], 2 + want[1]}, 1e-7)
}

// TestKL: the divergence is that of gonum's normal distributions. At the prior it is 0, and
// so is its gradient.
func TestKL(t *testing.T) {
	const points, classes = 5, 3
	b, _, _ := scattered(1, points, 2, classes, 1)
	if err := b.at.set(b.params); err != nil {
		t.Fatal(err)
	}
	prior, _ := distmv.NewNormal(make([]float64, points), identity(points), nil)
	var want float64
	for c := range classes {
		q, _ := distmv.NewNormal(column(b.at.mean, c), covariance(b.at, c), nil)
		want += distmv.KullbackLeibler{}.DistNormal(q, prior)
	}
	wantClose(t, "divergence", []float64{b.at.kl()}, []float64{want}, 1e-12)

	clear(b.params.mean.Data)
	clear(b.params.factor.Data)
	if err := b.at.set(b.params); err != nil {
		t.Fatal(err)
	}
	b.backwardKL()
	if got := b.at.kl(); got != 0 {
		t.Errorf("divergence of the prior from itself is %v, want 0", got)
	}
	for i, g := range b.grad.all {
		if g != 0 {
			t.Fatalf("gradient %d of the divergence is %v at the prior, want 0", i, g)
		}
	}
}

// TestMarginals: the marginals are those of the textbook formula, computed without
// whitening and factors: f | u ~ N(K_xz K_zz⁻¹ u, k - K_xz K_zz⁻¹ K_zx), averaged over
// q(u).
func TestMarginals(t *testing.T) {
	const rows, points, classes = 4, 19, 3
	b, x, _ := scattered(rows, points, 2, classes, 1)
	g := b.at
	if err := g.set(b.params); err != nil {
		t.Fatal(err)
	}
	m := newMarginals(rows, g)
	copy(m.x.Data, x.Data)
	g.at(m)

	kernel := func(a, b []float64) float64 {
		return g.kernel.variance * math.Exp(-squaredDistance(a, b)/(2*g.kernel.lengthscale*g.kernel.lengthscale))
	}
	kzz := mat.NewSymDense(points, nil)
	for i := range points {
		for j := range i + 1 {
			kzz.SetSym(i, j, kernel(rowOf(g.inducing, i), rowOf(g.inducing, j)))
		}
		kzz.SetSym(i, i, kzz.At(i, i)*(1+jitter))
	}
	var chol mat.Cholesky
	if !chol.Factorize(kzz) {
		t.Fatal("K_zz does not factorise")
	}
	var l mat.TriDense
	chol.LTo(&l)
	for i := range rows {
		kxz := mat.NewVecDense(points, nil)
		for j := range points {
			kxz.SetVec(j, kernel(rowOf(x, i), rowOf(g.inducing, j)))
		}
		weights := mat.NewVecDense(points, nil) // K_zz⁻¹ K_zx
		if err := chol.SolveVecTo(weights, kxz); err != nil {
			t.Fatal(err)
		}
		for c := range classes {
			var mean mat.VecDense // of u, less the constant
			mean.MulVec(&l, mat.NewVecDense(points, column(g.mean, c)))
			var cov mat.Dense // of u
			cov.Mul(&l, covariance(g, c))
			cov.Mul(&cov, l.T())
			wantMean := g.constant[c] + mat.Dot(weights, &mean)
			wantVariance := g.kernel.variance - mat.Dot(weights, kxz) + mat.Inner(weights, &cov, weights)
			got := []float64{rowOf(m.mean, i)[c], rowOf(m.variance, i)[c]}
			wantClose(t, "mean and variance", got, []float64{wantMean, wantVariance}, 1e-8)
		}
	}
}

// TestBoundIsBelowEvidence: the bound is below the log evidence, by little at its maximum.
// For two classes the evidence is an integral over the difference of the latent functions,
// of three dimensions for three rows, which quadrature computes.
func TestBoundIsBelowEvidence(t *testing.T) {
	b, x, _ := scattered(3, 3, 2, 2, 20)
	copy(b.params.inducing.Data, x.Data)
	labels := []int32{0, 1, 1}
	estimate := func(samples int) float64 {
		b.likelihood.samples = samples
		loss, _, err := b.estimate(labels, from(x), noise())
		if err != nil {
			t.Fatal(err)
		}
		return -loss
	}
	gap := func() float64 { return logEvidence(t, b.at, x, labels) - estimate(200_000) }
	estimate(20)
	if got := gap(); got < 0.1 {
		t.Errorf("far from its maximum the bound is %.4f below the evidence, want more than 0.1", got)
	}

	// With the rows as inducing points, the best q differs from the posterior because
	// that is not Gaussian and is correlated over the classes: by about
	// -log(1 - .2²)/2 = .02 a row, where s² is 1 and the rows are far apart.
	optimiser, rng := newAdam(len(b.params.all)), rand.New(rand.NewPCG(5, 6))
	b.likelihood.samples = 20
	for step := range 600 {
		if _, _, err := b.estimate(labels, from(x), rng); err != nil {
			t.Fatal(err)
		}
		clear(b.grad.kernel) // a fixed prior
		clear(b.grad.inducing.Data)
		optimiser.step(b.params.all, b.grad.all, 0.05*(1-float64(step)/600))
	}
	if got := gap(); got < 0 || got > 0.06 {
		t.Errorf("at its maximum the bound is %.4f below the evidence, want 0 to 0.06", got)
	}
}

// logEvidence is log ∫ Π_i σ(±d(x_i)) dp(d) for d = f_1 - f_0, by Gauss-Hermite quadrature.
func logEvidence(t *testing.T, g *process, x blas64.General, labels []int32) float64 {
	const nodes = 40
	at, weight := make([]float64, nodes), make([]float64, nodes)
	quad.Hermite{}.FixedLocations(at, weight, math.Inf(-1), math.Inf(1))
	cov := mat.NewSymDense(3, nil)
	for i := range 3 {
		for j := range i + 1 {
			r := squaredDistance(rowOf(x, i), rowOf(x, j))
			cov.SetSym(i, j, 2*g.kernel.variance*math.Exp(-r/(2*g.kernel.lengthscale*g.kernel.lengthscale)))
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(cov) {
		t.Fatal("the prior does not factorise")
	}
	var l mat.TriDense
	chol.LTo(&l)
	var evidence float64
	for a := range nodes {
		for b := range nodes {
			for c := range nodes {
				v := [3]float64{at[a], at[b], at[c]}
				p := weight[a] * weight[b] * weight[c] / math.Pow(math.Pi, 1.5)
				for i, y := range labels {
					d := g.constant[1] - g.constant[0]
					for j := range i + 1 {
						d += math.Sqrt2 * l.At(i, j) * v[j]
					}
					p /= 1 + math.Exp(float64(2*y-1)*-d)
				}
				evidence += p
			}
		}
	}
	return math.Log(evidence)
}

func identity(n int) *mat.SymDense {
	s := mat.NewSymDense(n, nil)
	for i := range n {
		s.SetSym(i, i, 1)
	}
	return s
}

func column(g blas64.General, c int) []float64 {
	col := make([]float64, g.Rows)
	for i := range col {
		col[i] = rowOf(g, i)[c]
	}
	return col
}

// covariance is L_c L_cᵀ.
func covariance(g *process, c int) *mat.SymDense {
	l := mat.NewDense(g.points, g.points, nil)
	for j := range g.points {
		for k := range j + 1 {
			l.Set(j, k, rowOf(g.factor, j)[k*g.classes+c])
		}
	}
	s := mat.NewSymDense(g.points, nil)
	s.SymOuterK(1, l)
	return s
}
