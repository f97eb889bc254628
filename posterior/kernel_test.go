package posterior

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// atLevels runs f with every kernel level that this machine has, plain first.
func atLevels(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer func(was level) { kernels = was }(kernels)
	for l, name := range []string{"go", "avx2", "avx512"} {
		kernels = level(l)
		if kernels <= best() {
			t.Run(name, f)
		}
	}
}

// sameAtLevels fails unless f returns the same bits at every level.
func sameAtLevels(t *testing.T, what string, f func() []float64) {
	t.Helper()
	var want []float64
	atLevels(t, func(t *testing.T) {
		t.Helper()
		if got := f(); want == nil {
			want = got
		} else {
			wantSame(t, what, got, want)
		}
	})
}

// randoms draws n standard normal numbers.
func randoms(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// odd are numbers at which kernels could differ: zeros, subnormal and huge numbers, and the
// ends of the range of exp.
var odd = []float64{
	0, math.Copysign(0, -1), 5e-324, -5e-324, 0x1p-1022, 1, -1, 700, -700, -707.999, -708, -708.001, -745, -1e9, 1e300, -1e300, math.MaxFloat64, math.Inf(-1),
}

// TestProductKernels: the product of matrices of any shape, transposed or with gaps between
// rows, has the same bits at every level and leaves the gaps unchanged.
func TestProductKernels(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		m, inner, n := 1+rng.IntN(19), 1+rng.IntN(9), 1+rng.IntN(41)
		if rng.IntN(10) == 0 {
			inner = 1 + rng.IntN(200)
		}
		gap := rng.IntN(3) // numbers between rows that do not belong to the matrix
		a := dense(randoms(rng, (m+gap)*(inner+gap)), m, inner)
		a.down += gap
		if rng.IntN(2) == 0 {
			a = dense(a.data, inner, m)
			a.down += gap
			a = a.t()
		}
		b := dense(randoms(rng, inner*(n+gap)), inner, n)
		b.down += gap
		start := randoms(rng, m*(n+gap))
		sameAtLevels(t, "product", func() []float64 {
			dst := dense(slices.Clone(start), m, n)
			dst.down += gap
			product(dst, a, b)
			return dst.data
		})
	}
}

// TestProductIsTheFormula: product adds to its destination, and accepts transposed matrices
// and parts of matrices.
func TestProductIsTheFormula(t *testing.T) {
	a, b := []float64{1, 2, 3, 4, 5, 6}, []float64{1, -1, 2, -2, 3, -3}
	atLevels(t, func(t *testing.T) {
		dst := []float64{100, 0, 0, 100}
		product(dense(dst, 2, 2), dense(a, 2, 3), dense(b, 3, 2))
		wantSame(t, "product", dst, []float64{114, -14, 32, 68})
		clear(dst)
		product(dense(dst, 2, 2), dense(a, 3, 2).t(), dense(b, 3, 2))
		wantSame(t, "product of a transpose", dst, []float64{22, -22, 28, -28})
		clear(dst)
		product(dense(dst, 2, 2), dense(a, 2, 3).left(1), dense(b, 1, 2))
		wantSame(t, "product of the left column", dst, []float64{1, -1, 4, -4})
	})
}

// TestAddEach: every row has a product with its own matrix, of its own numbers or of those
// that all rows share, and numbers between rows stay.
func TestAddEach(t *testing.T) {
	const k, n, down = 2, 3, 4
	b := []float64{1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6}
	start := []float64{100, 0, 0, 7, 0, 0, 0, 8}
	atLevels(t, func(t *testing.T) {
		dst := slices.Clone(start)
		AddEach(dst, down, []float64{1, 10}, 0, b, k, n)
		wantSame(t, "shared", dst, []float64{141, 52, 63, 7, -41, -52, -63, 8})
		dst = slices.Clone(start)
		AddEach(dst, down, []float64{1, 10, 9, 0, 1}, 3, b, k, n)
		wantSame(t, "own", dst, []float64{141, 52, 63, 7, -4, -5, -6, 8})
	})
	for name, f := range map[string]func(){
		"part of a matrix": func() { AddEach(make([]float64, 8), down, b, 0, b[1:], k, n) },
		"rows too close":   func() { AddEach(make([]float64, 8), 2, b, 0, b, k, n) },
		"few rows":         func() { AddEach(make([]float64, 4), down, b, 0, b, k, n) },
		"few numbers":      func() { AddEach(make([]float64, 8), down, make([]float64, 3), 2, b, k, n) },
	} {
		wantPanic(t, name, f)
	}
}

// TestProductIsFused: products are added without being rounded first.
func TestProductIsFused(t *testing.T) {
	const n = 21
	x, row := 1+0x1p-30, slices.Repeat([]float64{1 + 0x1p-30}, n)
	want := slices.Repeat([]float64{0x1p-60}, n)
	atLevels(t, func(t *testing.T) {
		dst := slices.Repeat([]float64{-float64(x * x)}, n)
		product(dense(dst, 1, n), dense([]float64{x}, 1, 1), dense(row, 1, n))
		wantSame(t, "product", dst, want)
	})
}

// TestProductRefuses: shapes that do not fit each other or their memory panic, before a
// kernel accesses memory outside its slices.
func TestProductRefuses(t *testing.T) {
	x := make([]float64, 6)
	for name, f := range map[string]func(){
		"rows":       func() { product(dense(x, 3, 2), dense(x, 2, 3), dense(x, 3, 2)) },
		"columns":    func() { product(dense(x, 2, 3), dense(x, 2, 3), dense(x, 3, 2)) },
		"inner":      func() { product(dense(x, 2, 2), dense(x, 2, 2), dense(x, 3, 2)) },
		"memory":     func() { product(dense(x, 2, 2), dense(x, 2, 4), dense(x, 4, 2)) },
		"transposed": func() { product(dense(x, 2, 2), dense(x, 2, 3), dense(x, 2, 3).t()) },
	} {
		wantPanic(t, name, f)
	}
}

// TestLaneKernels: every kernel over lanes has the same bits at every level, for odd
// numbers too.
func TestLaneKernels(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, shape := range [][2]int{{1, 8}, {2, 8}, {3, 16}, {7, 24}, {7, 64}, {40, 64}} {
		classes, lanes := shape[0], shape[1]
		n := classes * lanes
		x, y, z, e, f := randoms(rng, n), randoms(rng, n), randoms(rng, n), randoms(rng, n), randoms(rng, n)
		by, by2, weight := randoms(rng, lanes), randoms(rng, lanes), randoms(rng, classes)
		for i := range odd {
			x[i%n] = odd[rng.IntN(len(odd))]
		}
		sameAtLevels(t, "multiply", func() []float64 {
			dst := make([]float64, n-3) // not a whole number of registers
			multiply(dst, x, y)
			return dst
		})
		sameAtLevels(t, "scaleByLane", func() []float64 {
			dst := slices.Clone(x)
			scaleByLane(dst, by)
			return dst
		})
		sameAtLevels(t, "addByLane", func() []float64 {
			dst := slices.Clone(x)
			addByLane(dst, y, by)
			return dst
		})
		sameAtLevels(t, "relu", func() []float64 {
			dst := slices.Clone(x)
			relu(dst)
			return dst
		})
		sameAtLevels(t, "squareRoots", func() []float64 {
			dst := make([]float64, n)
			for i := range dst {
				dst[i] = math.Abs(x[i])
			}
			squareRoots(dst)
			return dst
		})
		sameAtLevels(t, "gate", func() []float64 {
			dst := slices.Clone(y)
			gate(dst, x, by, weight)
			return dst
		})
		sameAtLevels(t, "mirror", func() []float64 {
			dst := make([]float64, 2*n)
			mirror(dst[:n], dst[n:], x, y, z)
			return dst
		})
		sameAtLevels(t, "gather", func() []float64 {
			dst := slices.Concat(y, z)
			gather(dst[:n], dst[n:], e, f, by, by2, x)
			return dst
		})
		sameAtLevels(t, "exponentials", func() []float64 {
			a, s := slices.Clone(x), new(sums)
			exponentials(a, lanes, s)
			return slices.Concat(a, s.most[:], s.total[:], s.inverse[:], s.dot[:])
		})
		sameAtLevels(t, "logarithms", func() []float64 {
			dst := make([]float64, n)
			for i := range dst {
				dst[i] = math.Abs(x[i])
			}
			logarithms(dst, dst)
			return dst
		})
		bits := make([]uint64, n)
		for i := range bits {
			bits[i] = rng.Uint64()
		}
		bits[0], bits[1] = 0, math.MaxUint64
		sameAtLevels(t, "boxMuller", func() []float64 {
			dst := make([]float64, 2*n)
			boxMuller(dst[:n], dst[n:], bits)
			return dst
		})
	}
}

// TestExponentialsAreExp: the vector kernel has the bits of Exp over its whole range, and a
// NaN stays in its lane.
func TestExponentialsAreExp(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		var (
			s sums
			a [2 * laneWidth]float64 // of two rows of logits; the first, zeros, is the larger
		)
		for x := 0.0; x > -760; {
			clear(a[:laneWidth])
			want := make([]float64, laneWidth)
			for l := range want {
				x -= 0.0137
				a[laneWidth+l], want[l] = x, Exp(x)
			}
			exponentials(a[:], laneWidth, &s)
			wantSame(t, "exp", a[laneWidth:], want)
		}
		a = [2 * laneWidth]float64{math.NaN()}
		exponentials(a[:], laneWidth, &s)
		if !math.IsNaN(s.total[0]) || s.total[1] != 2 {
			t.Errorf("totals %v of a lane with NaN and %v of zeros, want NaN and 2", s.total[0], s.total[1])
		}
	})
}

// TestLog: Log agrees with math.Log up to an ulp of each, numbers below the least normal
// one count as it, and Log(1) is exactly 0.
func TestLog(t *testing.T) {
	for x := 0x1p-1022; x < 0x1p1023; x *= 1.00731 {
		wantClose(t, "log", []float64{Log(x)}, []float64{math.Log(x)}, 0x1p-51)
	}
	for x := 0.5; x < 2; x += 0.00037 {
		if got, want := Log(x), math.Log(x); math.Abs(got-want) > 0x1p-51*math.Abs(want) {
			t.Errorf("Log(%v) = %v, want %v", x, got, want)
		}
	}
	for _, x := range []float64{0, -1, 5e-324, 0x1p-1022, math.NaN()} {
		wantClose(t, "log", []float64{Log(x)}, []float64{math.Log(0x1p-1022)}, 0x1p-51)
	}
	if Log(1) != 0 {
		t.Errorf("Log(1) = %v, want 0", Log(1))
	}
}

// TestBoxMuller: pairs of normals agree with the formula, have the moments and the
// distribution function of the standard normal distribution, and are uncorrelated.
func TestBoxMuller(t *testing.T) {
	const n = 1 << 18
	rng := rand.New(rand.NewPCG(5, 6))
	bits := make([]uint64, n)
	for i := range bits {
		bits[i] = rng.Uint64()
	}
	cos, sin := make([]float64, n), make([]float64, n)
	boxMuller(cos, sin, bits)
	const se = 1. / 512 // standard error of the mean of n normals
	for name, x := range map[string][]float64{"cosine": cos, "sine": sin} {
		mean, sd := stat.MeanStdDev(x, nil)
		wantClose(t, name+": mean", []float64{mean}, []float64{0}, 5*se)
		wantClose(t, name+": deviation", []float64{sd}, []float64{1}, 5*se)
		wantClose(t, name+": fourth moment", []float64{stat.MomentAbout(4, x, 0, nil)}, []float64{3}, 5*se*math.Sqrt(96)/3)
		sorted := slices.Sorted(slices.Values(x))
		var worst float64
		for i, v := range sorted {
			worst = max(worst, math.Abs(distuv.UnitNormal.CDF(v)-(float64(i)+0.5)/n))
		}
		if worst > 2.5*se { // Kolmogorov-Smirnov at a level of 1e-5
			t.Errorf("%s: Kolmogorov-Smirnov statistic %v, want at most %v", name, worst, 2.5*se)
		}
	}
	wantClose(t, "correlation", []float64{stat.Correlation(cos, sin, nil)}, []float64{0}, 5*se)
	square := func(x []float64) []float64 {
		y := make([]float64, n)
		multiply(y, x, x)
		return y
	}
	wantClose(t, "correlation of squares", []float64{stat.Correlation(square(cos), square(sin), nil)}, []float64{0}, 5*se)

	for i, u := range bits[:1000] {
		radius := math.Sqrt(-2 * math.Log((float64(u>>32)+0.5)/(1<<32)))
		angle := (float64(u%(1<<31))/(1<<30) - 1) * math.Pi / 2
		sign := 1 - 2*float64(u>>31&1)
		wantClose(t, "pair", []float64{cos[i], sin[i]}, []float64{sign * radius * math.Cos(angle), radius * math.Sin(angle)}, 1e-10)
	}
}

// TestLanes: toLanes transposes rows to lanes, padded with zeros, and fromLanes is its
// inverse.
func TestLanes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{1, 7, 8, 9, 23, 64} {
		const cols = 3
		src := randoms(rng, n*cols)
		lanes := lanesOf(n) + laneWidth*rng.IntN(3)
		inLanes := randoms(rng, cols*lanes)
		toLanes(inLanes, src, n, cols)
		for i := range lanes {
			for j := range cols {
				want := 0.0
				if i < n {
					want = src[i*cols+j]
				}
				if inLanes[j*lanes+i] != want {
					t.Fatalf("%d rows: row %d, column %d is %v, want %v", n, i, j, inLanes[j*lanes+i], want)
				}
			}
		}
		back := make([]float64, n*cols)
		fromLanes(back, cols, inLanes, n, cols)
		wantSame(t, "back from lanes", back, src)
	}
}

// TestChosenLevel: the environment may ask for a lower level than the best of the machine,
// not for a higher one.
func TestChosenLevel(t *testing.T) {
	for _, c := range []struct {
		wish string
		best level
		want level
	}{
		{"", avx512, avx512},
		{"", plain, plain},
		{"go", avx512, plain},
		{"avx2", avx512, avx2},
		{"avx2", plain, plain},
		{"avx512", avx512, avx512},
		{"avx512", avx2, avx2},
	} {
		if got := chosen(c.wish, c.best); got != c.want {
			t.Errorf("chosen(%q, %v) = %v, want %v", c.wish, c.best, got, c.want)
		}
	}
}

// TestLevelsAgree: losses, gradients, predictions and the learned state have the same bits
// at every level, so that replays agree between machines.
func TestLevelsAgree(t *testing.T) {
	for _, c := range []struct{ n, dim, classes, hidden, samples int }{
		{1, 1, 1, 1, 1}, {9, 3, 2, 5, 3}, {70, 16, 7, 16, 10}, {130, 33, 40, 17, 4}, {65, 8, 5, 0, 2},
	} {
		sameAtLevels(t, "loss and gradients", func() []float64 {
			v := NewVariational(c.dim, c.classes, c.hidden, 1)
			v.Samples = c.samples
			rng := rand.New(rand.NewPCG(9, uint64(c.n)))
			z, dz, labels := randoms(rng, c.n*c.dim), make([]float64, c.n*c.dim), make([]int32, c.n)
			for i := range labels {
				labels[i] = int32(rng.IntN(c.classes))
			}
			loss := v.Loss(z, labels, 0.3, rng, dz)
			return slices.Concat(append(v.Grads(), dz, []float64{loss.Total, loss.ELL, loss.KL, float64(loss.Correct)})...)
		})
		rng := rand.New(rand.NewPCG(10, uint64(c.n)))
		q := randomGaussian(rng, c.dim, c.classes)
		rows, labels := randomRows(rng, c.n, c.dim, c.classes)
		sameAtLevels(t, "predictions", func() []float64 {
			probs, averaged, split := make([]float64, c.n*c.classes), make([]float64, c.n*c.classes), make([]Uncertainty, c.n)
			MAP(&q, rows, probs)
			NewPredictive(c.classes, 5).Predict(&q, rows, averaged, split)
			all := slices.Concat(probs, averaged)
			for _, u := range split {
				all = append(all, u.Total, u.Aleatoric, u.Epistemic)
			}
			return all
		})
		var want []byte
		atLevels(t, func(t *testing.T) {
			head := NewOnline(q, DefaultConfig())
			head.Learn(rows, labels)
			head.Learn(rows, labels)
			if got := head.AppendState(nil); want == nil {
				want = got
			} else if !bytes.Equal(got, want) {
				t.Error("the head learned another state than at the plain level")
			}
		})
	}
}
