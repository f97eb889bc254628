package gnn

import (
	"testing"
)

// TestSAGEByHand compares two layers with their formula: node 0 has the neighbours 1,
// twice, and itself; node 1 has none.
func TestSAGEByHand(t *testing.T) {
	enc, err := NewSAGE(1, ReLU,
		SAGELayer{Neigh: []float32{1, -1}, Bias: []float32{0.5, 0}, Self: []float32{2, 1}},
		SAGELayer{Neigh: []float32{1, 10}, Bias: []float32{-1}})
	if err != nil {
		t.Fatal(err)
	}
	x := []Vector{{Dense: []float32{3}}, {Index: []uint32{0}, Value: []float32{-6}}}
	got := enc.Encode(x, []int32{1, 1, 0}, []int32{0, 0, 0})
	// Means: (-6-6+3)/3 = -3 and none. States: 0: (-3+6.5, 3+3)+ = (3.5, 6);
	// 1: (-11.5, -6)+ = (0, 0). Their mean at 0: (7/6, 2) from (0, 0) twice
	// and (3.5, 6) once; so z_0 = 7/6 + 20 - 1 and z_1 = -1.
	if d := furthest(got, []float32{7./6 + 19, -1}); d > 1e-6 {
		t.Errorf("got %v", got)
	}
}
