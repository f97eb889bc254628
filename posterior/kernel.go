package posterior

import (
	"fmt"
	"math"
)

//go:generate go run -modfile=../.ci/tools.mod gen/kernel.go gen/averages.go gen/sparse.go -out kernel_amd64.s -stubs kernel_stubs_amd64.go

// The inner loops. Each is here in plain Go, which is its definition, and in
// assembly for AVX2 and AVX-512 (gen/kernel.go), which gives the same bits:
// lanes run across outputs; the sum of each output goes over classes, rows or
// embedding dimensions in ascending order. In product and in exp a multiplication
// and the addition after it are one operation with one rounding, on every path;
// elsewhere products are rounded before they are added.

// level is a set of instructions that the kernels are written in.
type level uint8

const (
	plain level = iota
	avx2
	avx512
)

// chosen returns the level that the environment variable GVBLL_KERNEL asks for,
// avx512, avx2 or go, and best where it asks for none or for more than there is.
func chosen(wish string, best level) level {
	switch wish {
	case "go":
		return plain
	case "avx2":
		return min(avx2, best)
	}
	return best
}

// laneWidth is the most float64s that a register holds.
const laneWidth = 8

// matrix is a view of rows × cols numbers: entry (i, k) is at i·down + k·right
// of data.
type matrix struct {
	data        []float64
	rows, cols  int
	down, right int
}

// dense is a row-major matrix.
func dense(data []float64, rows, cols int) matrix {
	return matrix{data: data, rows: rows, cols: cols, down: cols, right: 1}
}

// t is the transpose.
func (m matrix) t() matrix {
	m.rows, m.cols, m.down, m.right = m.cols, m.rows, m.right, m.down
	return m
}

// left is the first columns.
func (m matrix) left(cols int) matrix {
	m.cols = cols
	return m
}

// fits reports whether all entries are within the data.
func (m matrix) fits() bool {
	return m.rows == 0 || m.cols == 0 || (m.rows-1)*m.down+(m.cols-1)*m.right < len(m.data)
}

// product adds a·b to dst, by fused multiplications and additions. Rows of dst and
// b are contiguous.
func product(dst, a, b matrix) {
	if dst.rows != a.rows || dst.cols != b.cols || a.cols != b.rows || dst.right != 1 || b.right != 1 || !dst.fits() || !a.fits() || !b.fits() {
		panic(fmt.Sprintf("posterior: %d × %d times %d × %d into %d × %d", a.rows, a.cols, b.rows, b.cols, dst.rows, dst.cols))
	}
	if dst.rows > 0 && dst.cols > 0 && a.cols > 0 {
		productKernel(dst, a, b)
	}
}

func productPlain(dst, a, b matrix) {
	n := dst.cols
	for i := range dst.rows {
		row, k := dst.data[i*dst.down:][:n], 0
		at := func(k int) (x float64, w []float64) { return a.data[i*a.down+k*a.right], b.data[k*b.down:][:n] }
		// Four steps at once load and store an entry once, and add in order.
		for ; k+4 <= a.cols; k += 4 {
			x0, w0 := at(k)
			x1, w1 := at(k + 1)
			x2, w2 := at(k + 2)
			x3, w3 := at(k + 3)
			for c, sum := range row {
				row[c] = math.FMA(x3, w3[c], math.FMA(x2, w2[c], math.FMA(x1, w1[c], math.FMA(x0, w0[c], sum))))
			}
		}
		for ; k < a.cols; k++ {
			x, w := at(k)
			for c, sum := range row {
				row[c] = math.FMA(x, w[c], sum)
			}
		}
	}
}

// addScaled adds s·w to dst.
func addScaled(dst []float64, s float64, w []float64) {
	w = w[:len(dst)]
	for c := range dst {
		dst[c] += float64(s * w[c])
	}
}

// multiply sets dst to x·y, entry by entry.
func multiply(dst, x, y []float64) {
	x, y = x[:len(dst)], y[:len(dst)]
	done := multiplyKernel(dst, x, y)
	for i := done; i < len(dst); i++ {
		dst[i] = float64(x[i] * y[i])
	}
}

// The other kernels work on blocks of rows in which a row is a lane: in a
// C × lanes matrix the numbers of one class are side by side. Their lanes are a
// multiple of laneWidth.

// addByLane adds by·src to dst, both classes × lanes; by has a factor for every
// lane.
func addByLanePlain(dst, src, by []float64) {
	for lanes := len(by); len(dst) > 0; dst, src = dst[lanes:], src[lanes:] {
		for l, s := range by {
			dst[l] += float64(s * src[l])
		}
	}
}

// scaleByLane gives every lane of dst, classes × lanes, a factor of its own.
func scaleByLanePlain(dst, by []float64) {
	for lanes := len(by); len(dst) > 0; dst = dst[lanes:] {
		for l, s := range by {
			dst[l] *= s
		}
	}
}

func squareRootsPlain(dst []float64) {
	for i, x := range dst {
		dst[i] = math.Sqrt(x)
	}
}

// relu sets to 0 what is not positive.
func reluPlain(dst []float64) {
	for i, x := range dst {
		if !(x > 0) {
			dst[i] = 0
		}
	}
}

// gate sets dst, units × lanes, to by·weight where x is positive and to 0
// elsewhere; by has a factor for every lane, weight one for every unit.
func gatePlain(dst, x, by, weight []float64) {
	lanes := len(by)
	for k, w := range weight {
		for l, s := range by {
			dst[k*lanes+l] = 0
			if x[k*lanes+l] > 0 {
				dst[k*lanes+l] = s * w
			}
		}
	}
}

// mirror sets plus to mean + noise·sd and minus to mean - noise·sd.
func mirrorPlain(plus, minus, mean, sd, noise []float64) {
	for l, m := range mean {
		x := float64(sd[l] * noise[l])
		plus[l], minus[l] = m+x, m-x
	}
}

// sums is what exponentials finds in every lane.
type sums struct {
	most    [blockRows]float64 // max a
	total   [blockRows]float64 // Σ e^(a-most)
	inverse [blockRows]float64 // 1/total
	dot     [blockRows]float64 // Σ e^(a-most)·(a-most)
}

// exponentials replaces a, classes × lanes, by e^(a-most).
func exponentialsPlain(a []float64, lanes int, s *sums) {
	most, total, dot := s.most[:lanes], s.total[:lanes], s.dot[:lanes]
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
			e := exp(x)
			a[l] = e
			total[l] += e
			dot[l] += float64(e * x)
		}
	}
	for l, x := range total {
		s.inverse[l] = 1 / x
	}
}

// gather adds what a sample and its mirror image say to the sums of
// probabilities: with p their exponentials times inv, p₊ + p₋ to dMean and
// (p₊ - p₋)·noise to dSD.
func gatherPlain(dMean, dSD, plus, minus, invPlus, invMinus, noise []float64) {
	for lanes := len(invPlus); len(dMean) > 0; {
		for l, inv := range invPlus {
			p, m := float64(plus[l]*inv), float64(minus[l]*invMinus[l])
			dMean[l] += p + m
			dSD[l] += float64((p - m) * noise[l])
		}
		dMean, dSD, plus, minus, noise = dMean[lanes:], dSD[lanes:], plus[lanes:], minus[lanes:], noise[lanes:]
	}
}

// logarithms sets dst to the logarithms of src.
func logarithmsPlain(dst, src []float64) {
	for i, x := range src {
		dst[i] = log(x)
	}
}

// boxMuller turns every 64 random bits into two standard normals (Box & Muller
// 1958): the upper half is the radius, so that none is beyond 6.8; of the lower
// half 31 bits are an angle in [-π/2, π/2) and one is the sign of the cosine.
// Sine and cosine are Taylor sums, true to 1e-11.
func boxMullerPlain(cos, sin []float64, bits []uint64) {
	const s3, s5, s7, s9, s11, s13, s15 = -1. / 6, 1. / 120, -1. / 5040, 1. / 362880, -1. / 39916800, 1. / 6227020800, -1. / 1307674368000
	const c2, c4, c6, c8, c10, c12, c14, c16 = -1. / 2, 1. / 24, -1. / 720, 1. / 40320, -1. / 3628800, 1. / 479001600, -1. / 87178291200, 1. / 20922789888000
	for i, u := range bits {
		radius := math.Sqrt(-2 * log((float64(u>>32)+0.5)*0x1p-32))
		angle := (float64(u&(1<<31-1)) - 0x1p30) * (math.Pi * 0x1p-31)
		t := angle * angle
		y := 1 + float64(t*(s3+float64(t*(s5+float64(t*(s7+float64(t*(s9+float64(t*(s11+float64(t*(s13+float64(t*s15)))))))))))))
		x := 1 + float64(t*(c2+float64(t*(c4+float64(t*(c6+float64(t*(c8+float64(t*(c10+float64(t*(c12+float64(t*(c14+float64(t*c16)))))))))))))))
		sign := u << 32 & (1 << 63)
		cos[i] = math.Float64frombits(math.Float64bits(x*radius) ^ sign)
		sin[i] = y * angle * radius
	}
}
