// Package words writes the states of heads and detectors as bytes, and reads them. A part declares its state
// once, for both.
package words

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Stream writes a state, or reads one: 64-bit integers and the bits of float64s, all little-endian, without
// padding. What declares a state does both. After the first error of reading, everything is 0.
type Stream struct {
	B     []byte // what was written, or is still to be read
	Reads bool
	Err   error
}

// Uint declares an integer.
func (s *Stream) Uint(x *uint64) {
	switch {
	case !s.Reads:
		s.Put(*x)
	case len(s.B) < 8:
		s.Check(false, "too short")
		*x = 0
	default:
		*x, s.B = binary.LittleEndian.Uint64(s.B), s.B[8:]
	}
}

// Put writes an integer of a summary, which is never read.
func (s *Stream) Put(x uint64) { s.B = binary.LittleEndian.AppendUint64(s.B, x) }

// Integer declares an integer of any sign.
func (s *Stream) Integer(x *int64) {
	bits := uint64(*x)
	if s.Uint(&bits); s.Reads {
		*x = int64(bits)
	}
}

// Below declares an integer from 0 to below a bound.
func (s *Stream) Below(x *int, bound int, what string) {
	n := uint64(*x)
	if s.Uint(&n); !s.Reads {
		return
	}
	s.Check(n < uint64(bound), "%s is %d, of %d", what, n, bound)
	if *x = int(n); s.Err != nil {
		*x = 0
	}
}

// Flag declares whether something is so; what says what, in an error.
func (s *Stream) Flag(x *bool, what string) {
	n := 0
	if *x {
		n = 1
	}
	if s.Below(&n, 2, what); s.Reads {
		*x = n == 1
	}
}

// maxNumber bounds the numbers of a state. No learned state comes near it, and the sums
// and products of a prediction stay finite.
const maxNumber = 1e80

// Number declares a number of any bits.
func (s *Stream) Number(x *float64) {
	bits := math.Float64bits(*x)
	if s.Uint(&bits); s.Reads {
		*x = math.Float64frombits(bits)
	}
}

// Float declares a number from -maxNumber to maxNumber.
func (s *Stream) Float(x *float64) {
	if s.Number(x); s.Reads && !(math.Abs(*x) <= maxNumber) {
		s.Check(false, "a number is %v", *x)
	}
}

// Floats declares numbers from -maxNumber to maxNumber.
func (s *Stream) Floats(x []float64) { s.numbers(x, math.Inf(-1), "") }

// Positives declares numbers that must be positive; what names one of them in an error.
func (s *Stream) Positives(x []float64, what string) { s.numbers(x, math.SmallestNonzeroFloat64, what) }

// Counts declares numbers that must not be negative.
func (s *Stream) Counts(x []float64) { s.numbers(x, 0, "a count") }

// numbers declares numbers that must not be below least.
func (s *Stream) numbers(x []float64, least float64, what string) {
	if !s.Reads {
		at := len(s.B)
		s.B = slices.Grow(s.B, 8*len(x))[:at+8*len(x)]
		for i, v := range x {
			binary.LittleEndian.PutUint64(s.B[at+8*i:], math.Float64bits(v))
		}
		return
	}
	for i := range x {
		if s.Float(&x[i]); x[i] < least {
			s.Check(false, "%s is %v", what, x[i])
		}
	}
}

// Section declares a part with bytes of its own, behind their number.
func (s *Stream) Section(appends func([]byte) []byte, set func([]byte) error) {
	if !s.Reads {
		at := len(s.B)
		s.Put(0)
		s.B = appends(s.B)
		binary.LittleEndian.PutUint64(s.B[at:], uint64(len(s.B)-at-8))
		return
	}
	var n uint64
	if s.Uint(&n); n > uint64(len(s.B)) {
		s.Check(false, "a section of %d bytes where %d are left", n, len(s.B))
		return
	}
	if s.Err == nil {
		s.Err = set(s.B[:n])
	}
	s.B = s.B[n:]
}

// Check records an error unless ok, or unless there is one already.
func (s *Stream) Check(ok bool, format string, args ...any) {
	if !ok && s.Err == nil {
		s.Err = fmt.Errorf("state: "+format, args...)
		s.B = nil
	}
}

// Holds reports whether so many words are left to be read, and records an error if not. Ask before
// memory is taken for them.
func (s *Stream) Holds(words int) bool {
	if len(s.B)/8 < words {
		s.Check(false, "too short")
	}
	return s.Err == nil
}

// Append appends what state declares to b.
func Append(b []byte, state func(s *Stream)) []byte {
	s := &Stream{B: b}
	state(s)
	return s.B
}

// Read reads what Append appended, and nothing else.
func Read(b []byte, state func(s *Stream)) error {
	s := &Stream{B: b, Reads: true}
	if state(s); len(s.B) > 0 {
		s.Check(false, "%d bytes more than it says", len(s.B))
	}
	return s.Err
}
