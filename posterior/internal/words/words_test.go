package words

import (
	"math"
	"testing"
)

// TestBounds: numbers far beyond those that are learned, and none, are not read; nothing is taken for a section that is longer than
// what is there.
func TestBounds(t *testing.T) {
	for _, x := range []float64{1e100 * maxNumber, -1e100 * maxNumber, math.Inf(1), math.NaN()} {
		b := Append(nil, func(s *Stream) { s.Floats([]float64{1, x}) })
		if err := Read(b, func(s *Stream) { s.Floats(make([]float64, 2)) }); err == nil {
			t.Errorf("%v is read", x)
		}
	}
	b := Append(nil, func(s *Stream) { s.Put(math.MaxUint64) })
	if err := Read(b, func(s *Stream) { s.Section(nil, func([]byte) error { return nil }) }); err == nil {
		t.Error("a section of 2^64 bytes is read")
	}
}
