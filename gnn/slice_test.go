package gnn

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSlicesSum: on a graph whose nodes come, change, lose edges, leave and return, the
// embeddings of the slices of an encoder add up to those of the whole.
func TestSlicesSum(t *testing.T) {
	for _, kind := range []Kind{KindSAGE, KindGCN} {
		for _, activation := range []Activation{ReLU, ELU} {
			for _, P := range []int{1, 2, 3, 4, 8} {
				t.Run(fmt.Sprint(kind, activation, P), func(t *testing.T) {
					whole := randomEncoder(rand.New(rand.NewPCG(5, 5)), kind, activation, 7, 48, 6)
					// lived returns the embeddings of all nodes after each round.
					lived := func(enc Encoder) (rounds [][]float32) {
						g, c := NewGraph(enc), &survivors{}
						c.live(rand.New(rand.NewPCG(3, 31)), g, 40, func() {
							nodes, _ := c.left()
							z := make([]float32, len(nodes)*enc.Out())
							g.Embed(nodes, z)
							rounds = append(rounds, z)
						})
						return rounds
					}
					want := lived(whole)
					parts := make([][][]float32, P)
					for p := range P {
						slice, err := Slice(whole, p, P)
						if err != nil {
							t.Fatal(err)
						}
						if got := slice.widths()[1]; got != 48/P {
							t.Fatalf("slice %d has a hidden width of %d, want %d", p, got, 48/P)
						}
						parts[p] = lived(slice)
					}
					for round := range want {
						of := make([][]float32, P)
						for p := range P {
							of[p] = parts[p][round]
						}
						got := make([]float32, len(want[round]))
						SumSlices(got, of)
						if d := furthest(got, want[round]); d > tolerance {
							t.Fatalf("round %d: relative error %g against the whole encoder", round, d)
						}
					}
				})
			}
		}
	}
}

// TestSumSlicesOrder: the sum is the tree of neighbouring slices.
func TestSumSlicesOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 5)
	parts := make([][]float32, len(x))
	for i := range x {
		x[i] = float32(rng.NormFloat64())
		parts[i] = []float32{x[i]}
	}
	got := make([]float32, 1)
	SumSlices(got, parts)
	if want := ((x[0] + x[1]) + (x[2] + x[3])) + x[4]; got[0] != want {
		t.Errorf("the sum is %v, want %v", got[0], want)
	}
}

// TestSliceRefuses: what cannot be cut is refused in one line that says what can.
func TestSliceRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		kind  Kind
		width []int
		p, P  int
		want  string
	}{
		{KindGIN, []int{3, 8, 4}, 0, 2, "train a graphsage or gcn"},
		{KindGAT, []int{3, 8, 4}, 0, 2, "train a graphsage or gcn"},
		{KindSAGE, []int{3, 8, 8, 4}, 0, 2, "train one of 2 layers"},
		{KindGCN, []int{3, 8}, 0, 2, "train one of 2 layers"},
		{KindSAGE, []int{3, 6, 4}, 0, 4, "give a number that divides it"},
		{KindSAGE, []int{3, 8, 4}, 0, 0, "give 1 to 64 slices"},
		{KindSAGE, []int{3, 8, 4}, 2, 2, "give 1 to 64 slices"},
		{KindSAGE, []int{3, 65, 4}, 0, 65, "give 1 to 64 slices"},
	} {
		_, err := Slice(randomEncoder(rng, c.kind, ReLU, c.width...), c.p, c.P)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("slice %d of %d of %s %v: error %v, want one line with %q", c.p, c.P, c.kind, c.width, err, c.want)
		}
	}
}
