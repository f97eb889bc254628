package double

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel/level"
)

//go:generate go run -modfile=../../../.ci/tools.mod ../gen/main.go ../gen/single.go ../gen/double.go ../gen/averages.go ../gen/sparse.go -double -out kernel_amd64.s -stubs stubs_amd64.go -choice choice_amd64.go -other stubs_other.go -pkg double

// What follows the assembly in a loop is its plain form, which defines what the assembly
// computes: the lanes of a register are different outputs, and the sum of each output goes over
// classes, rows or embedding dimensions in ascending order. In products of matrices and in Exp a
// multiplication and the addition after it are fused, on every path; elsewhere products are
// rounded before they are added.

// LaneWidth is the number of float64s in the widest register.
const LaneWidth = 8

// registers returns how many of n numbers assembly computes: those that fill registers.
func registers(n int) int {
	if level.Active == level.Plain {
		return 0
	}
	return n &^ (LaneWidth - 1)
}

// AddScaled adds s·w to dst.
func AddScaled(dst []float64, s float64, w []float64) {
	w = w[:len(dst)]
	for c := range dst {
		dst[c] += float64(s * w[c])
	}
}

// Multiply sets dst to x∘y, the product entry by entry.
func Multiply(dst, x, y []float64) {
	x, y = x[:len(dst)], y[:len(dst)]
	for i := range dst {
		dst[i] = float64(x[i] * y[i])
	}
}

// The other loops work on blocks in which every row is a lane: a C × lanes matrix has
// the numbers of one class side by side. lanes is a multiple of LaneWidth.

// ScaleByLane scales lane l of dst, classes × lanes, by by[l].
func ScaleByLane(dst, by []float64) {
	lanes := len(by)
	if level.Active != level.Plain {
		scaleByLane(&dst[0], &by[0], len(dst)/lanes, lanes)
		return
	}
	for ; len(dst) > 0; dst = dst[lanes:] {
		for l, s := range by {
			dst[l] *= s
		}
	}
}

// Mirror sets plus to mean + noise·sd and minus to mean - noise·sd.
func Mirror(plus, minus, mean, sd, noise []float64) {
	n := len(mean)
	plus, minus, sd, noise = plus[:n], minus[:n], sd[:n], noise[:n]
	if level.Active != level.Plain {
		mirror(&plus[0], &minus[0], &mean[0], &sd[0], &noise[0], n)
		return
	}
	for l, m := range mean {
		x := float64(sd[l] * noise[l])
		plus[l], minus[l] = m+x, m-x
	}
}

// BlockRows is the most rows that go through the loops together, one in each lane:
// enough for long inner loops, and few enough that a block stays in the cache.
const BlockRows = 64

// Sums is what LaneExponentials computes for every lane.
type Sums struct {
	Most    [BlockRows]float64 // max a
	Total   [BlockRows]float64 // Σ e^(a-most)
	Inverse [BlockRows]float64 // 1/total
	dot     [BlockRows]float64 // Σ e^(a-most)·(a-most)
}

// LaneExponentials replaces a, classes × lanes, by e^(a-most), and sets s.
func LaneExponentials(a []float64, lanes int, s *Sums) {
	if level.Active != level.Plain {
		exponentials(&a[0], &s.Most[0], &s.Total[0], &s.Inverse[0], &s.dot[0], len(a)/lanes, lanes)
		return
	}
	most, total, dot := s.Most[:lanes], s.Total[:lanes], s.dot[:lanes]
	for l := range lanes {
		most[l], total[l], dot[l] = math.Inf(-1), 0, 0
	}
	for i := 0; i < len(a); i += lanes {
		for l, x := range a[i : i+lanes] {
			if x > most[l] {
				most[l] = x
			}
		}
	}
	for ; len(a) > 0; a = a[lanes:] {
		for l, x := range a[:lanes] {
			x -= most[l]
			e := Exp(x)
			a[l] = e
			total[l] += e
			dot[l] += float64(e * x)
		}
	}
	for l, x := range total {
		s.Inverse[l] = 1 / x
	}
}

// Gather adds a sample and its mirror image to the gradients: with p₊ and p₋ their probabilities,
// the exponentials plus and minus times the inverse sums, it adds p₊ + p₋ to dMean and
// (p₊ - p₋)·noise to dSD.
func Gather(dMean, dSD, plus, minus, invPlus, invMinus, noise []float64) {
	n, lanes := len(dMean), len(invPlus)
	dSD, plus, minus, invMinus, noise = dSD[:n], plus[:n], minus[:n], invMinus[:lanes], noise[:n]
	if level.Active != level.Plain {
		gather(&dMean[0], &dSD[0], &plus[0], &minus[0], &invPlus[0], &invMinus[0], &noise[0], n/lanes, lanes)
		return
	}
	for len(dMean) > 0 {
		for l, inv := range invPlus {
			p, m := float64(plus[l]*inv), float64(minus[l]*invMinus[l])
			dMean[l] += p + m
			dSD[l] += float64((p - m) * noise[l])
		}
		dMean, dSD, plus, minus, noise = dMean[lanes:], dSD[lanes:], plus[lanes:], minus[lanes:], noise[lanes:]
	}
}

// BoxMuller turns every 64 random bits into two standard normals (Box & Muller 1958). The upper 32 bits are the radius,
// so that no normal is beyond 6.8; of the lower
// 32, 31 bits are an angle in [-π/2, π/2) and one is the sign of the cosine. Sine and
// cosine are Taylor polynomials with an error below 1e-11.
func BoxMuller(cos, sin []float64, bits []uint64) {
	cos, sin = cos[:len(bits)], sin[:len(bits)]
	if level.Active != level.Plain {
		boxMuller(&cos[0], &sin[0], &bits[0], len(bits))
		return
	}
	const s3, s5, s7, s9, s11, s13, s15 = -1. / 6, 1. / 120, -1. / 5040, 1. / 362880, -1. / 39916800, 1. / 6227020800, -1. / 1307674368000
	const c2, c4, c6, c8, c10, c12, c14, c16 = -1. / 2, 1. / 24, -1. / 720, 1. / 40320, -1. / 3628800, 1. / 479001600,
		-1. / 87178291200, 1. / 20922789888000
	for i, u := range bits {
		radius := math.Sqrt(-2 * Log((float64(u>>32)+0.5)*0x1p-32))
		angle := (float64(u&(1<<31-1)) - 0x1p30) * (math.Pi * 0x1p-31)
		t := angle * angle
		y := 1 + float64(t*(s3+float64(t*(s5+float64(t*(s7+float64(t*(s9+float64(t*(s11+float64(t*(s13+float64(t*s15)))))))))))))
		x := 1 + float64(t*(c2+float64(t*(c4+float64(t*(c6+float64(t*(c8+float64(t*(c10+float64(t*(c12+float64(t*(c14+float64(t*c16)))))))))))))))
		sign := u << 32 & (1 << 63)
		cos[i] = math.Float64frombits(math.Float64bits(x*radius) ^ sign)
		sin[i] = y * angle * radius
	}
}
