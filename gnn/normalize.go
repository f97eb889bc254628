package gnn

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Normalization names a way to normalise features, in model files and flags.
type Normalization string

// The normalisations. The row-wise ones keep sparse features sparse.
const (
	// NormalizeNone leaves features unchanged.
	NormalizeNone Normalization = "none"
	// normalizeRowL1 divides a vector by the sum of its absolute values, or by 1
	// if the sum is less. For non-negative features, such as bags of words, this
	// is PyTorch Geometric's NormalizeFeatures.
	normalizeRowL1 Normalization = "row-l1"
	// NormalizeRowL2 divides a vector by its Euclidean norm; zero stays zero.
	NormalizeRowL2 Normalization = "row-l2"
	// NormalizeStandard subtracts from each feature its mean over the training
	// nodes and divides by its standard deviation. The result is dense.
	NormalizeStandard Normalization = "standard"
)

// Normalizer normalises features as it did in training. It belongs to the model
// and is saved with it.
type Normalizer struct {
	Kind Normalization
	// Mean and Std have one entry per feature for NormalizeStandard and are
	// empty otherwise. Std is the population's (divisor n), or 1 for a feature
	// that never varies.
	Mean, Std []float32
}

// FitNormalizer returns the normaliser of the given kind for features like x,
// those of the training nodes. For NormalizeStandard, sparse features, no nodes,
// and vectors of different lengths are errors.
func FitNormalizer(kind Normalization, x []Vector) (*Normalizer, error) {
	n := &Normalizer{Kind: kind}
	if kind != NormalizeStandard {
		if err := n.Validate(0); err != nil {
			return nil, err
		}
		return n, nil
	}
	if len(x) == 0 {
		return nil, errors.New("normalisation \"standard\" of no nodes, want at least 1")
	}
	dim := len(x[0].Dense)
	mean, variance := make([]float64, dim), make([]float64, dim)
	for i, v := range x {
		if v.Dense == nil {
			return nil, fmt.Errorf("normalisation \"standard\": node %d has sparse features, which it would make "+
				"dense; choose %q, %q or %q", i, normalizeRowL1, NormalizeRowL2, NormalizeNone)
		}
		if len(v.Dense) != dim {
			return nil, fmt.Errorf("normalisation \"standard\": node %d has %d features, want %d as node 0", i, len(v.Dense), dim)
		}
		for j, value := range v.Dense {
			mean[j] += float64(value)
		}
	}
	for j := range mean {
		mean[j] /= float64(len(x))
	}
	for _, v := range x {
		for j, value := range v.Dense {
			d := float64(value) - mean[j]
			variance[j] += float64(d * d)
		}
	}
	n.Mean, n.Std = make([]float32, dim), make([]float32, dim)
	for j := range mean {
		n.Mean[j] = float32(mean[j])
		n.Std[j] = float32(math.Sqrt(variance[j] / float64(len(x))))
		if n.Std[j] == 0 {
			n.Std[j] = 1
		}
	}
	if err := n.Validate(dim); err != nil {
		return nil, err
	}
	return n, nil
}

// Validate returns an error unless n is a valid normaliser of features of
// dimension dim. Call it on a normaliser read from a model file.
func (n *Normalizer) Validate(dim int) error {
	switch n.Kind {
	case NormalizeNone, normalizeRowL1, NormalizeRowL2:
		dim = 0
	case NormalizeStandard:
	default:
		return fmt.Errorf("normalisation %q is not one of %q, %q, %q, %q", n.Kind, NormalizeNone, normalizeRowL1,
			NormalizeRowL2, NormalizeStandard)
	}
	if len(n.Mean) != dim || len(n.Std) != dim {
		return fmt.Errorf("normalisation %q has %d means and %d deviations, want %d", n.Kind, len(n.Mean), len(n.Std), dim)
	}
	for j := range n.Mean {
		if mean, std := float64(n.Mean[j]), float64(n.Std[j]); math.IsNaN(mean) || math.IsInf(mean, 0) || !(std > 0) || math.IsInf(std, 0) {
			return fmt.Errorf("normalisation %q: feature %d has mean %v and deviation %v", n.Kind, j, mean, std)
		}
	}
	return nil
}

// Apply returns x normalised. The result uses dst's storage where its capacity is
// enough, and shares none with x: pass the previous result to reuse it, or the
// zero Vector for new storage.
func (n *Normalizer) Apply(dst, x Vector) Vector {
	if n.Kind == NormalizeStandard {
		return n.standardize(dst, x)
	}
	if x.Dense != nil {
		dense := append(nonNil(dst.Dense), x.Dense...)
		n.scaleRow(dense)
		return Vector{Dense: dense}
	}
	y := Vector{Index: append(dst.Index[:0], x.Index...), Value: append(dst.Value[:0], x.Value...)}
	n.scaleRow(y.Value)
	return y
}

// nonNil returns s emptied, never nil: nil would make a dense vector without
// features a sparse one.
func nonNil(s []float32) []float32 {
	if s == nil {
		return []float32{}
	}
	return s[:0]
}

// scaleRow divides the entries by their norm. Zeros do not change the sum, so dense
// and sparse forms agree.
func (n *Normalizer) scaleRow(x []float32) {
	norm := 0.0
	switch n.Kind {
	case normalizeRowL1:
		for _, v := range x {
			norm += math.Abs(float64(v))
		}
		norm = max(norm, 1)
	case NormalizeRowL2:
		for _, v := range x {
			norm += float64(float64(v) * float64(v))
		}
		if norm = math.Sqrt(norm); norm == 0 {
			return
		}
	default:
		return
	}
	for i, v := range x {
		x[i] = float32(float64(v) / norm)
	}
}

func (n *Normalizer) standardize(dst, x Vector) Vector {
	dense := slices.Grow(nonNil(dst.Dense), len(n.Mean))[:len(n.Mean)]
	if x.Dense != nil {
		if len(x.Dense) != len(dense) {
			panic(fmt.Sprintf("gnn: %d features, want %d", len(x.Dense), len(dense)))
		}
		copy(dense, x.Dense)
	} else {
		clear(dense)
		for i, index := range x.Index {
			dense[index] = x.Value[i]
		}
	}
	for j, v := range dense {
		dense[j] = (v - n.Mean[j]) / n.Std[j]
	}
	return Vector{Dense: dense}
}
