package conformal

import "math/bits"

// set is a set of classes as a bitmap: bit c mod 64 of word c/64 is class c.
type set []uint64

// Has reports whether the class is in the set.
func (s set) has(class int32) bool { return s[class/64]>>(class%64)&1 == 1 }

// Len returns the number of classes.
func (s set) size() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Append appends the classes to dst, ascending.
func (s set) Append(dst []int32) []int32 {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			dst = append(dst, int32(64*i+bits.TrailingZeros64(w)))
		}
	}
	return dst
}

func (s set) add(class int) { s[class/64] |= 1 << (class % 64) }

// Coverage counts served sets and the labels they held. The counts of the parts of a
// stream can be merged.
type Coverage struct {
	Rows    uint64
	Covered uint64 // rows whose set held the label
	Classes uint64 // in all sets together
}

// Add counts a set whose label came.
func (c *Coverage) Add(s set, label int32) (covered bool) {
	covered = s.has(label)
	c.Rows++
	c.Classes += uint64(s.size())
	if covered {
		c.Covered++
	}
	return covered
}

// Merge adds the counts of other.
func (c *Coverage) Merge(other Coverage) {
	c.Rows += other.Rows
	c.Covered += other.Covered
	c.Classes += other.Classes
}

// Rate returns the share of rows that were covered, 0 of none.
func (c Coverage) Rate() float64 { return float64(c.Covered) / float64(max(c.Rows, 1)) }

// MeanSize returns the mean number of classes of a set, 0 of none.
func (c Coverage) MeanSize() float64 { return float64(c.Classes) / float64(max(c.Rows, 1)) }

// The reasons why a prediction should not be acted on, as in messages and metrics.
const (
	emptySet      = "empty-set"      // no class conforms
	largeSet      = "large-set"      // too many classes conform
	lowConfidence = "low-confidence" // the most probable class is not probable enough
)

// Limits are the limits beyond which to abstain. The zero value has none.
type Limits struct {
	MinConfidence float64 // abstain if the confidence is lower
	MaxSize       int     // abstain if the set has more classes, or none; 0 for no limit
}

// Abstain returns the first reason, in the order of the constants, to abstain from a
// prediction with the given confidence and set, "" for none. A nil set is no reason.
func (l Limits) Abstain(confidence float64, set set) string {
	switch {
	case l.MaxSize > 0 && set != nil && set.size() == 0:
		return emptySet
	case l.MaxSize > 0 && set.size() > l.MaxSize:
		return largeSet
	case confidence < l.MinConfidence:
		return lowConfidence
	}
	return ""
}
