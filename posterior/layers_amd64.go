package posterior

// exponentialEachKernel returns how many entries it has done, a multiple of
// laneWidth; the caller does the rest.
func exponentialEachKernel(a []float64) (done int) {
	if done = len(a) &^ (laneWidth - 1); done == 0 {
		return 0
	}
	switch kernels {
	case avx512:
		exponentialEachAVX512(&a[0], done)
	case avx2:
		exponentialEachAVX2(&a[0], done)
	default:
		return 0
	}
	return done
}

// raiseKernel returns how many entries it has done, as exponentialEachKernel does.
func raiseKernel(dst []float64, src []float32, least float64) (done int) {
	if done = len(dst) &^ (laneWidth - 1); done == 0 {
		return 0
	}
	switch kernels {
	case avx512:
		raiseAVX512(&dst[0], &src[0], least, done)
	case avx2:
		raiseAVX2(&dst[0], &src[0], least, done)
	default:
		return 0
	}
	return done
}

func newton(step, m, m0, t, g, h []float64) {
	switch n := len(step); {
	case n == 0:
	case kernels == avx512:
		newtonAVX512(&step[0], &m[0], &m0[0], &t[0], &g[0], &h[0], n)
	case kernels == avx2:
		newtonAVX2(&step[0], &m[0], &m0[0], &t[0], &g[0], &h[0], n)
	default:
		newtonPlain(step, m, m0, t, g, h)
	}
}

func advance(m, from, step, m0, t []float64, sum *[laneWidth]float64) {
	switch kernels {
	case avx512:
		strideAVX512(&m[0], &from[0], &step[0], &m0[0], &t[0], &sum[0], len(m))
	case avx2:
		strideAVX2(&m[0], &from[0], &step[0], &m0[0], &t[0], &sum[0], len(m))
	default:
		advancePlain(m, from, step, m0, t, sum)
	}
}

func addCentred(sum, dst, a, by, mean []float64) {
	switch kernels {
	case avx512:
		addCentredAVX512(&sum[0], &dst[0], &a[0], &by[0], &mean[0], len(by), len(mean))
	case avx2:
		addCentredAVX2(&sum[0], &dst[0], &a[0], &by[0], &mean[0], len(by), len(mean))
	default:
		addCentredPlain(sum, dst, a, by, mean)
	}
}

func rowExponentials(a, most, total []float64) {
	n := len(a) / len(most)
	switch kernels {
	case avx512:
		rowExponentialsAVX512(&a[0], &most[0], &total[0], len(most), n)
	case avx2:
		rowExponentialsAVX2(&a[0], &most[0], &total[0], len(most), n)
	default:
		rowExponentialsPlain(a, most, total)
	}
}

func sparseProduct(dst *[laneWidth]float64, column []int32, value, m []float64, stride int) {
	switch kernels {
	case avx512:
		sparseProductAVX512(&dst[0], &column[0], &value[0], len(column), &m[0], stride)
	case avx2:
		sparseProductAVX2(&dst[0], &column[0], &value[0], len(column), &m[0], stride)
	default:
		sparseProductPlain(dst, column, value, m, stride)
	}
}

func sparseTransposed(g, h []float64, column []int32, value []float64, r, w *[laneWidth]float64, stride int) {
	switch kernels {
	case avx512:
		sparseTransposedAVX512(&g[0], &h[0], &column[0], &value[0], &r[0], &w[0], len(column), stride)
	case avx2:
		sparseTransposedAVX2(&g[0], &h[0], &column[0], &value[0], &r[0], &w[0], len(column), stride)
	default:
		sparseTransposedPlain(g, h, column, value, r, w, stride)
	}
}

func sparseSquares(t []float64, column []int32, value []float64, w *[laneWidth]float64, stride int) {
	switch kernels {
	case avx512:
		sparseSquaresAVX512(&t[0], &column[0], &value[0], &w[0], len(column), stride)
	case avx2:
		sparseSquaresAVX2(&t[0], &column[0], &value[0], &w[0], len(column), stride)
	default:
		sparseSquaresPlain(t, column, value, w, stride)
	}
}
