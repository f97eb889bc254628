package gnn

import (
	"errors"
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// MaxSlices bounds the number of slices of an encoder.
const MaxSlices = 64

// Slice returns slice p of P of an encoder: one with a P-th of its hidden width, so that
// the embeddings of the whole are the sums of those of its slices, see [SumSlices].
//
// The first layer of a [SAGE] or [GCN] computes each hidden unit by itself, from the
// features of a node and its neighbours, and so does the activation. The second layer is
// linear in the hidden units. With the units cut into P ranges H_p,
//
//	z = Σ_p W₂[:, H_p] · σ(layer₁ of the units H_p) + b₂
//
// where b₂ is slice 0's alone. A slice needs nothing of the others, and all slices of a
// graph have the same structure. A [GIN] mixes its hidden units in its perceptrons, a
// [GAT] in its attention scores, and a third layer needs all units of the second one at
// each neighbour: these are refused.
func Slice(e Encoder, p, P int) (Encoder, error) {
	if P < 1 || P > MaxSlices || p < 0 || p >= P {
		return nil, fmt.Errorf("slice %d of %d: give 1 to %d slices", p, P, MaxSlices)
	}
	if P == 1 {
		return e, nil
	}
	if MeansOf(e) > 0 {
		return nil, errors.New("an encoder that hears kinds or weights of edges cannot be cut into slices: serve it whole")
	}
	switch e.(type) {
	case *SAGE, *GCN:
	default:
		return nil, fmt.Errorf("encoder %s cannot be cut into %d slices: train a %s or %s, or serve it whole", e.Kind(), P, KindSAGE, KindGCN)
	}
	if e.Depth() != 2 {
		return nil, fmt.Errorf("an encoder of depth %d cannot be cut into %d slices: train one of 2 layers, or serve it whole", e.Depth(), P)
	}
	hidden := e.widths()[1]
	if hidden%P != 0 {
		return nil, fmt.Errorf("a hidden width of %d cannot be cut into %d slices: give a number that divides it", hidden, P)
	}
	from, to := p*(hidden/P), (p+1)*(hidden/P)
	// units returns rows from to to of a matrix, columns the same columns.
	units := func(w []float32, in int) []float32 { return w[from*in : to*in] }
	columns := func(w []float32) (part []float32) {
		for ; len(w) > 0; w = w[hidden:] {
			part = append(part, w[from:to]...)
		}
		return part
	}
	bias := func(b []float32) []float32 {
		if p == 0 {
			return b
		}
		return make([]float32, len(b))
	}
	if c, ok := e.(*GCN); ok {
		one, two := c.layers[0], c.layers[1]
		return NewGCN(c.In(), c.activation,
			GCNLayer{Weight: units(one.Weight, c.In()), Bias: units(one.Bias, 1)},
			GCNLayer{Weight: columns(two.Weight), Bias: bias(two.Bias)})
	}
	s := e.(*SAGE)
	one, two := s.layers[0], s.layers[1]
	return NewSAGE(s.In(), s.activation,
		SAGELayer{Neigh: units(one.Neigh, s.In()), Bias: units(one.Bias, 1), Self: units(one.Self, s.In())},
		SAGELayer{Neigh: columns(two.Neigh), Bias: bias(two.Bias), Self: columns(two.Self)})
}

// SumSlices sets dst to the sum of the parts, which have its length: the embeddings of
// some nodes, given those of all slices in their order. The sum is a balanced binary tree
// over neighbouring slices, so it is the same wherever it is computed. The parts are
// overwritten.
func SumSlices(dst []float32, parts [][]float32) {
	for apart := 1; apart < len(parts); apart *= 2 {
		for i := 0; i+apart < len(parts); i += 2 * apart {
			kernel.Add(parts[i], parts[i+apart])
		}
	}
	copy(dst, parts[0])
}
