package posterior

import "math"

// exp is e^x = 2^k e^r, with r within ln 2 / 2 and e^r by its Taylor sum, of which
// what is left out is below 2^-57 of it: error below 1 ulp, in fused operations, the
// same bits everywhere. Below -708 it is 0, above 709 infinite, and NaN stays NaN.
func exp(x float64) float64 {
	// Adding and taking away 1.5·2⁵² rounds to the nearest integer, which meanwhile
	// stands in the low bits.
	const round = 0x1.8p52
	switch {
	case x < -708:
		return 0
	case x > 709:
		return math.Inf(1)
	}
	shifted := math.FMA(x, math.Log2E, round)
	k := shifted - round
	r := math.FMA(-k, ln2Lo, math.FMA(-k, ln2Hi, x))
	y := math.FMA(1./6227020800, r, 1./479001600)
	y = math.FMA(y, r, 1./39916800)
	y = math.FMA(y, r, 1./3628800)
	y = math.FMA(y, r, 1./362880)
	y = math.FMA(y, r, 1./40320)
	y = math.FMA(y, r, 1./5040)
	y = math.FMA(y, r, 1./720)
	y = math.FMA(y, r, 1./120)
	y = math.FMA(y, r, 1./24)
	y = math.FMA(y, r, 1./6)
	y = math.FMA(y, r, 1./2)
	y = math.FMA(y, r, 1)
	y = math.FMA(y, r, 1)
	return y * math.Float64frombits((math.Float64bits(shifted)+1023)<<52)
}

// ln 2 in two parts, of which the first times an exponent is exact.
const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// log is the natural logarithm of a positive number by FreeBSD's e_log.c, error
// below 1 ulp, in plain operations: the same bits everywhere. Below the least
// normal number, 0 included, it is that number's, and NaN counts as 0.
func log(x float64) float64 {
	const (
		l1 = 6.666666666666735130e-01
		l2 = 3.999999999940941908e-01
		l3 = 2.857142874366239149e-01
		l4 = 2.222219843214978396e-01
		l5 = 1.818357216161805012e-01
		l6 = 1.531383769920937332e-01
		l7 = 1.479819860511658591e-01
		// The upper half of √½: the mantissa is taken to lie between √½ and √2.
		halfRoot, one = 0x3fe6a09e << 32, 0x3ff << 52
	)
	if !(x > 0x1p-1022) {
		x = 0x1p-1022
	}
	bits := math.Float64bits(x) + (one - halfRoot)
	k := float64(bits>>52) - 1023
	f := math.Float64frombits(bits&(1<<52-1)+halfRoot) - 1
	half := float64(0.5 * f * f)
	s := f / (2 + f)
	z := s * s
	w := float64(z * z)
	even := float64(w * (l2 + float64(w*(l4+float64(w*l6)))))
	odd := float64(z * (l1 + float64(w*(l3+float64(w*(l5+float64(w*l7)))))))
	return float64(k*ln2Hi) - ((half - (float64(s*(half+(even+odd))) + float64(k*ln2Lo))) - f)
}
