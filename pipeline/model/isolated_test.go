package model_test

import (
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/model"
)

// TestComplete: if training edges join nodes of the same class, an isolated node gets
// itself and other nodes of its class as neighbours, each once. Without homophily or edges
// it does not, nor for an encoder that has no weight for neighbours alone.
func TestComplete(t *testing.T) {
	d := model.Data{Classes: []string{"a", "b"}, Labels: []int32{0, 0, 1, 1, 0}, Src: []int32{0, 1, 2, 3}, Dst: []int32{1, 0, 3, 2}}
	d.X = make([]gnn.Vector, 5)
	src, dst, n := d.Complete(gnn.KindSAGE, all(d), 1)
	if n != 1 || len(src) != 7 {
		t.Fatalf("edges within classes: %v to %v, %d nodes completed, want 7 edges and 1 node", src, dst, n)
	}
	added := slices.Sorted(slices.Values(src[4:]))
	if !slices.Equal(added, []int32{0, 1, 4}) || !slices.Equal(dst[4:], []int32{4, 4, 4}) {
		t.Errorf("node 4 got the neighbours %v (edges to %v), want 0, 1 and itself", added, dst[4:])
	}
	for _, kind := range []gnn.Kind{gnn.KindGCN, gnn.KindGAT, gnn.KindGIN} {
		if src, _, n := d.Complete(kind, all(d), 1); n != 0 || len(src) != 4 {
			t.Errorf("%s, which has one weight for a node and its neighbours: %d edges, %d nodes completed, want 4 and 0", kind, len(src), n)
		}
	}
	d.Labels = []int32{0, 1, 1, 0, 0}
	if src, _, n := d.Complete(gnn.KindSAGE, all(d), 1); n != 0 || len(src) != 4 {
		t.Errorf("edges between classes: %d edges, %d nodes completed, want 4 and 0", len(src), n)
	}
	d.Src, d.Dst = nil, nil
	if _, _, n := d.Complete(gnn.KindSAGE, all(d), 1); n != 0 {
		t.Errorf("no edges: %d nodes completed, want 0", n)
	}
}

// TestCompleteIsBounded: an isolated node gets itself and at most five others, whatever the
// size of its class. They are a function of the seed.
func TestCompleteIsBounded(t *testing.T) {
	d := model.Data{Classes: []string{"a", "b"}, Src: []int32{0, 1}, Dst: []int32{1, 0}}
	for i := range 40 {
		d.Labels = append(d.Labels, int32(i/2%2))
	}
	d.X = make([]gnn.Vector, 40)
	src, dst, n := d.Complete(gnn.KindSAGE, all(d), 3)
	if n != 38 || len(src) != 2+38*6 { // itself and five
		t.Fatalf("%d nodes completed with %d edges, want 38 with %d", n, len(src)-2, 38*6)
	}
	for e := range src {
		if d.Labels[src[e]] != d.Labels[dst[e]] {
			t.Errorf("edge %d joins classes %d and %d, want the same class", e, d.Labels[src[e]], d.Labels[dst[e]])
		}
	}
	again, _, _ := d.Complete(gnn.KindSAGE, all(d), 3)
	other, _, _ := d.Complete(gnn.KindSAGE, all(d), 4)
	if !slices.Equal(src, again) || slices.Equal(src, other) {
		t.Error("neighbours differ for the same seed, or are the same for another")
	}
}

// TestCompleteOnlyTrainingNodes: a node outside the given ones, such as a validation node,
// neither gets neighbours nor becomes one.
func TestCompleteOnlyTrainingNodes(t *testing.T) {
	d := model.Data{Classes: []string{"a"}, Labels: make([]int32, 6), X: make([]gnn.Vector, 6), Src: []int32{0, 1}, Dst: []int32{1, 0}}
	d.Classes, d.Labels[5] = []string{"a", "b"}, 1
	src, dst, n := d.Complete(gnn.KindSAGE, []int32{0, 1, 2, 5}, 1)
	if n != 2 || slices.Contains(dst, 3) || slices.Contains(src, 3) || slices.Contains(src, 4) {
		t.Errorf("edges from %v to %v, %d nodes completed, want 2 and no edge of nodes 3 and 4", src, dst, n)
	}
}

// all lists the nodes of d.
func all(d model.Data) (nodes []int32) {
	for v := range d.X {
		nodes = append(nodes, int32(v))
	}
	return nodes
}
