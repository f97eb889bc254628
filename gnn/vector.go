package gnn

import (
	"fmt"
	"math"
)

// Vector is a node's feature vector: Dense, or sparse as Index (strictly
// increasing) and Value of the same length. Dense is nil for a sparse vector. The
// zero Vector is the sparse zero vector, of any dimension.
//
// Dense and sparse forms of the same features have the same embedding, bit for
// bit.
type Vector struct {
	Dense []float32
	Index []uint32
	Value []float32
}

// Validate returns an error unless v is a vector of dimension dim with finite
// entries. Validate untrusted vectors before encoding them: the encoders panic on
// a vector that does not fit.
func (v Vector) Validate(dim int) error {
	entries := v.Value
	if v.Dense != nil {
		if len(v.Index) != 0 || len(v.Value) != 0 {
			return fmt.Errorf("features: given both dense (%d entries) and sparse (%d)", len(v.Dense), len(v.Index))
		}
		if len(v.Dense) != dim {
			return fmt.Errorf("features: %d dense entries, want %d", len(v.Dense), dim)
		}
		entries = v.Dense
	} else {
		if len(v.Index) != len(v.Value) {
			return fmt.Errorf("features: %d sparse indices, %d values", len(v.Index), len(v.Value))
		}
		for i, index := range v.Index {
			if uint64(index) >= uint64(dim) {
				return fmt.Errorf("features: sparse index %d, want below %d", index, dim)
			}
			if i > 0 && index <= v.Index[i-1] {
				return fmt.Errorf("features: sparse index %d after %d, want strictly increasing", index, v.Index[i-1])
			}
		}
	}
	for i, x := range entries {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("features: entry %d is %v, want a finite number", i, x)
		}
	}
	return nil
}
