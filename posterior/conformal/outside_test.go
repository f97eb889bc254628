package conformal

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// rowsOf draws embeddings of three dimensions of which the third is twice the
// first and the second has a standard deviation of 10.
func rowsOf(rng *rand.Rand, n int) (rows [][]float32) {
	for range n {
		x := rng.NormFloat64()
		rows = append(rows, []float32{float32(x + 5), float32(10 * rng.NormFloat64()), float32(2 * x)})
	}
	return rows
}

// TestOutside: distances are in standard deviations, and an embedding outside the
// plane of the reference is far, however near it is to the mean.
func TestOutside(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	o := NewOutside(3)
	for i, z := range rowsOf(rng, 16*3) {
		if o.Full() || o.Score(z) != 0 {
			t.Fatalf("full, or a score, after %d rows", i)
		}
		o.Learn(z)
	}
	if !o.Full() {
		t.Fatal("not full")
	}
	beyond := 0
	fresh := rowsOf(rng, 2000)
	for _, z := range fresh {
		if o.Score(z) > 1 {
			beyond++
		}
	}
	if share := float64(beyond) / float64(len(fresh)); share > 0.1 {
		t.Errorf("%v of rows like the reference's are beyond 1", share)
	}
	for name, z := range map[string][]float32{
		"far in a wide direction":    {5, 60, 0},
		"far in a narrow one":        {11, 0, 12},
		"near, but out of the plane": {5, 0, 3},
	} {
		if s := o.Score(z); !(s > 2) {
			t.Errorf("%s: %v", name, s)
		}
	}
	before := o.AppendState(nil)
	o.Learn([]float32{1, 2, 3})
	if !bytes.Equal(before, o.AppendState(nil)) {
		t.Error("a full reference changed")
	}
}

// TestOutsideConstant: a reference of equal rows does not cause a division by zero.
func TestOutsideConstant(t *testing.T) {
	o := NewOutside(2)
	for range 32 {
		o.Learn([]float32{1, 0})
	}
	if s := o.Score([]float32{1, 0}); s != 0 {
		t.Errorf("the same again: %v", s)
	}
	if s := o.Score([]float32{1, 1}); !(s > 1) || math.IsNaN(s) {
		t.Errorf("another: %v", s)
	}
}

// TestOutsideState: a restored score continues as the saved one, and damaged states
// are errors.
func TestOutsideState(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, n := range []int{0, 1, 47, 48, 60} {
		a, b := NewOutside(3), NewOutside(3)
		for _, z := range rowsOf(rng, n) {
			a.Learn(z)
		}
		state := a.AppendState(nil)
		if err := b.SetState(state); err != nil {
			t.Fatal(err)
		}
		for _, z := range rowsOf(rng, 60) {
			a.Learn(z)
			b.Learn(z)
			if a.Score(z) != b.Score(z) {
				t.Fatal("other scores")
			}
		}
		was := b.AppendState(nil)
		broken := map[string][]byte{"short": state[:len(state)-8], "torn": state[:len(state)-1], "long": append(bytes.Clone(state), make([]byte, 8)...), "nothing": nil}
		if n > 0 {
			nan := bytes.Clone(state)
			copy(nan[len(nan)-8:], []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f})
			broken["not a number"] = nan
		}
		for name, state := range broken {
			if err := b.SetState(state); err == nil {
				t.Errorf("%d rows, %s: taken", n, name)
			}
		}
		if !bytes.Equal(was, b.AppendState(nil)) {
			t.Error("a state that was refused changed something")
		}
	}
}
