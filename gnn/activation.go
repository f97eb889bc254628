package gnn

import (
	"fmt"
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// Activation is the function between layers.
type Activation string

// The activations. The empty Activation is ReLU.
const (
	ReLU Activation = "relu" // max(x, 0)
	ELU  Activation = "elu"  // x above 0, exp(x) - 1 below (Clevert et al. 2016, α = 1)
)

// check returns the activation with its default filled in, or an error.
func (a Activation) check() (Activation, error) {
	switch a {
	case "", ReLU:
		return ReLU, nil
	case ELU:
		return ELU, nil
	}
	return "", fmt.Errorf("activation %q: it is one of %s, %s", string(a), ReLU, ELU)
}

// apply replaces x by its image.
func (a Activation) apply(x []float32) {
	if a == ELU {
		for i, v := range x {
			if v < 0 {
				x[i] = expm1(v)
			}
		}
		return
	}
	kernel.Rectify(x, x)
}

// expm1 is e^x - 1 for x below 0, to the last bit or the one before.
func expm1(x float32) float32 {
	y := float64(x)
	if y > -0x1p-10 {
		// The series; what is left out is below y³/24 of the whole.
		return float32(y + float64(float64(y*y)*(0.5+float64(y*(1./6)))))
	}
	return float32(exp(y) - 1)
}

// exp is e^x by the rational approximation of FreeBSD's e_exp.c, error below
// 1 ulp, in plain multiplications, additions and one division: the same bits
// everywhere, unlike [math.Exp]. Below -708 it is 0, above 709 infinite, and
// NaN stays NaN.
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
