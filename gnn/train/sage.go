package train

import (
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
)

// newSAGE makes an initial GraphSAGE layer, for edges of several kinds, see [gnn.SAGEKinds], or
// with one mean for all edges, see [gnn.SAGELayer]:
//
//	y_i = bias + Self·h_i + Σ_k mean_{j ∈ N_k(i)} Neigh_k·h_j
//
// States are projected first, when they may be sparse, and the narrower products summed: the
// weights are [Neigh_0ᵀ | … | Selfᵀ], so that the parts of node j are Neigh_0·h_j to Self·h_j,
// and the coefficients w/Σw, and 1 for the node's own. Without rng the weights are zero.
func newSAGE[T float](rng *rand.Rand, in, out, means int) *sums[T] {
	return newSums(rng, in, out, means+1, func(hood *neighbourhood, n int) sparse[T] {
		a := sparse[T]{start: make([]int, 1, n+1)}
		total := make([]float64, means)
		for i, sources := range hood.sources[:n] {
			clear(total)
			own := int32(i*(means+1) + means)
			if hood.mean == nil {
				a.add(own, 1)
			}
			for t := range sources {
				k, w := hood.edge(i, t)
				total[k] += w
			}
			for t, j := range sources {
				k, w := hood.edge(i, t)
				a.add(j*int32(means+1)+int32(k), T(w/total[k]))
			}
			if hood.mean != nil {
				a.add(own, 1)
			}
			a.endRow()
		}
		return a
	})
}

// importSAGE converts a layer of one mean.
func importSAGE[T float](l gnn.SAGELayer, in int) *sums[T] {
	out := len(l.Bias)
	s := newSAGE[T](nil, in, out, 1)
	convert(s.bias.value, l.Bias)
	kernel.Transpose(s.weight.value, slices.Concat(l.Neigh, l.Self), 2*out, in)
	return s
}

func exportSAGE[T float](s *sums[T]) gnn.SAGELayer {
	l := exportKinds(s)
	return gnn.SAGELayer{Neigh: l.Neigh[0], Self: l.Self, Bias: l.Bias}
}

func exportKinds[T float](s *sums[T]) gnn.KindsLayer {
	all := slices.Collect(slices.Chunk(exportWeight(s.weight.value, s.in, s.parts*s.out), s.in*s.out))
	return gnn.KindsLayer{Neigh: all[:s.parts-1], Self: all[s.parts-1], Bias: exportVector(s.bias.value)}
}
