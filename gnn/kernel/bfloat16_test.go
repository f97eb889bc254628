package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestNarrow: at every level and width, Narrow rounds to the nearest bfloat16, ties to
// even, and Widen restores it exactly.
func TestNarrow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, l := range levels() {
		at(l, func() {
			for width := range 70 {
				src := make([]float32, width)
				for j := range src {
					src[j] = math.Float32frombits(rng.Uint32())
					if rng.IntN(3) == 0 { // half-way between two bfloat16
						src[j] = math.Float32frombits(rng.Uint32()<<16 | 0x8000)
					}
					if src[j] != src[j] {
						src[j] = float32(math.Inf(1 - 2*rng.IntN(2)))
					}
				}
				short, back := make([]uint16, width), make([]float32, width)
				Narrow(short, src)
				Widen(back, short)
				for j, x := range src {
					down := math.Float32frombits(math.Float32bits(x) &^ 0xffff)
					up := math.Float32frombits(math.Float32bits(x)&^0xffff + 0x10000)
					far := func(y float32) float64 { return math.Abs(float64(y) - float64(x)) }
					want := down
					if far(up) < far(down) || far(up) == far(down) && math.Float32bits(up)>>16&1 == 0 && down != x {
						want = up
					}
					if math.IsInf(float64(up), 0) && !math.IsInf(float64(x), 0) {
						continue // rounds to infinity: no distance to compare
					}
					if back[j] != want {
						t.Fatalf("%s: %v is rounded to %v, want %v", l, x, back[j], want)
					}
				}
			}
		})
	}
}
