// Package elementary has the elementary functions that encoders and generated
// graphs are made with, accurate to about one unit in the last place and with
// the same bits on every machine.
//
// The functions of package math are not used for that: their assembly forms
// fuse multiplications and additions where the processor can, and the compiler
// does so on some architectures. Here each product is rounded before it is
// added: the conversions float64(x*y) forbid fusing (Go specification,
// "Floating-point operators").
//
// Package double has another exp and log: they have vector forms, that exp is
// fused everywhere, and their bits differ from these.
package elementary

import "math"

// ln 2 in two parts. The first has 32 significant bits, so its product with an
// exponent, of at most 11 bits, is exact (FreeBSD, e_exp.c and e_log.c).
const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// Exp is e^x, error below 1 ulp. It is 0 for x < -708 and +Inf for x > 709, so
// results are never subnormal; NaN stays NaN.
//
// With k the integer nearest to x/ln 2 and r = x - k·ln 2, |r| ≤ ln 2 / 2, it
// is 2^k e^r, where e^r comes from the rational approximation of FreeBSD's
// e_exp.c: e^r = 1 + r + r·c/(2-c), c = r - r²·P(r²).
func Exp(x float64) float64 {
	const (
		p1 = 1.66666666666666657415e-01
		p2 = -2.77777777770155933842e-03
		p3 = 6.61375632143793436117e-05
		p4 = -1.65339022054652515390e-06
		p5 = 4.13813679705723846039e-08
		// Adding 1.5·2⁵² rounds to the nearest integer, which then is in the
		// low bits of the sum.
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
	// 2^k has the biased exponent k+1023; the shift drops the other bits.
	return y * math.Float64frombits((math.Float64bits(shifted)+1023)<<52)
}

// Log is the natural logarithm of a positive, finite, normal number, error
// below 1 ulp (FreeBSD, e_log.c).
//
// With x = 2^k (1+f), √½ ≤ 1+f < √2, and s = f/(2+f), it is
// k·ln 2 + log(1+f), where log(1+f) = f - f²/2 + s·(f²/2 + R(s²)).
func Log(x float64) float64 {
	const (
		l1 = 6.666666666666735130e-01
		l2 = 3.999999999940941908e-01
		l3 = 2.857142874366239149e-01
		l4 = 2.222219843214978396e-01
		l5 = 1.818357216161805012e-01
		l6 = 1.531383769920937332e-01
		l7 = 1.479819860511658591e-01
	)
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	f, k := m-1, float64(e)
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	odd := float64(s2 * (l1 + float64(s4*(l3+float64(s4*(l5+float64(s4*l7)))))))
	even := float64(s4 * (l2 + float64(s4*(l4+float64(s4*l6)))))
	half := float64(0.5 * f * f)
	return float64(k*ln2Hi) - ((half - (float64(s*(half+(odd+even))) + float64(k*ln2Lo))) - f)
}

// SinCos is the sine and cosine of an angle in radians, |x| < 2²⁰, error below
// 1e-15 (Cephes, sin.c: the angle is reduced to z in [-π/4, π/4], where both are
// polynomials in z²).
func SinCos(x float64) (sin, cos float64) {
	// π/2 in three parts. The products of the first two with an integer below
	// 2²⁰ are exact.
	const (
		a = 2 * 7.85398125648498535156e-1
		b = 2 * 3.77489470793079817668e-8
		c = 2 * 2.69515142907905952645e-15
	)
	k := math.RoundToEven(x * (2 / math.Pi))
	z := ((x - float64(k*a)) - float64(k*b)) - float64(k*c)
	zz := float64(z * z)
	s, t := 1.58962301576546568060e-10, -1.13585365213876817300e-11
	for _, p := range [...]float64{
		-2.50507477628578072866e-8, 2.75573136213857245213e-6, -1.98412698295895385996e-4,
		8.33333333332211858878e-3, -1.66666666666666307295e-1,
	} {
		s = float64(s*zz) + p
	}
	for _, p := range [...]float64{
		2.08757008419747316778e-9, -2.75573141792967388112e-7, 2.48015872888517045348e-5,
		-1.38888888888730564116e-3, 4.16666666666665929218e-2,
	} {
		t = float64(t*zz) + p
	}
	sin = z + float64(float64(z*zz)*s)
	cos = 1 - float64(0.5*zz) + float64(float64(zz*zz)*t)
	switch int(k) & 3 {
	case 1:
		return cos, -sin
	case 2:
		return -sin, -cos
	case 3:
		return -cos, sin
	}
	return sin, cos
}
