package gnn

import (
	"cmp"
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
	// NormalizeRanks is NormalizeStandard of the log odds of a feature's rank among the training nodes in place of the
	// feature, where that is not about normal; see [straight].
	NormalizeRanks Normalization = "ranks"
)

// A feature is about normal if its correlation with the log odds of its ranks is at least straight. That is .99 for a normal
// one, .955 for a uniform and .91 for an exponential one, and 1 with two values, which ranks would not change. More features
// than mostRanked are no columns of a table.
const (
	straight   = .97
	mostRanked = 1024
)

// Normalizer normalises features as it did in training. It belongs to the model
// and is saved with it.
type Normalizer struct {
	Kind Normalization
	// Mean and Std have one entry per feature for NormalizeStandard and NormalizeRanks, and are
	// empty otherwise. Std is the population's (divisor n), or 1 for a feature
	// that never varies.
	Mean, Std []float32
	// Of has the training values of each feature for NormalizeRanks, without knots where the feature stays as it is.
	Of []Distribution
}

// FitNormalizer returns the normaliser of the given kind for features like x,
// those of the training nodes. For NormalizeStandard and NormalizeRanks, sparse features, no nodes,
// and vectors of different lengths are errors. Where no feature is ranked, NormalizeRanks is NormalizeStandard.
func FitNormalizer(kind Normalization, x []Vector) (*Normalizer, error) {
	n := &Normalizer{Kind: kind}
	if !n.standardizes() {
		if err := n.Validate(0); err != nil {
			return nil, err
		}
		return n, nil
	}
	if len(x) == 0 {
		return nil, fmt.Errorf("normalisation %q of no nodes, want at least 1", kind)
	}
	dim := len(x[0].Dense)
	mean, variance := make([]float64, dim), make([]float64, dim)
	for i, v := range x {
		if v.Dense == nil {
			return nil, fmt.Errorf("normalisation %q: node %d has sparse features, which it would make "+
				"dense; choose %q, %q or %q", kind, i, normalizeRowL1, NormalizeRowL2, NormalizeNone)
		}
		if len(v.Dense) != dim {
			return nil, fmt.Errorf("normalisation %q: node %d has %d features, want %d as node 0", kind, i, len(v.Dense), dim)
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
	if kind == NormalizeRanks {
		n.rank(x, mean, variance)
	}
	for j := range mean {
		n.Mean[j] = float32(mean[j])
		n.Std[j] = float32(math.Sqrt(variance[j] / float64(len(x))))
		n.Std[j] = cmp.Or(n.Std[j], 1)
	}
	if err := n.Validate(dim); err != nil {
		return nil, err
	}
	return n, nil
}

// rank learns which features are ranked, and sets their mean, and the sum of squares about it, to those of the log odds. If
// some are, a feature that never varies is ranked, too: nothing is known of its scale.
func (n *Normalizer) rank(x []Vector, mean, variance []float64) {
	n.Kind = NormalizeStandard
	if len(mean) > mostRanked {
		return
	}
	of, some := make([]Distribution, len(mean)), false
	center, square := make([]float64, len(mean)), make([]float64, len(mean)) // of log odds
	values, odds := make([]float64, len(x)), make([]float64, len(x))
	for j := range of {
		for i := range x {
			values[i] = float64(x[i].Dense[j])
		}
		of[j] = DistributionOf(values)
		for i, v := range values {
			odds[i] = of[j].LogOdds(v)
			center[j] += odds[i] / float64(len(x))
		}
		product := 0.0
		for i, v := range values {
			d := odds[i] - center[j]
			square[j] += float64(d * d)
			product += float64(d * (v - mean[j]))
		}
		switch {
		case len(of[j].Knots) == 1:
		case product >= straight*math.Sqrt(square[j])*math.Sqrt(variance[j]):
			of[j] = Distribution{}
		default:
			some = true
		}
	}
	if some {
		n.Kind, n.Of = NormalizeRanks, of
	}
	for j := range n.Of {
		if of[j].Knots != nil {
			mean[j], variance[j] = center[j], square[j]
		}
	}
}

// standardizes reports whether features are made dense, and standardised.
func (n *Normalizer) standardizes() bool {
	return n.Kind == NormalizeStandard || n.Kind == NormalizeRanks
}

// Ranked returns n if it ranks features, and else nil.
func (n *Normalizer) Ranked() *Normalizer {
	if n != nil && n.Kind == NormalizeRanks {
		return n
	}
	return nil
}

// Usual returns about the mean or the median of a feature in the training rows, or 0 where it is not standardised.
func (n *Normalizer) Usual(j int) float32 {
	switch {
	case n.Of != nil && n.Of[j].Knots != nil:
		return float32(n.Of[j].Median())
	case n.Mean != nil:
		return n.Mean[j]
	}
	return 0
}

// Deviations returns by how many standard deviations a value of feature j is off the mean, or the value itself where that is
// not known.
func (n *Normalizer) Deviations(j int, v float32) float32 {
	if n.Of != nil && n.Of[j].Knots != nil {
		v = float32(n.Of[j].LogOdds(float64(v)))
	}
	if n.Mean != nil {
		v = (v - n.Mean[j]) / n.Std[j]
	}
	return v
}

// Validate returns an error unless n is a valid normaliser of features of
// dimension dim. Call it on a normaliser read from a model file.
func (n *Normalizer) Validate(dim int) error {
	switch n.Kind {
	case NormalizeNone, normalizeRowL1, NormalizeRowL2:
		dim = 0
	case NormalizeStandard, NormalizeRanks:
	default:
		return fmt.Errorf("normalisation %q is not one of %q, %q, %q, %q, %q", n.Kind, NormalizeNone, normalizeRowL1,
			NormalizeRowL2, NormalizeStandard, NormalizeRanks)
	}
	if want := map[bool]int{true: dim}[n.Kind == NormalizeRanks]; len(n.Of) != want {
		return fmt.Errorf("normalisation %q has %d distributions, want %d", n.Kind, len(n.Of), want)
	}
	for j := range n.Of {
		if err := n.Of[j].Check(); err != nil {
			return fmt.Errorf("normalisation %q: feature %d: %w", n.Kind, j, err)
		}
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
	if n.standardizes() {
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
		dense[j] = n.Deviations(j, v)
	}
	return Vector{Dense: dense}
}
