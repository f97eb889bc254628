package train

import (
	"math"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// newGCN makes an initial graph convolution, see [gnn.GCNLayer]:
//
//	y_i = bias + Σ_{j ∈ N(i) ∪ {i}} weight·h_j / √(d_j·d_i)
//
// where d_i is the number of terms in i's sum; with weights on edges, see [gnn.GCN.Weighed], j's
// term is multiplied by its weight, and d_i is 1 + the sum of the weights. So coefficients are
// those of the normalised adjacency matrix with one loop at every node.
func newGCN[T float](rng *rand.Rand, in, out int) *sums[T] {
	return newSums(rng, in, out, 1, func(hood *neighbourhood, n int) sparse[T] {
		root := func(i int32) float64 { return 1 / math.Sqrt(hood.inDegree[i]+1) }
		a := sparse[T]{start: make([]int, 1, n+1)}
		for i, sources := range hood.sources[:n] {
			own := root(int32(i))
			a.add(int32(i), T(own*own))
			for t, j := range sources {
				if int(j) != i {
					_, w := hood.edge(i, t)
					a.add(j, T(own*root(j)*w))
				}
			}
			a.endRow()
		}
		return a
	})
}

func exportGCN[T float](s *sums[T]) gnn.GCNLayer {
	return gnn.GCNLayer{Weight: exportWeight(s.weight.value, s.in, s.out), Bias: exportVector(s.bias.value)}
}
