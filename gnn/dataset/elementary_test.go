package dataset

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
)

// TestElementary holds the functions to those of package math, and to their bits
// on the machine where they were written.
func TestElementary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	bits := fnv.New64a()
	put := func(values ...float64) {
		for _, v := range values {
			u := math.Float64bits(v)
			for range 8 {
				bits.Write([]byte{byte(u)})
				u >>= 8
			}
		}
	}
	for range 100_000 {
		x := (2*rng.Float64() - 1) * math.Ldexp(1, rng.IntN(20)-10)
		e := exp(x)
		if want := math.Exp(x); e != want && !(math.Abs(e-want) <= 4e-16*want) && x > -708 && x < 709 {
			t.Fatalf("exp(%v) = %v, want %v", x, e, want)
		}
		l := log(math.Abs(x))
		if want := math.Log(math.Abs(x)); math.Abs(l-want) > 4e-16*math.Abs(want) {
			t.Fatalf("log(%v) = %v, want %v", math.Abs(x), l, want)
		}
		y := 1000 * x
		s, c := sincos(y)
		if math.Abs(s-math.Sin(y)) > 1e-15 || math.Abs(c-math.Cos(y)) > 1e-15 {
			t.Fatalf("sincos(%v) = %v, %v, want %v, %v", y, s, c, math.Sin(y), math.Cos(y))
		}
		put(e, l, s, c)
	}
	if exp(math.Inf(-1)) != 0 || exp(0) != 1 || !math.IsInf(exp(800), 1) {
		t.Errorf("exp: %v at -Inf, %v at 0, %v at 800", exp(math.Inf(-1)), exp(0), exp(800))
	}
	if got := bits.Sum64(); got != wantBits {
		t.Errorf("the bits' hash is %#x, want %#x", got, uint64(wantBits))
	}
}

const wantBits = 0x83333f46e29d8927
