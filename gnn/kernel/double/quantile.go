package double

import "math"

// NormalQuantile returns Φ⁻¹(p), the standard normal's quantile at p, 0 < p < 1, with a
// relative error of about 1e-16 and the same bits on every machine: PPND16 of Wichura,
// Algorithm AS 241: The Percentage Points of the Normal Distribution (1988). Gonum's
// mathext.NormalQuantile is the same algorithm, but the compiler fuses its products and
// sums on some architectures.
func NormalQuantile(p float64) float64 {
	if d := p - 0.5; math.Abs(d) <= 0.425 {
		z := 0.180625 - float64(d*d)
		return d * horner(z, &middleOver) / horner(z, &middleUnder)
	}
	var x float64
	if r := math.Sqrt(-Log(min(p, 1-p))); r <= 5 {
		x = horner(r-1.6, &tailOver) / horner(r-1.6, &tailUnder)
	} else {
		x = horner(r-5, &farOver) / horner(r-5, &farUnder)
	}
	return math.Copysign(x, p-0.5)
}

// horner returns the polynomial with these coefficients, of the highest power first.
func horner(x float64, coefficients *[8]float64) (y float64) {
	for _, c := range coefficients {
		y = float64(y*x) + c
	}
	return y
}

// The numerators and denominators of Wichura's rational approximations: in the middle,
// |p - ½| ≤ 0.425; in the tails down to p = e^-25; and beyond.
var (
	middleOver = [8]float64{
		2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
		13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608,
	}
	middleUnder = [8]float64{
		5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
		5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1,
	}
	tailOver = [8]float64{
		7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
		1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734,
	}
	tailUnder = [8]float64{
		1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
		0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1,
	}
	farOver = [8]float64{
		2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
		0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772,
	}
	farUnder = [8]float64{
		2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
		7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1,
	}
)
