package pool

import (
	"math"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// interactions are columns that each depend on a few of a row's other columns u together,
//
//	f(w_kᵀ(u - m)∘σ⁻¹ + b_k),
//
// as random Fourier features do (Rahimi & Recht 2007): w_k is uniform on at most interactionReads
// columns drawn for k, and 0 elsewhere; b_k is uniform over the period of f, a triangular wave, which
// costs less than a cosine and has the same bits on every machine. m and σ are mean and standard
// deviation over the training rows, and deviations beyond maxDeviation count as it. A linear head on
// them can tell that a share of labels means one thing at a node of two neighbours and another at
// a hub. What is drawn depends on the numbers of columns alone.
type interactions struct {
	moments
	reads  int       // columns that each reads
	index  []int32   // of these, n × reads
	weight []float64 // w there, in periods
	phase  []float64 // b, in periods
}

// Constants of interactions. Reading 2 to 16 columns did about equally well, and so did bandwidths
// of 1 to 3.
const (
	interactionReads = 4
	bandwidth        = 1.5 // standard deviation of w_kᵀu at u of standard deviation 1
	maxDeviation     = 4
)

// newInteractions returns n interactions of that many columns.
func newInteractions(n, columns int) *interactions {
	x := &interactions{moments: newMoments(columns), reads: min(columns, interactionReads)}
	rng := rand.New(rand.NewPCG(1, uint64(columns)))
	most := bandwidth / (2 * math.Pi) * math.Sqrt(3/float64(x.reads))
	for range n {
		for _, j := range rng.Perm(columns)[:x.reads] {
			x.index, x.weight = append(x.index, int32(j)), append(x.weight, float64(most*(float64(2*float64(rng.Float64()))-1)))
		}
		x.phase = append(x.phase, rng.Float64())
	}
	return x
}

// write writes the interactions of u to dst, and returns scratch for the next.
func (x *interactions) write(dst, u, scratch []float64) []float64 {
	scratch = kernel.Resize(scratch, len(x.mean))
	for j, m := range x.mean {
		scratch[j] = max(-maxDeviation, min(maxDeviation, (u[j]-m)*x.inverse[j]))
	}
	size := math.Sqrt(3 / float64(len(x.phase))) // unit length in the mean
	for k, t := range x.phase {
		at := k * x.reads
		for i, j := range x.index[at : at+x.reads] {
			t += float64(x.weight[at+i] * scratch[j])
		}
		dst[k] = size * (float64(4*math.Abs(t-math.Floor(t)-0.5)) - 1)
	}
	return scratch
}
