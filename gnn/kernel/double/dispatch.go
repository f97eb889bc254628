package double

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/level"
)

func productKernel(dst, a, b Matrix) {
	if level.Active == level.Plain {
		productPlain(dst, a, b)
		return
	}
	for k := 0; k < a.cols; k += productTerms {
		terms, with := min(productTerms, a.cols-k), &b.data[k*b.down]
		for i := 0; i < dst.rows; i += 8 {
			rows := min(8, dst.rows-i)
			to, from := &dst.data[i*dst.down], &a.data[i*a.down+k*a.right]
			if level.Active == level.AVX512 {
				productAVX512(to, dst.down, from, a.down, a.right, with, b.down, rows, terms, dst.cols)
			} else {
				productAVX2(to, dst.down, from, a.down, a.right, with, b.down, rows, terms, dst.cols)
			}
		}
	}
}

// productTerms is how many terms of each sum are added before the next sum's turn, so
// that the rows of b that they use stay in the first-level cache.
const productTerms = 64

// multiplyKernel returns how many entries it has done, a multiple of LaneWidth; the
// caller does the rest.
func multiplyKernel(dst, x, y []float64) (done int) {
	if done = len(dst) &^ (LaneWidth - 1); done == 0 {
		return 0
	}
	switch level.Active {
	case level.AVX512:
		multiplyAVX512(&dst[0], &x[0], &y[0], done)
	case level.AVX2:
		multiplyAVX2(&dst[0], &x[0], &y[0], done)
	default:
		return 0
	}
	return done
}

// AddByLane adds src to dst, both classes × lanes, with lane l scaled by by[l].
func AddByLane(dst, src, by []float64) {
	lanes := len(by)
	src = src[:len(dst)]
	switch level.Active {
	case level.AVX512:
		addByLaneAVX512(&dst[0], &src[0], &by[0], len(dst)/lanes, lanes)
	case level.AVX2:
		addByLaneAVX2(&dst[0], &src[0], &by[0], len(dst)/lanes, lanes)
	default:
		addByLanePlain(dst, src, by)
	}
}

// ScaleByLane scales lane l of dst, classes × lanes, by by[l].
func ScaleByLane(dst, by []float64) {
	lanes := len(by)
	switch level.Active {
	case level.AVX512:
		scaleByLaneAVX512(&dst[0], &by[0], len(dst)/lanes, lanes)
	case level.AVX2:
		scaleByLaneAVX2(&dst[0], &by[0], len(dst)/lanes, lanes)
	default:
		scaleByLanePlain(dst, by)
	}
}

// SquareRoots replaces every number of dst by its square root.
func SquareRoots(dst []float64) {
	switch level.Active {
	case level.AVX512:
		squareRootsAVX512(&dst[0], len(dst))
	case level.AVX2:
		squareRootsAVX2(&dst[0], len(dst))
	default:
		squareRootsPlain(dst)
	}
}

// Relu sets numbers that are not positive to 0.
func Relu(dst []float64) {
	switch level.Active {
	case level.AVX512:
		reluAVX512(&dst[0], len(dst))
	case level.AVX2:
		reluAVX2(&dst[0], len(dst))
	default:
		reluPlain(dst)
	}
}

// Gate sets entry (k, l) of dst, units × lanes, to by[l]·weight[k] where x is positive, and to 0
// elsewhere: the gradient through a relu.
func Gate(dst, x, by, weight []float64) {
	units, lanes := len(weight), len(by)
	dst, x = dst[:units*lanes], x[:units*lanes]
	switch level.Active {
	case level.AVX512:
		gateAVX512(&dst[0], &x[0], &by[0], &weight[0], units, lanes)
	case level.AVX2:
		gateAVX2(&dst[0], &x[0], &by[0], &weight[0], units, lanes)
	default:
		gatePlain(dst, x, by, weight)
	}
}

// Mirror sets plus to mean + noise·sd and minus to mean - noise·sd.
func Mirror(plus, minus, mean, sd, noise []float64) {
	n := len(mean)
	plus, minus, sd, noise = plus[:n], minus[:n], sd[:n], noise[:n]
	switch level.Active {
	case level.AVX512:
		mirrorAVX512(&plus[0], &minus[0], &mean[0], &sd[0], &noise[0], n)
	case level.AVX2:
		mirrorAVX2(&plus[0], &minus[0], &mean[0], &sd[0], &noise[0], n)
	default:
		mirrorPlain(plus, minus, mean, sd, noise)
	}
}

// LaneExponentials replaces a, classes × lanes, by e^(a-most), and sets s.
func LaneExponentials(a []float64, lanes int, s *Sums) {
	classes := len(a) / lanes
	switch level.Active {
	case level.AVX512:
		exponentialsAVX512(&a[0], &s.Most[0], &s.Total[0], &s.Inverse[0], &s.dot[0], classes, lanes)
	case level.AVX2:
		exponentialsAVX2(&a[0], &s.Most[0], &s.Total[0], &s.Inverse[0], &s.dot[0], classes, lanes)
	default:
		exponentialsPlain(a, lanes, s)
	}
}

func averages(d *Drawn, mean, variance []float64, normals []float32, classes, lanes int) {
	samples := len(normals) / classes
	mean, variance = mean[:classes*lanes], variance[:classes*lanes]
	average, total, dot := d.Average[:classes*lanes], d.Total[:samples*lanes], d.Dot[:lanes]
	if level.Active == level.Plain {
		averagesPlain(d, mean, variance, normals, classes, lanes)
		return
	}
	d.scratch = kernel.Resize(d.scratch, (4*classes+2)*16)
	for l := 0; l < lanes; {
		do, width := averagesAVX2, 8
		if level.Active == level.AVX512 && l+16 <= lanes {
			do, width = averagesAVX512, 16
		}
		do(&average[l], &total[l], &dot[l], &mean[l], &variance[l], &normals[0], &d.scratch[0], samples, classes, lanes)
		l += width
	}
}

// Gather adds a sample and its mirror image to the gradients: with p₊ and p₋ their probabilities,
// the exponentials plus and minus times the inverse sums, it adds p₊ + p₋ to dMean and
// (p₊ - p₋)·noise to dSD.
func Gather(dMean, dSD, plus, minus, invPlus, invMinus, noise []float64) {
	n, lanes := len(dMean), len(invPlus)
	dSD, plus, minus, invMinus, noise = dSD[:n], plus[:n], minus[:n], invMinus[:lanes], noise[:n]
	switch level.Active {
	case level.AVX512:
		gatherAVX512(&dMean[0], &dSD[0], &plus[0], &minus[0], &invPlus[0], &invMinus[0], &noise[0], n/lanes, lanes)
	case level.AVX2:
		gatherAVX2(&dMean[0], &dSD[0], &plus[0], &minus[0], &invPlus[0], &invMinus[0], &noise[0], n/lanes, lanes)
	default:
		gatherPlain(dMean, dSD, plus, minus, invPlus, invMinus, noise)
	}
}

func logarithms(dst, src []float64) {
	n := len(src)
	dst = dst[:n]
	switch level.Active {
	case level.AVX512:
		logarithmsAVX512(&dst[0], &src[0], n)
	case level.AVX2:
		logarithmsAVX2(&dst[0], &src[0], n)
	default:
		logarithmsPlain(dst, src)
	}
}

// BoxMuller turns every 64 random bits into two standard normals (Box & Muller 1958).
func BoxMuller(cos, sin []float64, bits []uint64) {
	n := len(bits)
	cos, sin = cos[:n], sin[:n]
	switch level.Active {
	case level.AVX512:
		boxMullerAVX512(&cos[0], &sin[0], &bits[0], n)
	case level.AVX2:
		boxMullerAVX2(&cos[0], &sin[0], &bits[0], n)
	default:
		boxMullerPlain(cos, sin, bits)
	}
}

// exponentialEachKernel returns how many entries it has done, a multiple of
// LaneWidth; the caller does the rest.
func exponentialEachKernel(a []float64) (done int) {
	if done = len(a) &^ (LaneWidth - 1); done == 0 {
		return 0
	}
	switch level.Active {
	case level.AVX512:
		exponentialEachAVX512(&a[0], done)
	case level.AVX2:
		exponentialEachAVX2(&a[0], done)
	default:
		return 0
	}
	return done
}

// raiseKernel returns how many entries it has done, as exponentialEachKernel does.
func raiseKernel(dst []float64, src []float32, least float64) (done int) {
	if done = len(dst) &^ (LaneWidth - 1); done == 0 {
		return 0
	}
	switch level.Active {
	case level.AVX512:
		raiseAVX512(&dst[0], &src[0], least, done)
	case level.AVX2:
		raiseAVX2(&dst[0], &src[0], least, done)
	default:
		return 0
	}
	return done
}

func advance(m, from, step, m0, t []float64, sum *[LaneWidth]float64) {
	switch level.Active {
	case level.AVX512:
		strideAVX512(&m[0], &from[0], &step[0], &m0[0], &t[0], &sum[0], len(m))
	case level.AVX2:
		strideAVX2(&m[0], &from[0], &step[0], &m0[0], &t[0], &sum[0], len(m))
	default:
		advancePlain(m, from, step, m0, t, sum)
	}
}

func sparseProduct(dst *[LaneWidth]float64, column []int32, value, m []float64, stride int) {
	switch level.Active {
	case level.AVX512:
		sparseProductAVX512(&dst[0], &column[0], &value[0], len(column), &m[0], stride)
	case level.AVX2:
		sparseProductAVX2(&dst[0], &column[0], &value[0], len(column), &m[0], stride)
	default:
		sparseProductPlain(dst, column, value, m, stride)
	}
}

func sparseTransposed(g, h []float64, column []int32, value []float64, r, w *[LaneWidth]float64, stride int) {
	switch level.Active {
	case level.AVX512:
		sparseTransposedAVX512(&g[0], &h[0], &column[0], &value[0], &r[0], &w[0], len(column), stride)
	case level.AVX2:
		sparseTransposedAVX2(&g[0], &h[0], &column[0], &value[0], &r[0], &w[0], len(column), stride)
	default:
		sparseTransposedPlain(g, h, column, value, r, w, stride)
	}
}

func sparseSquares(t []float64, column []int32, value []float64, w *[LaneWidth]float64, stride int) {
	switch level.Active {
	case level.AVX512:
		sparseSquaresAVX512(&t[0], &column[0], &value[0], &w[0], len(column), stride)
	case level.AVX2:
		sparseSquaresAVX2(&t[0], &column[0], &value[0], &w[0], len(column), stride)
	default:
		sparseSquaresPlain(t, column, value, w, stride)
	}
}
