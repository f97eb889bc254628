package drift

import (
	"encoding/binary"
	"errors"
	"math"
)

// State is written as 64-bit little-endian words: counts as they are, numbers as the bits
// of float64s.

func appendCount(b []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(b, n) }

func appendFlag(b []byte, set bool) []byte {
	if set {
		return appendCount(b, 1)
	}
	return appendCount(b, 0)
}

func appendNumbers(b []byte, x ...float64) []byte {
	for _, x := range x {
		b = appendCount(b, math.Float64bits(x))
	}
	return b
}

var (
	errLength = errors.New("drift: the state is not as long as it says: it was cut, or is of another configuration")
	errValue  = errors.New("drift: the state holds values that no detector of this configuration has")
)

// reader reads the words of a state. Past the end it returns zeros and sets short.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) count() uint64 {
	if len(r.rest) < 8 {
		r.rest, r.short = nil, true
		return 0
	}
	n := binary.LittleEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	return n
}

func (r *reader) number() float64 { return math.Float64frombits(r.count()) }

// flag reports whether a word is 1. A word other than 0 and 1 sets short.
func (r *reader) flag() bool {
	n := r.count()
	r.short = r.short || n > 1
	return n == 1
}

// holds reports whether n words are left, and sets short if not. Ask before allocating
// memory for them.
func (r *reader) holds(n uint64) bool {
	if uint64(len(r.rest)/8) < n {
		r.rest, r.short = nil, true
	}
	return !r.short
}

// numbers reads n numbers.
func (r *reader) numbers(n int) []float64 {
	if !r.holds(uint64(n)) {
		return nil
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = r.number()
	}
	return x
}

// end returns an error if a word was missing or any is left.
func (r *reader) end() error {
	if r.short || len(r.rest) > 0 {
		return errLength
	}
	return nil
}
