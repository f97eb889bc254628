package double

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mathext"
)

// TestSameBitsEverywhere: the elementary functions have the same bits on every machine,
// here those of amd64. Where others stood before, on amd64 they have those' bits, which
// recorded streams depend on.
func TestSameBitsEverywhere(t *testing.T) {
	var wide, unit, positive []float64
	for x := -700.; x < 700; x += 0.0173 {
		wide = append(wide, x)
	}
	for x := 0x1p-1022; x < 1e300; x *= 1.0173 {
		positive = append(positive, x)
	}
	for _, samples := range []int{1, 2, 16, 1000, 1 << 16} {
		for s := range samples {
			unit = append(unit, (float64(s)+0.5)/float64(samples))
		}
	}
	unit = append(unit, 1e-10, 1e-12, 1e-300)
	for _, f := range []struct {
		name   string
		f      func(float64) float64
		before func(float64) float64 // on amd64, or nil
		at     []float64
		hash   uint32
	}{
		{"Exp", Exp, nil, wide, 0xdd563b66},
		{"Log", Log, math.Log, positive, 0xbe6831f5},
		{"log1p", log1p, math.Log1p, positive, 0xe9ad6688},
		{"softplus", Softplus, nil, wide, 0x11c03d47},
		{"normalQuantile", NormalQuantile, mathext.NormalQuantile, unit, 0xe9e12b3d},
	} {
		hash := crc32.NewIEEE()
		for _, x := range f.at {
			y := f.f(x)
			binary.Write(hash, binary.LittleEndian, y)
			if f.before == nil {
				continue
			}
			switch before := f.before(x); {
			case runtime.GOARCH == "amd64" && y != before:
				t.Fatalf("%s(%v) = %v, before it was %v", f.name, x, y, before)
			case math.Abs(y-before) > 1e-14*math.Abs(before):
				t.Fatalf("%s(%v) = %v, want %v", f.name, x, y, before)
			}
		}
		if got := hash.Sum32(); got != f.hash {
			t.Errorf("%s: the bits have the hash %#x, want %#x", f.name, got, f.hash)
		}
	}
}
