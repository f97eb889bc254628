package pool

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// state is bytes in the making: 64-bit integers and the bits of float64s, all
// little-endian, one after the other.
type state struct{ b []byte }

func (s *state) uint(x uint64)   { s.b = binary.LittleEndian.AppendUint64(s.b, x) }
func (s *state) float(x float64) { s.uint(math.Float64bits(x)) }

func (s *state) floats(x []float64) {
	at := len(s.b)
	s.b = slices.Grow(s.b, 8*len(x))[:at+8*len(x)]
	for i, v := range x {
		binary.LittleEndian.PutUint64(s.b[at+8*i:], math.Float64bits(v))
	}
}

// section adds what appends bytes, after their number.
func (s *state) section(appends func([]byte) []byte) {
	at := len(s.b)
	s.uint(0)
	s.b = appends(s.b)
	binary.LittleEndian.PutUint64(s.b[at:], uint64(len(s.b)-at-8))
}

// reader reads what state wrote. After the first error it gives zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) uint() uint64 {
	if len(r.b) < 8 {
		r.want(false, "too short")
		return 0
	}
	x := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return x
}

// float reads a finite number.
func (r *reader) float() float64 {
	x := math.Float64frombits(r.uint())
	r.want(!math.IsNaN(x) && !math.IsInf(x, 0), "a number is %v", x)
	return x
}

func (r *reader) floats(dst []float64) {
	for i := range dst {
		dst[i] = r.float()
	}
}

func (r *reader) section(set func([]byte) error) {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.want(false, "a section of %d bytes where %d are left", n, len(r.b))
		return
	}
	if r.err == nil {
		r.err = set(r.b[:n])
	}
	r.b = r.b[n:]
}

// want notes an error unless ok or one was noted before.
func (r *reader) want(ok bool, format string, args ...any) {
	if !ok && r.err == nil {
		r.err = fmt.Errorf("pool: state: "+format, args...)
	}
}

// StateBytes returns how long the state of a pool is, so that a state from
// outside can be held to it before memory is taken for the pool. It is a
// float64 because shapes from outside may be any.
func (s Config) StateBytes(shape Shape) float64 {
	d, classes, z := float64(shape.Features), float64(shape.Classes), float64(shape.Embedding)
	words := 6 + 3*float64(1+len(s.Heads)) // header and scores
	weights := classes
	for _, h := range s.Heads {
		if !h.Shadow {
			weights++
		}
		switch {
		case h.Wide != nil:
			columns, scaled := d, d
			if h.Wide.Neighbours {
				columns, scaled = 2*d, 2*d
			}
			if h.Wide.Scale == Standard {
				columns++
				words += 2 * scaled
			}
			words += 2 + columns*(1+2*classes)
		case h.Bayes != nil:
			words += 1 + classes + d*classes
		case h.Label != nil:
			words += 1 + classes*classes
		case h.Vote != nil:
			words += 1 + classes
		case h.Joint != nil:
			words += 1 + 2*classes*(z+2*classes+1)
		case h.Full != nil:
			words += 1 + z*classes + classes*z*(z+1)/2
		case h.Online != nil:
			words += 4 + 2*z*classes
		default:
			words++ // the length of nothing
		}
	}
	words += weights + weights*(weights+1)/2
	return 8 * words
}
