package gnn

import (
	"math"
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
