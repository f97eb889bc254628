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

// TestOutside: distances are relative to the spread of the reference in each direction. An
// embedding outside the plane of the reference is far, however near it is to the mean. A
// reference that is full does not change.
func TestOutside(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	o := NewOutside(3)
	for i, z := range rowsOf(rng, 16*3) {
		if o.Full() || o.Score(z) != 0 {
			t.Fatalf("after %d rows: full %v, score %v, want neither before 48", i, o.Full(), o.Score(z))
		}
		o.Learn(z)
	}
	if !o.Full() {
		t.Fatal("the reference is not full after 48 rows")
	}
	beyond := 0
	fresh := rowsOf(rng, 2000)
	for _, z := range fresh {
		if o.Score(z) > 1 {
			beyond++
		}
	}
	if share := float64(beyond) / float64(len(fresh)); share > 0.1 {
		t.Errorf("a share of %v of rows from the same distribution is beyond 1, want at most 0.1", share)
	}
	for name, z := range map[string][]float32{
		"far in a wide direction":    {5, 60, 0},
		"far in a narrow direction":  {11, 0, 12},
		"near, but out of the plane": {5, 0, 3},
	} {
		if s := o.Score(z); !(s > 2) {
			t.Errorf("%s: score %v, want above 2", name, s)
		}
	}
	before := o.AppendState(nil)
	o.Learn([]float32{1, 2, 3})
	if !bytes.Equal(before, o.AppendState(nil)) {
		t.Error("Learn changed a full reference")
	}
}

// TestOutsideConstant: a reference of equal rows does not cause a division by zero.
func TestOutsideConstant(t *testing.T) {
	o := NewOutside(2)
	for range 32 {
		o.Learn([]float32{1, 0})
	}
	if s := o.Score([]float32{1, 0}); s != 0 {
		t.Errorf("score %v of the row of the reference, want 0", s)
	}
	if s := o.Score([]float32{1, 1}); !(s > 1) || math.IsNaN(s) {
		t.Errorf("score %v of another row, want above 1", s)
	}
}

// TestOutsideState: a restored reference gives the same scores as the saved one. Damaged
// states are errors that change nothing.
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
				t.Fatal("the saved and the restored reference give other scores")
			}
		}
		was := b.AppendState(nil)
		broken := map[string][]byte{"short": state[:len(state)-8], "half a number": state[:len(state)-1], "long": append(bytes.Clone(state), make([]byte, 8)...), "empty": nil}
		if n > 0 {
			nan := bytes.Clone(state)
			copy(nan[len(nan)-8:], []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f})
			broken["not a number"] = nan
		}
		for name, state := range broken {
			if err := b.SetState(state); err == nil {
				t.Errorf("%d rows, %s: SetState succeeded, want an error", n, name)
			}
		}
		if !bytes.Equal(was, b.AppendState(nil)) {
			t.Error("a refused state changed the reference")
		}
	}
}
