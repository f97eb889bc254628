package model

import (
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
)

// TestComplete: under homophily only, an isolated node gets itself and others of its class
// as neighbours, each once.
func TestComplete(t *testing.T) {
	d := Data{Classes: []string{"a", "b"}, Labels: []int32{0, 0, 1, 1, 0}, Src: []int32{0, 1, 2, 3}, Dst: []int32{1, 0, 3, 2}}
	d.X = make([]gnn.Vector, 5)
	src, dst, n := d.Complete(all(d), 1)
	if n != 1 || len(src) != 7 {
		t.Fatalf("edges between equals: %v to %v, %d completed", src, dst, n)
	}
	added := slices.Sorted(slices.Values(src[4:]))
	if !slices.Equal(added, []int32{0, 1, 4}) || !slices.Equal(dst[4:], []int32{4, 4, 4}) {
		t.Errorf("node 4 was lent %v (to %v), want itself and 0 and 1", added, dst[4:])
	}
	d.Labels = []int32{0, 1, 1, 0, 0}
	if src, _, n := d.Complete(all(d), 1); n != 0 || len(src) != 4 {
		t.Errorf("edges between others: %d edges, %d completed", len(src), n)
	}
	d.Src, d.Dst = nil, nil
	if _, _, n := d.Complete(all(d), 1); n != 0 {
		t.Errorf("no edges say nothing: %d completed", n)
	}
}

// TestCompleteLendsFew: at most five others, whatever the size of the class; equal seeds
// give equal ones.
func TestCompleteLendsFew(t *testing.T) {
	d := Data{Classes: []string{"a", "b"}, Src: []int32{0, 1}, Dst: []int32{1, 0}}
	for i := range 40 {
		d.Labels = append(d.Labels, int32(i/2%2))
	}
	d.X = make([]gnn.Vector, 40)
	src, dst, n := d.Complete(all(d), 3)
	if n != 38 || len(src) != 2+38*(1+lentNeighbours) {
		t.Fatalf("%d completed with %d edges", n, len(src)-2)
	}
	for e := range src {
		if d.Labels[src[e]] != d.Labels[dst[e]] {
			t.Errorf("edge %d joins classes %d and %d", e, d.Labels[src[e]], d.Labels[dst[e]])
		}
	}
	again, _, _ := d.Complete(all(d), 3)
	other, _, _ := d.Complete(all(d), 4)
	if !slices.Equal(src, again) || slices.Equal(src, other) {
		t.Error("the seed alone decides who is lent")
	}
}

// TestCompleteLooksAtTheGivenAlone: a validation node neither gets neighbours nor becomes
// one.
func TestCompleteLooksAtTheGivenAlone(t *testing.T) {
	d := Data{Classes: []string{"a"}, Labels: make([]int32, 6), X: make([]gnn.Vector, 6), Src: []int32{0, 1}, Dst: []int32{1, 0}}
	d.Classes, d.Labels[5] = []string{"a", "b"}, 1
	src, dst, n := d.Complete([]int32{0, 1, 2, 5}, 1)
	if n != 2 || slices.Contains(dst, 3) || slices.Contains(src, 3) || slices.Contains(src, 4) {
		t.Errorf("%v to %v, %d completed", src, dst, n)
	}
}

func all(d Data) (nodes []int32) {
	for v := range d.X {
		nodes = append(nodes, int32(v))
	}
	return nodes
}
