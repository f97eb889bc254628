package wire

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// TestInteger: an integer is read as the library wrote it, and one that is cut off is refused.
func TestInteger(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		want := int64(rng.Uint64()>>rng.IntN(64)) * int64(1-2*rng.IntN(2))
		b, err := msgpack.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var in input
		in.reset(b)
		if got, err := in.integer(); err != nil || got != want || in.cursor.left() != 0 {
			t.Fatalf("integer reads % x as %d with %d bytes left (error %v), want %d and none left", b, got, in.cursor.left(), err, want)
		}
		for cut := range b {
			in.reset(b[:cut])
			if got, err := in.integer(); err == nil {
				t.Fatalf("integer reads the first %d bytes of % x as %d, want an error", cut, b, got)
			}
		}
	}
}

// TestLargest: largest ignores signs and reads lists of every length modulo 4. A NaN or an
// infinity at any place makes the result no finite number, so that the features are refused.
func TestLargest(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for n := range 20 {
		x := make([]float32, n)
		want := float32(0)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
			want = max(want, float32(math.Abs(float64(x[i]))))
		}
		if got := largest(x); got != want {
			t.Errorf("the largest magnitude of %v is %v, want %v", x, got, want)
		}
		for i := range x {
			for _, odd := range []float32{float32(math.NaN()), float32(math.Copysign(math.NaN(), -1)), float32(math.Inf(-1))} {
				old := x[i]
				x[i] = odd
				if got := largest(x); got <= math.MaxFloat32 {
					t.Errorf("the largest magnitude of %v is %v, want NaN or infinity", x, got)
				}
				x[i] = old
			}
		}
	}
}
