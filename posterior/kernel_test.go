package posterior

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
)

// randoms draws n standard normal numbers.
func randoms(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// TestLanes: toLanes transposes rows to lanes, padded with zeros, and fromLanes is its
// inverse.
func TestLanes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{1, 7, 8, 9, 23, 64} {
		const cols = 3
		src := randoms(rng, n*cols)
		lanes := lanesOf(n) + double.LaneWidth*rng.IntN(3)
		inLanes := randoms(rng, cols*lanes)
		toLanes(inLanes, src, n, cols)
		for i := range lanes {
			for j := range cols {
				want := 0.0
				if i < n {
					want = src[i*cols+j]
				}
				if inLanes[j*lanes+i] != want {
					t.Fatalf("%d rows: row %d, column %d is %v, want %v", n, i, j, inLanes[j*lanes+i], want)
				}
			}
		}
		back := make([]float64, n*cols)
		fromLanes(back, cols, inLanes, n, cols)
		kerneltest.WantSame(t, "back from lanes", back, src)
	}
}

// TestLevelsAgree: losses, gradients, predictions and the learned state have the same bits
// at every level, so that replays agree between machines.
func TestLevelsAgree(t *testing.T) {
	for _, c := range []struct{ n, dim, classes, hidden, samples int }{
		{1, 1, 1, 1, 1}, {9, 3, 2, 5, 3}, {70, 16, 7, 16, 10}, {130, 33, 40, 17, 4}, {65, 8, 5, 0, 2},
	} {
		kerneltest.SameAtLevels(t, "loss and gradients", func() []float64 {
			v := NewVariational(c.dim, c.classes, c.hidden, 1)
			v.Samples = c.samples
			rng := rand.New(rand.NewPCG(9, uint64(c.n)))
			z, dz, labels := randoms(rng, c.n*c.dim), make([]float64, c.n*c.dim), make([]int32, c.n)
			for i := range labels {
				labels[i] = int32(rng.IntN(c.classes))
			}
			loss := v.Loss(z, labels, 0.3, rng, dz)
			return slices.Concat(append(v.Grads(), dz, []float64{loss.Total, loss.ELL, loss.KL, float64(loss.Correct)})...)
		})
		rng := rand.New(rand.NewPCG(10, uint64(c.n)))
		q := randomGaussian(rng, c.dim, c.classes)
		rows, labels := randomRows(rng, c.n, c.dim, c.classes)
		kerneltest.SameAtLevels(t, "predictions", func() []float64 {
			probs, averaged, split := make([]float64, c.n*c.classes), make([]float64, c.n*c.classes), make([]Uncertainty, c.n)
			MAP(&q, rows, probs)
			NewPredictive(c.classes, 5).Predict(&q, rows, averaged, split)
			all := slices.Concat(probs, averaged)
			for _, u := range split {
				all = append(all, u.Total, u.Aleatoric, u.Epistemic)
			}
			return all
		})
		var want []byte
		kerneltest.AtLevels(t, func(t *testing.T) {
			head := NewOnline(q, DefaultConfig())
			head.Learn(rows, labels)
			head.Learn(rows, labels)
			if got := head.AppendState(nil); want == nil {
				want = got
			} else if !bytes.Equal(got, want) {
				t.Error("the head learned another state than at the plain level")
			}
		})
	}
}
