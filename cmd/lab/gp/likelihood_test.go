package gp

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
)

// moments are means and variances of the latent functions of two classes. The softmax of
// two is the logistic function of their difference, so that expectations are integrals over
// one normal variable.
var moments = []struct{ mean, variance []float64 }{
	{[]float64{0, 0}, []float64{1, 1}},
	{[]float64{2, -1}, []float64{0.5, 4}},
	{[]float64{-3, 4}, []float64{9, 9}},
	{[]float64{1, 0}, []float64{leastVariance, leastVariance}},
}

// TestExpectedLogLikelihood compares the expected log-likelihood and its gradients with
// quadrature.
func TestExpectedLogLikelihood(t *testing.T) {
	l := newSoftmax(2, 200_000)
	for _, m := range moments {
		dMean, dVariance := make([]float64, 2), make([]float64, 2)
		got := l.expect(m.mean, m.variance, 1, 1, noise(), dMean, dVariance)
		want := overDifference(m.mean, m.variance, func(d float64) float64 { return -math.Log1p(math.Exp(-d)) })
		slope := overDifference(m.mean, m.variance, func(d float64) float64 { return 1 / (1 + math.Exp(d)) })
		curve := overDifference(m.mean, m.variance, func(d float64) float64 { return -1 / (4 * math.Pow(math.Cosh(d/2), 2)) })
		wantClose(t, "expectation", []float64{got}, []float64{want}, 0.01)
		wantClose(t, "gradient by mean", dMean, []float64{slope, -slope}, 0.01)
		// The gradient by the variance is half the curvature (Price's theorem).
		if m.variance[0] > leastVariance {
			wantClose(t, "gradient by variance", dVariance, []float64{-curve / 2, -curve / 2}, 0.01)
		}
	}
}

// TestAverage compares average probabilities with quadrature.
func TestAverage(t *testing.T) {
	l := newSoftmax(2, 0)
	probs := make([]float64, 2)
	for _, m := range moments {
		l.average(m.mean, m.variance, normals(256, 2), probs)
		want := overDifference(m.mean, m.variance, func(d float64) float64 { return 1 / (1 + math.Exp(-d)) })
		wantClose(t, "probabilities", probs, []float64{1 - want, want}, 0.01)
	}
}

// TestNormals: the points of the predictive have mean 0 and variance 1 exactly, for each
// class.
func TestNormals(t *testing.T) {
	const classes = 40
	set := normals(256, classes)
	if len(set) != 512*classes {
		t.Fatalf("%d numbers, want %d", len(set), 512*classes)
	}
	for c := range classes {
		var sum, squares float64
		for s := c; s < len(set); s += classes {
			sum += set[s]
			squares += set[s] * set[s]
		}
		if math.Abs(sum) > 1e-9 || math.Abs(squares/512-1) > 1e-12 {
			t.Errorf("class %d: sum %v and mean square %v, want 0 and 1", c, sum, squares/512)
		}
	}
}

// overDifference is E f(d) over d = f_1 - f_0 by Gauss-Hermite quadrature.
func overDifference(mean, variance []float64, f func(float64) float64) float64 {
	mu, scale := mean[1]-mean[0], math.Sqrt(2*(variance[0]+variance[1]))
	of := func(x float64) float64 { return f(mu + scale*x) } // the weight of the quadrature is e^(-x²)
	return quad.Fixed(of, math.Inf(-1), math.Inf(1), 200, quad.Hermite{}, 0) / math.Sqrt(math.Pi)
}
