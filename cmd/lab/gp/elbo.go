package gp

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// bound is the evidence lower bound of n rows,
//
//	ELBO = Σ_i E_{q(f_i)} log p(y_i|f_i) - Σ_c KL(q(v_c) ‖ p(v_c))
//
// (Hensman et al. 2015, eq. 18), estimated from a batch of the rows, and its
// gradient. It holds scratch memory.
type bound struct {
	n      int // rows in all
	at     *process
	params *params
	grad   *params // of the negative bound

	likelihood *softmax
	m          *marginals
	dMean      blas64.General // of the marginals
	dVariance  blas64.General
	dA         blas64.General // n×M, then of K_xz
	dChol      blas64.General // M×M: of Uᵀ, the lower factor of K_zz
}

// chunk is the number of rows worked on at a time: enough for efficient matrix products,
// few enough for their n×MC numbers to stay in the cache.
const chunk = 256

func newBound(n, batch, samples int, constant []float64, p *params) *bound {
	points, dim, classes := p.inducing.Rows, p.inducing.Cols, len(constant)
	rows := min(batch, chunk)
	g := newProcess(points, dim, constant)
	return &bound{
		n: n, at: g, params: p, grad: newParams(points, dim, classes),
		likelihood: newSoftmax(classes, samples),
		m:          newMarginals(rows, g),
		dMean:      matrix(rows, classes), dVariance: matrix(rows, classes),
		dA: matrix(rows, points), dChol: matrix(points, points),
	}
}

// estimate returns an estimate of the negative bound, in nats, from the rows of a batch,
// and how many of them have the largest latent mean at their label. It sets grad. load
// writes the standardised rows of the batch from lo on to x.
func (b *bound) estimate(labels []int32, load func(lo int, x blas64.General), rng *rand.Rand) (loss float64, correct int, err error) {
	if err := b.at.set(b.params); err != nil {
		return 0, 0, err
	}
	clear(b.grad.all)
	clear(b.dChol.Data)
	weight := float64(b.n) / float64(len(labels))
	for lo := 0; lo < len(labels); lo += chunk {
		y := labels[lo:min(lo+chunk, len(labels))]
		b.m.resize(len(y))
		load(lo, b.m.x)
		b.at.at(b.m)
		for i, y := range y {
			mean, variance := rowOf(b.m.mean, i), rowOf(b.m.variance, i)
			if top(mean) == int(y) {
				correct++
			}
			loss -= b.likelihood.expect(mean, variance, int(y), weight, rng, rowOf(b.dMean, i), rowOf(b.dVariance, i))
		}
		b.backward(len(y))
	}
	b.backwardPrior()
	b.backwardKL()
	return loss + b.at.kl(), correct, nil
}

// backward propagates the gradients with respect to the marginals of n rows to the
// parameters and to dChol.
func (b *bound) backward(n int) {
	g, m := b.at, b.m
	for _, x := range []*blas64.General{&b.dMean, &b.dVariance, &b.dA} {
		x.Rows = n
	}

	// Means: constant + A m.
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, m.a, b.dMean, 1, b.grad.mean)
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, b.dMean, g.mean, 0, b.dA)

	// Variances: s² - aᵀa + |L_cᵀa|². The gradient of A L_c takes its place.
	for i := range n {
		dv, al := rowOf(b.dVariance, i), rowOf(m.al, i)
		for k := 0; k < len(al); k += g.classes {
			t := al[k : k+g.classes]
			for c := range t {
				t[c] *= 2 * dv[c]
			}
		}
		var sum float64
		for _, d := range dv {
			sum += d
		}
		b.grad.kernel[0] += float64(sum * g.kernel.variance)
		addScaled(rowOf(b.dA, i), -2*sum, rowOf(m.a, i))
	}
	for lo, hi := range g.panels {
		c0, c1 := lo*g.classes, hi*g.classes
		a, al := part(m.a, 0, lo, g.points), part(m.al, 0, c0, c1)
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, a, al, 1, part(b.grad.factor, lo, c0, c1))
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, al, part(g.factor, lo, c0, c1), 1, part(b.dA, 0, lo, g.points))
	}

	// A = K_xz U⁻¹: the gradient of K_xz is dA U⁻ᵀ, that of Uᵀ is -dK_xzᵀ A.
	blas64.Trsm(blas.Right, blas.Trans, 1, g.chol, b.dA)
	blas64.Gemm(blas.Trans, blas.NoTrans, -1, b.dA, m.a, 1, b.dChol)
	byVariance, byLengthscale := g.kernel.backward(m.x, g.inducing, m.dist, m.k, b.dA, b.grad.inducing)
	b.grad.kernel[0] += byVariance
	b.grad.kernel[1] += byLengthscale
}

// backwardPrior propagates dChol, the gradient of Uᵀ = L, to the kernel and the inducing
// points. Through the factorisation it is (S + Sᵀ)/2 with S = L⁻ᵀ Φ(Lᵀ dL) L⁻¹,
// where Φ keeps the lower triangle and halves its diagonal (Murray,
// "Differentiation of the Cholesky decomposition", 2016, eq. 10).
func (b *bound) backwardPrior() {
	g, s := b.at, b.dChol
	lower := func(diagonal float64) {
		for j := range s.Rows {
			row := rowOf(s, j)
			row[j] *= diagonal
			clear(row[j+1:])
		}
	}
	lower(1)
	blas64.Trmm(blas.Left, blas.NoTrans, 1, g.chol, s)
	lower(0.5)
	blas64.Trsm(blas.Left, blas.NoTrans, 1, g.chol, s)
	blas64.Trsm(blas.Right, blas.Trans, 1, g.chol, s)
	for j := range s.Rows {
		// The jitter is a share of s² on the diagonal.
		b.grad.kernel[0] += float64(s.Data[j*s.Stride+j] * jitter * g.kernel.variance)
		for i := range j {
			lo, up := &s.Data[j*s.Stride+i], &s.Data[i*s.Stride+j]
			*lo = (*lo + *up) / 2
			*up = *lo
		}
	}
	// The kernel is of Z twice: a gradient with respect to one of them, doubled.
	dz := matrix(g.points, g.dim)
	byVariance, byLengthscale := g.kernel.backward(g.inducing, g.inducing, g.dist, g.prior, s, dz)
	b.grad.kernel[0] += byVariance
	b.grad.kernel[1] += byLengthscale
	addScaled(b.grad.inducing.Data, 2, dz.Data)
}

// backwardKL adds the gradient of the KL divergence, and replaces the gradient of L's
// diagonal by that of its logarithm.
func (b *bound) backwardKL() {
	g := b.at
	addScaled(b.grad.mean.Data, 1, g.mean.Data)
	for j := range g.points {
		grad, row := rowOf(b.grad.factor, j), rowOf(g.factor, j)
		lo, hi := j*g.classes, (j+1)*g.classes
		clear(grad[hi:])
		addScaled(grad[:hi], 1, row)
		for c := lo; c < hi; c++ {
			grad[c] = float64(grad[c]*row[c]) - 1
		}
	}
}
