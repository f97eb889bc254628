package pool

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// stream writes a state, or reads one: 64-bit integers and the bits of float64s, all little-endian, without
// padding. What declares a state does both. After the first error of reading, everything is 0.
type stream struct {
	b     []byte // what was written, or is still to be read
	reads bool
	err   error
}

func (s *stream) uint(x *uint64) {
	switch {
	case !s.reads:
		s.put(*x)
	case len(s.b) < 8:
		s.check(false, "too short")
		*x = 0
	default:
		*x, s.b = binary.LittleEndian.Uint64(s.b), s.b[8:]
	}
}

// put writes an integer of a summary, which is never read.
func (s *stream) put(x uint64) { s.b = binary.LittleEndian.AppendUint64(s.b, x) }

// integer declares an integer of any sign.
func (s *stream) integer(x *int64) {
	bits := uint64(*x)
	if s.uint(&bits); s.reads {
		*x = int64(bits)
	}
}

// below declares an integer from 0 to below a bound.
func (s *stream) below(x *int, bound int, what string) {
	n := uint64(*x)
	if s.uint(&n); !s.reads {
		return
	}
	s.check(n < uint64(bound), "%s is %d, of %d", what, n, bound)
	if *x = int(n); s.err != nil {
		*x = 0
	}
}

func (s *stream) flag(x *bool, what string) {
	n := 0
	if *x {
		n = 1
	}
	if s.below(&n, 2, what); s.reads {
		*x = n == 1
	}
}

// maxNumber bounds the numbers of a state. No learned state comes near it, and the sums
// and products of a prediction stay finite.
const maxNumber = 1e80

// float declares a number from -maxNumber to maxNumber.
func (s *stream) float(x *float64) {
	bits := math.Float64bits(*x)
	if s.uint(&bits); !s.reads {
		return
	}
	if *x = math.Float64frombits(bits); !(math.Abs(*x) <= maxNumber) {
		s.check(false, "a number is %v", *x)
	}
}

func (s *stream) floats(x []float64) { s.numbers(x, math.Inf(-1), "") }

// positives declares numbers that must be positive; what names one of them in an error.
func (s *stream) positives(x []float64, what string) { s.numbers(x, math.SmallestNonzeroFloat64, what) }

// counts declares numbers that must not be negative.
func (s *stream) counts(x []float64) { s.numbers(x, 0, "a count") }

// numbers declares numbers that must not be below least.
func (s *stream) numbers(x []float64, least float64, what string) {
	if !s.reads {
		at := len(s.b)
		s.b = slices.Grow(s.b, 8*len(x))[:at+8*len(x)]
		for i, v := range x {
			binary.LittleEndian.PutUint64(s.b[at+8*i:], math.Float64bits(v))
		}
		return
	}
	for i := range x {
		if s.float(&x[i]); x[i] < least {
			s.check(false, "%s is %v", what, x[i])
		}
	}
}

// section declares a part with bytes of its own, behind their number.
func (s *stream) section(appends func([]byte) []byte, set func([]byte) error) {
	if !s.reads {
		at := len(s.b)
		s.put(0)
		s.b = appends(s.b)
		binary.LittleEndian.PutUint64(s.b[at:], uint64(len(s.b)-at-8))
		return
	}
	var n uint64
	if s.uint(&n); n > uint64(len(s.b)) {
		s.check(false, "a section of %d bytes where %d are left", n, len(s.b))
		return
	}
	if s.err == nil {
		s.err = set(s.b[:n])
	}
	s.b = s.b[n:]
}

// check records an error unless ok, or unless there is one already.
func (s *stream) check(ok bool, format string, args ...any) {
	if !ok && s.err == nil {
		s.err = fmt.Errorf("pool: state: "+format, args...)
	}
}

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
		k, all := float64(min(streamed, len(h.Fitted.Strengths))), float64(len(h.Fitted.Strengths))
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
