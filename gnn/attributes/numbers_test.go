package attributes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// columnOf returns a column of numbers.
func columnOf(values []float64) []Column {
	c := Column{Name: "x", Kind: Number}
	for _, v := range values {
		c.Texts = append(c.Texts, fmt.Sprint(v))
	}
	return []Column{c}
}

// TestScaleMeansNothing: what a number is measured in and on which scale changes its columns by little, whatever its
// distribution is; a fall in place of a rise changes the sign of the first.
func TestScaleMeansNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"even":        rng.Float64,
		"normal":      func() float64 { return 3 + .5*rng.NormFloat64() },
		"exponential": func() float64 { return .01 + rng.ExpFloat64() },
		"log-normal":  func() float64 { return math.Exp(rng.NormFloat64()) },
		"counts":      func() float64 { return 1 + math.Floor(3*rng.ExpFloat64()) },
	} {
		values := make([]float64, 2000)
		for i := range values {
			values[i] = draw()
		}
		plain := learned(t, columnOf(values), nil)
		for scale, f := range map[string]func(float64) float64{
			"x³":  func(x float64) float64 { return x * x * x },
			"exp": math.Exp,
			"ln":  math.Log,
			"-x":  func(x float64) float64 { return -x },
		} {
			other := make([]float64, len(values))
			for i, v := range values {
				other[i] = f(v)
			}
			s := learned(t, columnOf(other), nil)
			var square float64
			for i := range values {
				a, b := [2]float32{}, [2]float32{}
				plain.Attributes[0].number(a[:], values[i])
				s.Attributes[0].number(b[:], other[i])
				if scale == "-x" {
					b[0] = -b[0]
				}
				for j := range a {
					square += float64((a[j] - b[j]) * (a[j] - b[j]))
				}
			}
			if off := math.Sqrt(square / float64(2*len(values))); off > .03 {
				t.Errorf("%s: columns of %s are off by %.4f standard deviations", name, scale, off)
			}
		}
	}
}

// TestKnots: a value that training did not have lies beyond all that it had, or between its neighbours; the ends of
// what a float64 can hold, values next to 0 and a column of one value are no exception.
func TestKnots(t *testing.T) {
	for _, values := range [][]float64{{0, 0, 0, 1}, {-math.MaxFloat64, 0, math.MaxFloat64}, {0, 5e-324, 1e-323}, {7, 7, 7}} {
		s := learned(t, columnOf(values), nil)
		a := &s.Attributes[0]
		last := float32(math.Inf(-1))
		for _, v := range []float64{-math.MaxFloat64, -1, 0, 5e-324, .5, 1, 7, 8, math.MaxFloat64} {
			x := [2]float32{}
			a.number(x[:], v)
			if !(x[0] >= last) || math.IsNaN(float64(x[1])) || math.IsInf(float64(x[1]), 0) {
				t.Errorf("of %v: %v is encoded as %v after %v", values, v, x, last)
			}
			last = x[0]
		}
	}
	s := learned(t, columnOf([]float64{0, 0, 0, 1}), nil)
	if a := &s.Attributes[0]; a.At(0) != 3./8 || a.At(1) != 7./8 || a.At(.5) != 5./8 || a.At(-1) != .1 || a.At(2) != .9 {
		t.Errorf("ranks %v %v %v %v %v", a.At(0), a.At(1), a.At(.5), a.At(-1), a.At(2))
	}
}

// TestLogAsked: a table can ask for the logarithm of a number.
func TestLogAsked(t *testing.T) {
	c := columnOf([]float64{0, math.E - 1, 0, math.E - 1})
	c[0].Kind = Log
	s := learned(t, c, nil)
	x := [1]float32{}
	s.Attributes[0].number(x[:], math.E-1)
	if a := s.Attributes[0]; a.Kind != Number || !a.Log || a.Columns() != 1 || math.Abs(float64(x[0])-1) > 1e-6 {
		t.Errorf("%+v encodes as %v, want a logarithm one standard deviation above the mean", a, x)
	}
}
