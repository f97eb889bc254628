package dataset

import "math"

// The functions of package math use fused multiply-add where the machine has it,
// so the same seed would make other graphs on other machines. These here make no
// difference: every product is rounded before it is added to anything.

// exp is e^x by the rational approximation of FreeBSD's e_exp.c, error below 1
// ulp. Below -708 it is 0, above 709 infinite.
func exp(x float64) float64 {
	const (
		ln2Hi = 6.93147180369123816490e-01 // times an exponent it is exact
		ln2Lo = 1.90821492927058770002e-10
		p1    = 1.66666666666666657415e-01
		p2    = -2.77777777770155933842e-03
		p3    = 6.61375632143793436117e-05
		p4    = -1.65339022054652515390e-06
		p5    = 4.13813679705723846039e-08
	)
	switch {
	case x < -708:
		return 0
	case x > 709:
		return math.Inf(1)
	}
	k := math.RoundToEven(x * math.Log2E)
	hi, lo := x-float64(k*ln2Hi), float64(k*ln2Lo)
	r := hi - lo
	t := float64(r * r)
	c := r - float64(t*(p1+float64(t*(p2+float64(t*(p3+float64(t*(p4+float64(t*p5)))))))))
	y := 1 - ((lo - float64(r*c)/(2-c)) - hi)
	return math.Ldexp(y, int(k))
}

// log is the natural logarithm of a positive, finite, normal number by the
// approximation of FreeBSD's e_log.c, error below 1 ulp.
func log(x float64) float64 {
	const (
		ln2Hi = 6.93147180369123816490e-01
		ln2Lo = 1.90821492927058770002e-10
		l1    = 6.666666666666735130e-01
		l2    = 3.999999999940941908e-01
		l3    = 2.857142874366239149e-01
		l4    = 2.222219843214978396e-01
		l5    = 1.818357216161805012e-01
		l6    = 1.531383769920937332e-01
		l7    = 1.479819860511658591e-01
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

// sincos is the sine and cosine of an angle below 2²⁰ by the approximations of
// Cephes (sin.c), error below 1e-15.
func sincos(x float64) (sin, cos float64) {
	const ( // π/2 in three parts, of which the first two times an integer are exact
		a = 2 * 7.85398125648498535156e-1
		b = 2 * 3.77489470793079817668e-8
		c = 2 * 2.69515142907905952645e-15
	)
	k := math.RoundToEven(x * (2 / math.Pi))
	z := ((x - float64(k*a)) - float64(k*b)) - float64(k*c)
	zz := float64(z * z)
	s, t := 1.58962301576546568060e-10, -1.13585365213876817300e-11
	for _, p := range [...]float64{-2.50507477628578072866e-8, 2.75573136213857245213e-6, -1.98412698295895385996e-4, 8.33333333332211858878e-3, -1.66666666666666307295e-1} {
		s = float64(s*zz) + p
	}
	for _, p := range [...]float64{2.08757008419747316778e-9, -2.75573141792967388112e-7, 2.48015872888517045348e-5, -1.38888888888730564116e-3, 4.16666666666665929218e-2} {
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
