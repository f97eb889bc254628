package pool

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// writer appends state to b: 64-bit integers and the bits of float64s, all
// little-endian, without padding.
type writer struct{ b []byte }

func (w *writer) uint(x uint64)   { w.b = binary.LittleEndian.AppendUint64(w.b, x) }
func (w *writer) float(x float64) { w.uint(math.Float64bits(x)) }

func (w *writer) floats(x []float64) {
	at := len(w.b)
	w.b = slices.Grow(w.b, 8*len(x))[:at+8*len(x)]
	for i, v := range x {
		binary.LittleEndian.PutUint64(w.b[at+8*i:], math.Float64bits(v))
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

// section writes the number of bytes that appends appends, and then these.
func (w *writer) section(appends func([]byte) []byte) {
	at := len(w.b)
	w.uint(0)
	w.b = appends(w.b)
	binary.LittleEndian.PutUint64(w.b[at:], uint64(len(w.b)-at-8))
}

// reader reads what writer wrote. After the first error it returns zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) uint() uint64 {
	if len(r.b) < 8 {
		r.check(false, "too short")
		return 0
	}
	x := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return x
}

// maxNumber bounds the numbers of a state. No learned state comes near it, and the sums
// and products of a prediction stay finite.
const maxNumber = 1e80

// float reads a number from -maxNumber to maxNumber.
func (r *reader) float() float64 {
	x := math.Float64frombits(r.uint())
	if !(math.Abs(x) <= maxNumber) {
		r.check(false, "a number is %v", x)
	}
	return x
}

func (r *reader) floats(dst []float64) { r.numbers(dst, math.Inf(-1), "") }

// positives reads numbers, which must be positive; what names one of them in an error.
func (r *reader) positives(dst []float64, what string) {
	r.numbers(dst, math.SmallestNonzeroFloat64, what)
}

// counts reads numbers, which must not be negative.
func (r *reader) counts(dst []float64) { r.numbers(dst, 0, "a count") }

// numbers reads numbers, which must not be below least.
func (r *reader) numbers(dst []float64, least float64, what string) {
	for i := range dst {
		x := r.float()
		if x < least {
			r.check(false, "%s is %v", what, x)
		}
		dst[i] = x
	}
}

// section has set read the bytes of a section.
func (r *reader) section(set func([]byte) error) {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.check(false, "a section of %d bytes where %d are left", n, len(r.b))
		return
	}
	if r.err == nil {
		r.err = set(r.b[:n])
	}
	r.b = r.b[n:]
}

// check records an error unless ok, or unless there is one already.
func (r *reader) check(ok bool, format string, args ...any) {
	if !ok && r.err == nil {
		r.err = fmt.Errorf("pool: state: "+format, args...)
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
