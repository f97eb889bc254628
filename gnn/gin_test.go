package gnn

import (
	"testing"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// TestBatchNormFolds: in a Sequential of Linear, BatchNorm1d, ReLU and Linear, the
// normalisation is folded into the first map.
func TestBatchNormFolds(t *testing.T) {
	enc, err := Load(KindGIN, ReLU, map[string]safetensors.Tensor{
		"convs.0.eps":                      safetensors.Of([]float32{0.5}, 1),
		"convs.0.nn.0.weight":              safetensors.Of([]float32{2}, 1, 1),
		"convs.0.nn.0.bias":                safetensors.Of([]float32{1}, 1),
		"convs.0.nn.1.weight":              safetensors.Of([]float32{3}, 1),
		"convs.0.nn.1.bias":                safetensors.Of([]float32{-1}, 1),
		"convs.0.nn.1.running_mean":        safetensors.Of([]float32{4}, 1),
		"convs.0.nn.1.running_var":         safetensors.Of([]float32{4}, 1),
		"convs.0.nn.1.num_batches_tracked": safetensors.Of([]int64{9}),
		"convs.0.nn.3.weight":              safetensors.Of([]float32{10}, 1, 1),
		"convs.0.nn.3.bias":                safetensors.Of([]float32{7}, 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	// Sums: 1.5·4 + 2 = 8 and 1.5·2 = 3, so y = 17 and 7; normalised,
	// 3·13/2 - 1 = 18.5 and 3·3/2 - 1 = 3.5.
	x := []Vector{{Dense: []float32{4}}, {Dense: []float32{2}}}
	if d := furthest(enc.Encode(x, []int32{1}, []int32{0}), []float32{192, 42}); d > 1e-5 {
		t.Errorf("relative error %g", d)
	}
}

// TestGINByHand compares two layers with their formula: node 0 has the neighbours 1, twice,
// and itself.
func TestGINByHand(t *testing.T) {
	enc, err := NewGIN(1, ELU,
		GINLayer{1, []Linear{{[]float32{1, -1}, []float32{-3, 0}}, {[]float32{1, 1}, []float32{0}}}},
		GINLayer{-1, []Linear{{[]float32{2}, []float32{1}}}})
	if err != nil {
		t.Fatal(err)
	}
	x := []Vector{{Dense: []float32{1}}, {Index: []uint32{0}, Value: []float32{-6}}}
	got := enc.Encode(x, []int32{1, 1, 0}, []int32{0, 0, 0})
	// Sums: 2·1 - 6 - 6 + 1 = -9 and 2·-6 = -12. Hidden: (-12, 9)+ and
	// (-15, 12)+, so the states are 9 and 12. Sums without the own: 12 + 12 +
	// 9 = 33 and none.
	if d := furthest(got, []float32{67, 1}); d > 1e-6 {
		t.Errorf("got %v", got)
	}
}
