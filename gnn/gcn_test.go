package gnn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGCNByHand compares a layer with its formula: node 1 is a neighbour of node 0 twice,
// and node 0's two loops do not count.
func TestGCNByHand(t *testing.T) {
	enc, err := NewGCN(1, ELU,
		GCNLayer{[]float32{1}, []float32{-1}},
		GCNLayer{[]float32{2}, []float32{0.5}})
	if err != nil {
		t.Fatal(err)
	}
	x := []Vector{{Dense: []float32{3}}, {Index: []uint32{0}, Value: []float32{0.25}}}
	got := enc.Encode(x, []int32{1, 0, 1, 0}, []int32{0, 0, 0, 0})
	// The degrees are d_0 = 3 and d_1 = 1.
	root := math.Sqrt(3)
	h0, h1 := 3./3+2*0.25/root-1, math.Expm1(0.25-1)
	want := []float32{float32(2*(h0/3+2*h1/root) + 0.5), float32(2*h1 + 0.5)}
	if d := furthest(got, want); d > 1e-6 {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWeightsOfOneAreNone: a graph whose edges all have the weight 1 gives the bits of one without
// weights, hubs and layers above the first included.
func TestWeightsOfOneAreNone(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	enc := randomEncoder(rng, KindGCN, ReLU, 4, 5, 3).(*GCN)
	plain, weighed := NewGraph(enc), NewGraph(enc.Weighed())
	const n = 700
	x := make([]Vector, n)
	for v := range x {
		x[v] = randomVector(rng, 4, 1)
	}
	plain.Add(x)
	weighed.Add(x)
	for range 3000 {
		u, v := int32(rng.IntN(n)), int32(rng.IntN(n))
		if rng.IntN(2) == 0 {
			u = 0 // a hub
		}
		plain.Link(u, v)
		weighed.Link(u, v)
		weighed.Weigh(WeighedEdge{Source: u, Target: v, Weight: 1})
	}
	if !slices.Equal(embedNodes(plain, n), embedNodes(weighed, n)) {
		t.Error("weights of 1 change embeddings")
	}
}
