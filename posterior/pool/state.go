package pool

import (
	"math"
	"math/bits"
	"slices"
)

// digest is a summary of numbers, in their order, in 64 bits. Lists that differ in one number have different
// digests, and others have the same by a chance of 2⁻⁶⁴.
type digest uint64

func (d *digest) uint(x uint64) {
	*d = digest(bits.RotateLeft64((uint64(*d)^x)*0x9e3779b97f4a7c15, 29)) // odd: 2⁶⁴ over the golden ratio
}

func (d *digest) floats(x []float64) {
	for _, v := range x {
		d.uint(math.Float64bits(v))
	}
}

// StateBytes returns the least and the largest length of the state of a pool of that shape, so that
// the state in a file can be checked against them before memory is allocated for the
// pool: they differ by the rows of a fitted head. They are float64 because an untrusted shape could overflow an integer.
func (s Config) StateBytes(shape Shape) (least, most float64) {
	classes := float64(shape.Classes)
	names := float64(1 + len(s.Heads))
	var words, members, rows float64
	for _, h := range s.Heads {
		if h.isMember() {
			members++
		}
		if h.Fitted != nil {
			names++ // the half
		}
		of, kept := h.stateWords(shape)
		words, rows = words+of, rows+kept
	}
	words += triangular(members + classes)
	if s.Mixture != nil {
		names += products
		words += triangular(members) + products + members
		if s.Fits() {
			words += 2
		}
		if s.Mixture.Anew {
			words++
		}
	}
	words += 6 + float64(3*names) // header and scores
	return 8 * words, 8 * (words + rows)
}

// stateWords returns how many numbers the head's state has, and how many more its rows may have.
func (h HeadConfig) stateWords(shape Shape) (words, rows float64) {
	d, classes, z := float64(shape.Features), float64(shape.Classes), float64(shape.Embedding)
	switch {
	case h.Wide != nil:
		var columns, mixed float64
		for _, b := range h.Wide.Blocks {
			n := width(b, d, classes, float64(shape.Means))
			columns += n
			if h.Wide.Scale == Standard && b.isFeatures() {
				words += float64(2 * n)
			}
			if h.Wide.mixes(b, n) {
				mixed += n
			}
		}
		if h.Wide.Interactions > 0 {
			columns += float64(h.Wide.Interactions)
			words += float64(2 * mixed)
		}
		words += 2 + float64(columns*(1+float64(2*classes)))
	case h.Fitted != nil:
		columns := h.Fitted.columns(shape)
		for _, b := range h.Fitted.Blocks {
			if h.Fitted.Scale == Standard && b.isFeatures() {
				words += float64(2 * d)
			}
		}
		if slices.ContainsFunc(h.Fitted.Blocks, Block.isLifts) {
			words += classes
		}
		k, all := float64(h.Fitted.streamed()), float64(len(h.Fitted.Strengths))
		words += 7 + all + float64(4*classes) + float64(float64(columns*classes)*k)
		said := float64(k * classes)
		if h.Fitted.isNewton(shape) {
			said, words = 0, words+newtonWords(columns, classes, k)
		}
		rows = float64(float64(h.Fitted.Rows) * (4 + said + float64(2*columns)))
	case h.Bayes != nil:
		words += 1 + classes + float64(d*classes)
	case h.Label != nil:
		words += 1 + float64(classes*classes)
	case h.Vote != nil:
		words += 1 + classes
	case h.Online != nil:
		words += 4 + float64(2*z*classes)
	default:
		words++ // static: the length of an empty section
	}
	return words, rows
}

// triangular returns the numbers in the state of n weights: θ, and Q's upper triangle.
func triangular(n float64) float64 { return n + float64(n*(n+1)/2) }
