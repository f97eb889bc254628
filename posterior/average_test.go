package posterior

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Samples are drawn with the same bits at every level, however odd the moments.
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
		sameAtLevels(t, "averages", func() []float64 {
			var d drawn
			d.draw(mean, variance, normals, classes, lanes)
			all := slices.Concat(d.average, d.total, d.dot[:])
			for _, x := range all {
				if !isFinite(x) {
					t.Fatalf("%v", x)
				}
			}
			return all
		})
	}
}

// The most that a sampled probability is off by is what float32 is off by.
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
		var d drawn
		d.draw(mean, variance, normals, classes, lanes)
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
				wantClose(t, "average", []float64{d.average[c*lanes+l]}, []float64{want}, 1e-6*samples)
			}
		}
	}
}

// Single precision's exponential is off by less than the distance of two numbers.
func TestExpSingle(t *testing.T) {
	for x := float32(0); x >= -least; x -= 0.00013 {
		want := math.Exp(float64(x))
		near := float32(want)
		ulp := float64(math.Nextafter32(near, 2)) - float64(near)
		if got := float64(expSingle(x)); math.Abs(got-want) > ulp {
			t.Fatalf("e^%v is %v, want %v", x, got, want)
		}
	}
	if expSingle(0) != 1 {
		t.Errorf("e^0 is %v", expSingle(0))
	}
}
