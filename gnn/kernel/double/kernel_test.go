package double

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
)

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
		a := Dense(randoms(rng, (m+gap)*(inner+gap)), m, inner)
		a.down += gap
		if rng.IntN(2) == 0 {
			a = Dense(a.data, inner, m)
			a.down += gap
			a = a.T()
		}
		b := Dense(randoms(rng, inner*(n+gap)), inner, n)
		b.down += gap
		start := randoms(rng, m*(n+gap))
		kerneltest.SameAtLevels(t, "product", func() []float64 {
			dst := Dense(slices.Clone(start), m, n)
			dst.down += gap
			Product(dst, a, b)
			return dst.data
		})
	}
}

// TestProductIsTheFormula: product adds to its destination, and accepts transposed matrices
// and parts of matrices.
func TestProductIsTheFormula(t *testing.T) {
	a, b := []float64{1, 2, 3, 4, 5, 6}, []float64{1, -1, 2, -2, 3, -3}
	kerneltest.AtLevels(t, func(t *testing.T) {
		dst := []float64{100, 0, 0, 100}
		Product(Dense(dst, 2, 2), Dense(a, 2, 3), Dense(b, 3, 2))
		kerneltest.WantSame(t, "product", dst, []float64{114, -14, 32, 68})
		clear(dst)
		Product(Dense(dst, 2, 2), Dense(a, 3, 2).T(), Dense(b, 3, 2))
		kerneltest.WantSame(t, "product of a transpose", dst, []float64{22, -22, 28, -28})
		clear(dst)
		Product(Dense(dst, 2, 2), Dense(a, 2, 3).Left(1), Dense(b, 1, 2))
		kerneltest.WantSame(t, "product of the left column", dst, []float64{1, -1, 4, -4})
	})
}

// TestAddEach: every row has a product with its own matrix, of its own numbers or of those
// that all rows share, and numbers between rows stay.
func TestAddEach(t *testing.T) {
	const k, n, down = 2, 3, 4
	b := []float64{1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6}
	start := []float64{100, 0, 0, 7, 0, 0, 0, 8}
	kerneltest.AtLevels(t, func(t *testing.T) {
		dst := slices.Clone(start)
		AddEach(dst, down, []float64{1, 10}, 0, b, k, n)
		kerneltest.WantSame(t, "shared", dst, []float64{141, 52, 63, 7, -41, -52, -63, 8})
		dst = slices.Clone(start)
		AddEach(dst, down, []float64{1, 10, 9, 0, 1}, 3, b, k, n)
		kerneltest.WantSame(t, "own", dst, []float64{141, 52, 63, 7, -4, -5, -6, 8})
	})
	for name, f := range map[string]func(){
		"part of a Matrix": func() { AddEach(make([]float64, 8), down, b, 0, b[1:], k, n) },
		"rows too close":   func() { AddEach(make([]float64, 8), 2, b, 0, b, k, n) },
		"few rows":         func() { AddEach(make([]float64, 4), down, b, 0, b, k, n) },
		"few numbers":      func() { AddEach(make([]float64, 8), down, make([]float64, 3), 2, b, k, n) },
	} {
		kerneltest.WantPanic(t, name, f)
	}
}

// TestProductIsFused: products are added without being rounded first.
func TestProductIsFused(t *testing.T) {
	const n = 21
	x, row := 1+0x1p-30, slices.Repeat([]float64{1 + 0x1p-30}, n)
	want := slices.Repeat([]float64{0x1p-60}, n)
	kerneltest.AtLevels(t, func(t *testing.T) {
		dst := slices.Repeat([]float64{-float64(x * x)}, n)
		Product(Dense(dst, 1, n), Dense([]float64{x}, 1, 1), Dense(row, 1, n))
		kerneltest.WantSame(t, "product", dst, want)
	})
}

// TestProductRefuses: shapes that do not fit each other or their memory panic, before a
// kernel accesses memory outside its slices.
func TestProductRefuses(t *testing.T) {
	x := make([]float64, 6)
	for name, f := range map[string]func(){
		"rows":       func() { Product(Dense(x, 3, 2), Dense(x, 2, 3), Dense(x, 3, 2)) },
		"columns":    func() { Product(Dense(x, 2, 3), Dense(x, 2, 3), Dense(x, 3, 2)) },
		"inner":      func() { Product(Dense(x, 2, 2), Dense(x, 2, 2), Dense(x, 3, 2)) },
		"memory":     func() { Product(Dense(x, 2, 2), Dense(x, 2, 4), Dense(x, 4, 2)) },
		"transposed": func() { Product(Dense(x, 2, 2), Dense(x, 2, 3), Dense(x, 2, 3).T()) },
	} {
		kerneltest.WantPanic(t, name, f)
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
		by, by2 := randoms(rng, lanes), randoms(rng, lanes)
		for i := range odd {
			x[i%n] = odd[rng.IntN(len(odd))]
		}
		kerneltest.SameAtLevels(t, "multiply", func() []float64 {
			dst := make([]float64, n-3) // not a whole number of registers
			Multiply(dst, x, y)
			return dst
		})
		kerneltest.SameAtLevels(t, "scaleByLane", func() []float64 {
			dst := slices.Clone(x)
			ScaleByLane(dst, by)
			return dst
		})
		kerneltest.SameAtLevels(t, "mirror", func() []float64 {
			dst := make([]float64, 2*n)
			Mirror(dst[:n], dst[n:], x, y, z)
			return dst
		})
		kerneltest.SameAtLevels(t, "gather", func() []float64 {
			dst := slices.Concat(y, z)
			Gather(dst[:n], dst[n:], e, f, by, by2, x)
			return dst
		})
		kerneltest.SameAtLevels(t, "exponentials", func() []float64 {
			a, s := slices.Clone(x), new(Sums)
			LaneExponentials(a, lanes, s)
			return slices.Concat(a, s.Most[:], s.Total[:], s.Inverse[:], s.dot[:])
		})
		kerneltest.SameAtLevels(t, "logarithms", func() []float64 {
			dst := make([]float64, n)
			for i := range dst {
				dst[i] = math.Abs(x[i])
			}
			Logarithms(dst)
			return dst
		})
		bits := make([]uint64, n)
		for i := range bits {
			bits[i] = rng.Uint64()
		}
		bits[0], bits[1] = 0, math.MaxUint64
		kerneltest.SameAtLevels(t, "boxMuller", func() []float64 {
			dst := make([]float64, 2*n)
			BoxMuller(dst[:n], dst[n:], bits)
			return dst
		})
	}
}

// TestExponentialsAreExp: the vector kernel has the bits of Exp over its whole range, and a
// NaN stays in its lane.
func TestExponentialsAreExp(t *testing.T) {
	kerneltest.AtLevels(t, func(t *testing.T) {
		var (
			s Sums
			a [2 * LaneWidth]float64 // of two rows of logits; the first, zeros, is the larger
		)
		for x := 0.0; x > -760; {
			clear(a[:LaneWidth])
			want := make([]float64, LaneWidth)
			for l := range want {
				x -= 0.0137
				a[LaneWidth+l], want[l] = x, Exp(x)
			}
			LaneExponentials(a[:], LaneWidth, &s)
			kerneltest.WantSame(t, "exp", a[LaneWidth:], want)
		}
		a = [2 * LaneWidth]float64{math.NaN()}
		LaneExponentials(a[:], LaneWidth, &s)
		if !math.IsNaN(s.Total[0]) || s.Total[1] != 2 {
			t.Errorf("totals %v of a lane with NaN and %v of zeros, want NaN and 2", s.Total[0], s.Total[1])
		}
	})
}

// TestLog: Log agrees with math.Log up to an ulp of each, numbers below the least normal
// one count as it, and Log(1) is exactly 0.
func TestLog(t *testing.T) {
	for x := 0x1p-1022; x < 0x1p1023; x *= 1.00731 {
		kerneltest.WantClose(t, "log", []float64{Log(x)}, []float64{math.Log(x)}, 0x1p-51)
	}
	for x := 0.5; x < 2; x += 0.00037 {
		if got, want := Log(x), math.Log(x); math.Abs(got-want) > 0x1p-51*math.Abs(want) {
			t.Errorf("Log(%v) = %v, want %v", x, got, want)
		}
	}
	for _, x := range []float64{0, -1, 5e-324, 0x1p-1022, math.NaN()} {
		kerneltest.WantClose(t, "log", []float64{Log(x)}, []float64{math.Log(0x1p-1022)}, 0x1p-51)
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
	BoxMuller(cos, sin, bits)
	const se = 1. / 512 // standard error of the mean of n normals
	for name, x := range map[string][]float64{"cosine": cos, "sine": sin} {
		mean, sd := stat.MeanStdDev(x, nil)
		kerneltest.WantClose(t, name+": mean", []float64{mean}, []float64{0}, 5*se)
		kerneltest.WantClose(t, name+": deviation", []float64{sd}, []float64{1}, 5*se)
		kerneltest.WantClose(t, name+": fourth moment", []float64{stat.MomentAbout(4, x, 0, nil)}, []float64{3}, 5*se*math.Sqrt(96)/3)
		sorted := slices.Sorted(slices.Values(x))
		var worst float64
		for i, v := range sorted {
			worst = max(worst, math.Abs(distuv.UnitNormal.CDF(v)-(float64(i)+0.5)/n))
		}
		if worst > 2.5*se { // Kolmogorov-Smirnov at a level of 1e-5
			t.Errorf("%s: Kolmogorov-Smirnov statistic %v, want at most %v", name, worst, 2.5*se)
		}
	}
	kerneltest.WantClose(t, "correlation", []float64{stat.Correlation(cos, sin, nil)}, []float64{0}, 5*se)
	square := func(x []float64) []float64 {
		y := make([]float64, n)
		Multiply(y, x, x)
		return y
	}
	kerneltest.WantClose(t, "correlation of squares", []float64{stat.Correlation(square(cos), square(sin), nil)}, []float64{0}, 5*se)

	for i, u := range bits[:1000] {
		radius := math.Sqrt(-2 * math.Log((float64(u>>32)+0.5)/(1<<32)))
		angle := (float64(u%(1<<31))/(1<<30) - 1) * math.Pi / 2
		sign := 1 - 2*float64(u>>31&1)
		kerneltest.WantClose(t, "pair", []float64{cos[i], sin[i]}, []float64{sign * radius * math.Cos(angle), radius * math.Sin(angle)}, 1e-10)
	}
}

// TestExp: Exp agrees with math.Exp up to an ulp of each, is 0 below its range and infinite
// above, and NaN for NaN.
func TestExp(t *testing.T) {
	worst := 0.0
	for x := -707.9; x < 708.9; x += 0.00917 {
		got, want := Exp(x), math.Exp(x)
		worst = max(worst, math.Abs(got-want)/want)
	}
	if worst > 0x1p-51 { // both are within 1 ulp of e^x
		t.Errorf("relative error %g, want at most %g", worst, 0x1p-51)
	}
	for _, c := range []struct{ x, want float64 }{
		{0, 1}, {math.Copysign(0, -1), 1}, {-709, 0}, {-1e300, 0}, {math.Inf(-1), 0}, {710, math.Inf(1)}, {math.Inf(1), math.Inf(1)}, {1e-300, 1},
	} {
		if got := Exp(c.x); got != c.want {
			t.Errorf("Exp(%v) = %v, want %v", c.x, got, c.want)
		}
	}
	if got := Exp(math.NaN()); !math.IsNaN(got) {
		t.Errorf("Exp(NaN) = %v, want NaN", got)
	}
}
