//go:build !amd64

package posterior

// Without assembly the definitions in plain Go are the kernels.

var kernels = chosen("", best())

func best() level { return plain }

func productKernel(dst, a, b matrix)                { productPlain(dst, a, b) }
func multiplyKernel(_, _, _ []float64) (done int)   { return 0 }
func addByLane(dst, src, by []float64)              { addByLanePlain(dst, src, by) }
func scaleByLane(dst, by []float64)                 { scaleByLanePlain(dst, by) }
func squareRoots(dst []float64)                     { squareRootsPlain(dst) }
func relu(dst []float64)                            { reluPlain(dst) }
func gate(dst, x, by, weight []float64)             { gatePlain(dst, x, by, weight) }
func mirror(plus, minus, mean, sd, noise []float64) { mirrorPlain(plus, minus, mean, sd, noise) }
func exponentials(a []float64, lanes int, s *sums)  { exponentialsPlain(a, lanes, s) }
func logarithms(dst, src []float64)                 { logarithmsPlain(dst, src) }
func boxMuller(cos, sin []float64, bits []uint64)   { boxMullerPlain(cos, sin, bits) }
func gather(dMean, dSD, plus, minus, invPlus, invMinus, noise []float64) {
	gatherPlain(dMean, dSD, plus, minus, invPlus, invMinus, noise)
}

func averages(d *drawn, mean, variance []float64, normals []float32, classes, lanes int) {
	averagesPlain(d, mean, variance, normals, classes, lanes)
}

func exponentialEachKernel([]float64) (done int) { return 0 }

func raiseKernel([]float64, []float32, float64) (done int) { return 0 }
func newton(step, m, m0, t, g, h []float64)                { newtonPlain(step, m, m0, t, g, h) }
func advance(m, from, step, m0, t []float64, sum *[laneWidth]float64) {
	advancePlain(m, from, step, m0, t, sum)
}

func addCentred(sum, dst, a, by, mean []float64) { addCentredPlain(sum, dst, a, by, mean) }

func rowExponentials(a, most, total []float64) { rowExponentialsPlain(a, most, total) }

func sparseProduct(dst *[laneWidth]float64, column []int32, value, m []float64, stride int) {
	sparseProductPlain(dst, column, value, m, stride)
}

func sparseTransposed(g, h []float64, column []int32, value []float64, r, w *[laneWidth]float64, stride int) {
	sparseTransposedPlain(g, h, column, value, r, w, stride)
}

func sparseSquares(t []float64, column []int32, value []float64, w *[laneWidth]float64, stride int) {
	sparseSquaresPlain(t, column, value, w, stride)
}
