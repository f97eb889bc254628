package double

import (
	"fmt"
	"math"

	"github.com/gvbll/gvbll/gnn/kernel/level"
)

// The encoders use the elementary functions of package elementary, which are not fused and
// have other bits. Neither can change without changing the results of recorded streams.

// Exp returns e^x with an error below 1 ulp and the same bits on every machine. Below
// -708 it is 0, above 709 infinite, so that results are never subnormal; NaN stays
// NaN.
//
// With k the integer nearest to x/ln 2 and r = x - k ln 2, |r| ≤ ln 2 / 2, it is
// 2^k e^r, and e^r is its Taylor polynomial of degree 13, which leaves out less than
// 2^-57 of e^r. math.Exp is not used because it fuses multiplications and additions
// only where the processor can; these operations are fused everywhere, in software
// if need be.
func Exp(x float64) float64 {
	// Adding 1.5·2⁵² rounds to the nearest integer, which is then in the low bits of
	// the sum.
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

// ln 2 in two parts. The product of the first with an exponent, at most 11 bits, is
// exact (FreeBSD, e_exp.c and e_log.c).
const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// The coefficients of R in [Log] and log1p.
const (
	l1 = 6.666666666666735130e-01
	l2 = 3.999999999940941908e-01
	l3 = 2.857142874366239149e-01
	l4 = 2.222219843214978396e-01
	l5 = 1.818357216161805012e-01
	l6 = 1.531383769920937332e-01
	l7 = 1.479819860511658591e-01
)

// Log returns the natural logarithm of a positive number, with an error below 1 ulp
// and the same bits on every machine: FreeBSD's e_log.c, in operations that are not
// fused. Numbers below the least normal one, 2^-1022, count as it, 0, negative
// numbers and NaN included.
//
// With x = 2^k (1+f), √½ ≤ 1+f < √2, and s = f/(2+f), it is k ln 2 + log(1+f), where
// log(1+f) = f - f²/2 + s (f²/2 + R(s²)).
func Log(x float64) float64 {
	// The upper half of √½, the least mantissa 1+f.
	const halfRoot, one = 0x3fe6a09e << 32, 0x3ff << 52
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

// log1p returns log(1+x), x at least 0, with an error below 1 ulp and the same bits on
// every machine: FreeBSD's s_log1p.c, in operations that are not fused.
//
// As in [Log], with 1+x = 2^k (1+f) it is k ln 2 + log(1+f), corrected by c/(1+x), where
// c is what rounding 1+x lost.
func log1p(x float64) float64 {
	if x < 0x1p-29 {
		return x - float64(x*x*0.5)
	}
	var k, correction float64
	f := x
	if x >= math.Sqrt2-1 {
		u := 1 + x
		switch {
		case x >= 1<<53: // 1 is below the rounding of x
			u = x
		case u >= 2:
			correction = (1 - (u - x)) / u
		default:
			correction = (x - (u - 1)) / u
		}
		m, e := math.Frexp(u)
		if m < math.Sqrt2/2 {
			m *= 2
			e--
		}
		f, k = m-1, float64(e)
	}
	half := float64(0.5 * f * f)
	s := f / (2 + f)
	z := float64(s * s)
	r := float64(z * (l1 + float64(z*(l2+float64(z*(l3+float64(z*(l4+float64(z*(l5+float64(z*(l6+float64(z*l7)))))))))))))
	if k == 0 {
		return f - (half - float64(s*(half+r)))
	}
	return float64(k*ln2Hi) - ((half - (float64(s*(half+r)) + (float64(k*ln2Lo) + correction))) - f)
}

// Softplus returns log(1 + e^x). Above 40 it is x: e^-40 is below the rounding of x.
func Softplus(x float64) float64 {
	if x > 40 {
		return x
	}
	return log1p(Exp(x))
}

// Exponentials replaces every number of a, none of which may be above 709, by its
// [Exp].
func Exponentials(a []float64) {
	done := registers(len(a))
	if done > 0 {
		exponentialEach(&a[0], done)
	}
	for i := done; i < len(a); i++ {
		a[i] = Exp(a[i])
	}
}

// Logarithms replaces every number of a by its [Log].
func Logarithms(a []float64) {
	done := registers(len(a))
	if done > 0 {
		logarithms(&a[0], &a[0], done)
	}
	for i := done; i < len(a); i++ {
		a[i] = Log(a[i])
	}
}

// RowExponentials sets most to the largest number of every row of a, replaces every
// number x of the row by Exp(x - most), and sets total to their sum. Rows have a
// multiple of 8 numbers, of which at least one is greater than -Inf; numbers that
// are -Inf become 0. A row is summed as eight sums of every eighth number.
func RowExponentials(a, most, total []float64) {
	if len(a) == 0 {
		return
	}
	n := len(a) / max(len(most), 1)
	if n == 0 || n%LaneWidth != 0 || len(a) != n*len(most) || len(most) != len(total) {
		panic(fmt.Sprintf("double: %d numbers in %d rows with %d sums: want a multiple of %d in each", len(a), len(most),
			len(total), LaneWidth))
	}
	if level.Active != level.Plain {
		rowExponentials(&a[0], &most[0], &total[0], len(most), n)
		return
	}
	for i := range most {
		row := a[i*n : (i+1)*n]
		most[i] = math.Inf(-1)
		for _, x := range row {
			if x > most[i] {
				most[i] = x
			}
		}
		var sum [LaneWidth]float64
		for c, x := range row {
			row[c] = Exp(x - most[i])
			sum[c%LaneWidth] += row[c]
		}
		total[i] = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]))
	}
}
