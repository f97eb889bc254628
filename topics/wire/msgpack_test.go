package wire

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// TestShort: what short reads, the library reads the same, and what short leaves
// is none of the short forms.
func TestShort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		want := int64(rng.Uint64()>>rng.IntN(64)) * int64(1-2*rng.IntN(2))
		b, err := msgpack.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var in input
		in.reset(b)
		if got, err := in.integer(); err != nil || got != want || in.left() != 0 {
			t.Fatalf("% x is read as %d with %d bytes left, %v; want %d", b, got, in.left(), err, want)
		}
		got, size := short(b)
		if size > 0 && (got != want || size != len(b)) {
			t.Fatalf("% x is read as %d of %d bytes, want %d", b, got, size, want)
		}
		for cut := range size {
			if _, size := short(b[:cut]); size > 0 {
				t.Fatalf("of % x, %d bytes are read as a number of %d", b, cut, size)
			}
		}
	}
}

// TestLargest: a sign, a rest behind the fours and a NaN anywhere are all seen.
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
			t.Errorf("%v is the largest of %v, want %v", got, x, want)
		}
		for i := range x {
			for _, odd := range []float32{float32(math.NaN()), float32(math.Copysign(math.NaN(), -1)), float32(math.Inf(-1))} {
				old := x[i]
				x[i] = odd
				if got := largest(x); got <= math.MaxFloat32 {
					t.Errorf("%v is the largest of %v", got, x)
				}
				x[i] = old
			}
		}
	}
}
