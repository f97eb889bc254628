package double

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
)

// TestAveragesKernels: the averages over samples have the same bits at every kernel level
// and are finite, also for means and variances that are NaN, infinite or at the limits of
// float64.
func TestAveragesKernels(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for _, shape := range [][3]int{{1, 8, 1}, {3, 8, 2}, {7, 16, 5}, {5, 24, 3}, {40, 64, 16}, {2, 8, chunkSamples + 3}} {
		classes, lanes, samples := shape[0], shape[1], shape[2]
		mean, variance, normals := randoms(rng, classes*lanes), randoms(rng, classes*lanes), make([]float32, samples*classes)
		for i := range normals {
			normals[i] = float32(rng.NormFloat64())
		}
		for i, v := range variance {
			variance[i] = 4 * v * v
		}
		for range len(mean) / 8 {
			i := rng.IntN(len(mean))
			mean[i], variance[i] = odd[rng.IntN(len(odd))], math.Abs(odd[rng.IntN(len(odd))])
		}
		mean[rng.IntN(len(mean))] = math.NaN()
		mean[rng.IntN(len(mean))] = math.Inf(1)
		variance[rng.IntN(len(mean))] = math.NaN()
		kerneltest.SameAtLevels(t, "averages", func() []float64 {
			var d Drawn
			d.Draw(mean, variance, normals, classes, lanes)
			all := slices.Concat(d.Average, d.Total, d.Dot[:])
			for _, x := range all {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("an average is %v, want it finite", x)
				}
			}
			return all
		})
	}
}

// TestAveragesAreNearTheFormula: averages over samples agree with the formula in float64,
// up to the rounding of float32.
func TestAveragesAreNearTheFormula(t *testing.T) {
	const classes, lanes, samples = 40, 64, 16
	rng := rand.New(rand.NewPCG(13, 14))
	for _, scale := range []float64{0.01, 1, 30, 1000} {
		mean, variance, normals := randoms(rng, classes*lanes), randoms(rng, classes*lanes), make([]float32, samples*classes)
		for i := range normals {
			normals[i] = float32(rng.NormFloat64())
		}
		for i := range mean {
			mean[i] *= scale
			variance[i] *= variance[i]
		}
		var d Drawn
		d.Draw(mean, variance, normals, classes, lanes)
		for l := range lanes {
			average, a := make([]float64, classes), make([]float64, classes)
			for s := range samples {
				for c := range a {
					a[c] = mean[c*lanes+l] + float64(normals[s*classes+c])*math.Sqrt(variance[c*lanes+l])
				}
				softmax(a)
				for c, p := range a {
					average[c] += p
				}
			}
			for c, want := range average {
				kerneltest.WantClose(t, "average", []float64{d.Average[c*lanes+l]}, []float64{want}, 1e-6*samples)
			}
		}
	}
}

// TestExpSingle: the error of expSingle is at most one unit in the last place of float32.
func TestExpSingle(t *testing.T) {
	for x := float32(0); x >= -least; x -= 0.00013 {
		want := math.Exp(float64(x))
		near := float32(want)
		ulp := float64(math.Nextafter32(near, 2)) - float64(near)
		if got := float64(expSingle(x)); math.Abs(got-want) > ulp {
			t.Fatalf("expSingle(%v) = %v, want %v", x, got, want)
		}
	}
	if expSingle(0) != 1 {
		t.Errorf("expSingle(0) = %v, want 1", expSingle(0))
	}
}

// softmax replaces the logits a by their softmax.
func softmax(a []float64) {
	most := slices.Max(a)
	var sum float64
	for c, x := range a {
		a[c] = Exp(x - most)
		sum += a[c]
	}
	inv := 1 / sum
	for c := range a {
		a[c] *= inv
	}
}
