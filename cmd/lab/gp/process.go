package gp

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// params are the learned parameters, as views of one vector; a gradient has the same form.
// There are M inducing points of dimension D and C classes.
type params struct {
	all []float64

	mean     blas64.General // m, M×C: column c is m_c
	factor   blas64.General // L, M×MC: entry (j, k) of L_c at row j, column kC+c; the diagonal by its logarithm, 0 above it
	inducing blas64.General // Z, M×D
	kernel   []float64      // log s² and log ℓ
}

func newParams(points, dim, classes int) *params {
	all := make([]float64, points*classes+points*points*classes+points*dim+2)
	p := &params{all: all}
	take := func(rows, cols int) blas64.General {
		g := blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: all[: rows*cols : rows*cols]}
		all = all[rows*cols:]
		return g
	}
	p.mean = take(points, classes)
	p.factor = take(points, points*classes)
	p.inducing = take(points, dim)
	p.kernel = take(1, 2).Data
	return p
}

// hyperprior is the prior of the kernel: log s² and log ℓ are normal. Without it the
// bound often explains a few dozen rows with overlapping classes as noise (s² falls to 0,
// or ℓ until rows do not affect each other), and with well-separated classes s² grows
// without limit.
type hyperprior struct{ centre [2]float64 }

// newHyperprior returns the prior for rows at the given median distance. Its centre is
// s² = 10, so that logits vary by about 3 and a row may be nearly certain, and ℓ twice the
// distance: so few rows can only show slow changes.
func newHyperprior(distance float64) hyperprior {
	return hyperprior{[2]float64{math.Log(10), math.Log(2 * distance)}}
}

// pull adds the gradient of the negative log density at log s² and log ℓ. Both have
// standard deviation .5, so two of them are a factor of 2.7; a hundred rows outweigh it.
func (h hyperprior) pull(kernel, grad []float64) {
	const deviation = 0.5
	for i, k := range kernel {
		grad[i] += (k - h.centre[i]) / (deviation * deviation)
	}
}

// process is the sparse Gaussian process at one setting of its parameters. The
// inducing variables are u_c = f_c(Z) = constant_c + Uᵀv_c with K_zz = UᵀU, where
// v_c is N(0, I) a priori and N(m_c, L_c L_cᵀ) under q.
type process struct {
	points, dim, classes int

	kernel    rbf
	constant  []float64         // C: the latent functions' prior means, which are not learned
	inducing  blas64.General    // Z, M×D
	inducingT blas64.General    // Zᵀ
	norm      []float64         // |z_j|²
	dist      blas64.General    // |z_i - z_j|²
	prior     blas64.General    // K_zz without jitter
	chol      blas64.Triangular // U
	mean      blas64.General    // M×C
	factor    blas64.General    // M×MC, as in params but for the diagonal, which is L's own
}

func newProcess(points, dim int, constant []float64) *process {
	classes := len(constant)
	return &process{
		points: points, dim: dim, classes: classes,
		constant:  constant,
		inducing:  matrix(points, dim),
		inducingT: matrix(dim, points),
		norm:      make([]float64, points),
		dist:      matrix(points, points),
		prior:     matrix(points, points),
		chol:      blas64.Triangular{N: points, Stride: points, Uplo: blas.Upper, Diag: blas.NonUnit, Data: make([]float64, points*points)},
		mean:      matrix(points, classes),
		factor:    matrix(points, points*classes),
	}
}

// jitter is added to the diagonal of K_zz, as a share of s². It is far above rounding
// errors, so that K_zz factorises even if inducing points coincide. The bound remains a
// bound: that of inducing variables observed with noise of this variance.
const jitter = 1e-6

// set sets the process to the parameters p, without keeping a reference to them. It
// returns an error if K_zz does not factorise because p has diverged.
func (g *process) set(p *params) error {
	g.kernel = rbf{variance: exp(p.kernel[0]), lengthscale: exp(p.kernel[1])}
	copy(g.mean.Data, p.mean.Data)
	copy(g.factor.Data, p.factor.Data)
	for j := range g.points {
		row := rowOf(g.factor, j)[j*g.classes : (j+1)*g.classes]
		for c := range row {
			row[c] = exp(row[c])
		}
	}

	copy(g.inducing.Data, p.inducing.Data)
	for j := range g.points {
		for d, x := range rowOf(g.inducing, j) {
			g.inducingT.Data[d*g.points+j] = x
		}
	}
	squares(g.norm, g.inducing)
	g.kernel.matrix(g.inducing, g.norm, g.inducingT, g.norm, g.dist, g.prior)

	copy(g.chol.Data, g.prior.Data)
	for j := range g.points {
		g.chol.Data[j*g.points+j] = g.kernel.variance * (1 + jitter)
	}
	if _, ok := lapack64.Potrf(blas64.Symmetric{N: g.points, Stride: g.points, Uplo: blas.Upper, Data: g.chol.Data}); !ok {
		return fmt.Errorf("kernel matrix of the inducing points does not factorise at outputscale %v and lengthscale %v: use a lower learning rate",
			g.kernel.variance, g.kernel.lengthscale)
	}
	return nil
}

// leastVariance bounds latent variances from below, as the square root has no derivative
// at 0.
const leastVariance = 1e-10

// marginals are the moments of the latent functions at n rows, and the intermediate
// results that the gradient needs.
type marginals struct {
	x        blas64.General // n×D, the rows, standardised
	norm     []float64      // |x_i|²
	dist, k  blas64.General // n×M: squared distances and K_xz
	a        blas64.General // n×M: K_xz U⁻¹
	al       blas64.General // n×MC: A L_c, class c's column k at kC+c
	mean     blas64.General // n×C
	variance blas64.General // n×C
}

func newMarginals(rows int, g *process) *marginals {
	return &marginals{
		x: matrix(rows, g.dim), norm: make([]float64, rows),
		dist: matrix(rows, g.points), k: matrix(rows, g.points), a: matrix(rows, g.points),
		al:   matrix(rows, g.points*g.classes),
		mean: matrix(rows, g.classes), variance: matrix(rows, g.classes),
	}
}

// resize sets the number of rows, at most that given to newMarginals.
func (m *marginals) resize(n int) {
	m.norm = m.norm[:n]
	for _, g := range []*blas64.General{&m.x, &m.dist, &m.k, &m.a, &m.al, &m.mean, &m.variance} {
		g.Rows = n
		g.Data = g.Data[:n*g.Stride]
	}
}

// at sets the marginals of q(f) at the rows m.x: with a = U⁻ᵀ k_z(x),
//
//	E f_c   = constant_c + aᵀm_c
//	var f_c = k(x, x) - aᵀa + |L_cᵀa|².
func (g *process) at(m *marginals) {
	squares(m.norm, m.x)
	g.kernel.matrix(m.x, m.norm, g.inducingT, g.norm, m.dist, m.k)
	copy(m.a.Data, m.k.Data)
	blas64.Trsm(blas.Right, blas.NoTrans, 1, g.chol, m.a)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, m.a, g.mean, 0, m.mean)
	for lo, hi := range g.panels {
		c0, c1 := lo*g.classes, hi*g.classes
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, part(m.a, 0, lo, g.points), part(g.factor, lo, c0, c1), 0, part(m.al, 0, c0, c1))
	}
	for i := range m.x.Rows {
		mean, variance := rowOf(m.mean, i), rowOf(m.variance, i)
		rest := g.kernel.variance
		for _, a := range rowOf(m.a, i) {
			rest -= float64(a * a)
		}
		rest = max(rest, leastVariance)
		for c := range variance {
			mean[c] += g.constant[c]
			variance[c] = rest
		}
		al := rowOf(m.al, i)
		for k := 0; k < len(al); k += g.classes {
			for c, t := range al[k : k+g.classes] {
				variance[c] += float64(t * t)
			}
		}
	}
}

// panels yields ranges of the factors' columns. Products that start at the range's first
// row leave out most of the zeros above the diagonals.
func (g *process) panels(yield func(lo, hi int) bool) {
	const width = 16
	for lo := 0; lo < g.points; lo += width {
		if !yield(lo, min(lo+width, g.points)) {
			return
		}
	}
}

// kl returns Σ_c KL(N(m_c, L_c L_cᵀ) ‖ N(0, I)), in nats.
func (g *process) kl() (sum float64) {
	for _, m := range g.mean.Data {
		sum += float64(m * m)
	}
	for j := range g.points {
		row := rowOf(g.factor, j)[:(j+1)*g.classes]
		for _, l := range row {
			sum += float64(l * l)
		}
		for _, l := range row[j*g.classes:] {
			sum -= 1 + 2*math.Log(l)
		}
	}
	return sum / 2
}
