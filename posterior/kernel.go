package posterior

import "math"

// The inner loops. Lanes run across outputs; the sum of each output goes over
// rows or embedding dimensions in ascending order.

// exp is e^x by the rational approximation of FreeBSD's e_exp.c, error below
// 1 ulp, in plain multiplications, additions and one division: the same bits
// everywhere. Below -708 it is 0, above 709 infinite, and NaN stays NaN.
func exp(x float64) float64 {
	const (
		ln2Hi = 6.93147180369123816490e-01
		ln2Lo = 1.90821492927058770002e-10
		p1    = 1.66666666666666657415e-01
		p2    = -2.77777777770155933842e-03
		p3    = 6.61375632143793436117e-05
		p4    = -1.65339022054652515390e-06
		p5    = 4.13813679705723846039e-08
		// Adding and taking away 1.5·2⁵² rounds to the nearest integer, which
		// meanwhile stands in the low bits.
		round = 0x1.8p52
	)
	switch {
	case x < -708:
		return 0
	case x > 709:
		return math.Inf(1)
	}
	shifted := float64(x*math.Log2E) + round
	k := shifted - round
	hi := x - float64(k*ln2Hi)
	lo := float64(k * ln2Lo)
	r := hi - lo
	t := float64(r * r)
	c := r - float64(t*(p1+float64(t*(p2+float64(t*(p3+float64(t*(p4+float64(t*p5)))))))))
	y := 1 - ((lo - float64(r*c)/(2-c)) - hi)
	return y * math.Float64frombits((math.Float64bits(shifted)+1023)<<52)
}

// softmax replaces the logits a by their softmax.
func softmax(a []float64) {
	most := a[0]
	for _, x := range a[1:] {
		if x > most {
			most = x
		}
	}
	var sum float64
	for c, x := range a {
		e := exp(x - most)
		a[c] = e
		sum += e
	}
	inv := 1 / sum
	for c := range a {
		a[c] *= inv
	}
}

// addScaled adds s·w to dst.
func addScaled(dst []float64, s float64, w []float64) {
	w = w[:len(dst)]
	for c := range dst {
		dst[c] += float64(s * w[c])
	}
}

// logits writes zᵀW / τ to dst, one entry per class.
func logits(dst []float64, z []float32, tau float64, w []float64) {
	clear(dst)
	for j, x := range z {
		addScaled(dst, float64(x), w[j*len(dst):])
	}
	inv := 1 / tau
	for c := range dst {
		dst[c] *= inv
	}
}

// logitVariances writes (z²)ᵀΣ / τ² to dst, one entry per class.
func logitVariances(dst []float64, z []float32, tau float64, variance []float64) {
	clear(dst)
	for j, x := range z {
		addScaled(dst, float64(x)*float64(x), variance[j*len(dst):])
	}
	inv := 1 / float64(tau*tau)
	for c := range dst {
		dst[c] *= inv
	}
}
