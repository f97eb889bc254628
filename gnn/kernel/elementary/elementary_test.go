package elementary

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
)

// TestElementary: the functions agree with those of package math, and their bits have a
// recorded hash: graphs that were generated once must not change.
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
		e := Exp(x)
		if want := math.Exp(x); e != want && !(math.Abs(e-want) <= 4e-16*want) && x > -708 && x < 709 {
			t.Fatalf("exp(%v) = %v, want %v", x, e, want)
		}
		l := Log(math.Abs(x))
		if want := math.Log(math.Abs(x)); math.Abs(l-want) > 4e-16*math.Abs(want) {
			t.Fatalf("log(%v) = %v, want %v", math.Abs(x), l, want)
		}
		y := 1000 * x
		s, c := SinCos(y)
		if math.Abs(s-math.Sin(y)) > 1e-15 || math.Abs(c-math.Cos(y)) > 1e-15 {
			t.Fatalf("sincos(%v) = %v, %v, want %v, %v", y, s, c, math.Sin(y), math.Cos(y))
		}
		put(e, l, s, c)
	}
	if Exp(math.Inf(-1)) != 0 || Exp(0) != 1 || !math.IsInf(Exp(800), 1) {
		t.Errorf("exp is %v at -Inf, %v at 0 and %v at 800, want 0, 1 and +Inf", Exp(math.Inf(-1)), Exp(0), Exp(800))
	}
	if got := bits.Sum64(); got != wantBits {
		t.Errorf("hash of the bits %#x, want %#x", got, uint64(wantBits))
	}
}

const wantBits = 0x83333f46e29d8927

// TestExp: exp agrees with math.Exp over its whole range, and has its limits beyond.
func TestExp(t *testing.T) {
	for x := -708.0; x <= 709; x += 0.00917 {
		if got, want := Exp(x), math.Exp(x); math.Abs(got-want) > 4e-16*want {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	for _, c := range []struct{ x, want float64 }{
		{0, 1}, {-1e300, 0}, {math.Inf(-1), 0}, {1e300, math.Inf(1)}, {math.Inf(1), math.Inf(1)},
	} {
		if got := Exp(c.x); got != c.want {
			t.Errorf("exp(%v) = %v, want %v", c.x, got, c.want)
		}
	}
	if got := Exp(math.NaN()); !math.IsNaN(got) {
		t.Errorf("exp(NaN) = %v, want NaN", got)
	}
}
