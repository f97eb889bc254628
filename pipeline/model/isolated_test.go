package model

import (
	"testing"

	"github.com/gvbll/gvbll/gnn"
)

// TestFillIsolated: what is lonely is filled under homophily, and only then.
func TestFillIsolated(t *testing.T) {
	d := Data{Classes: []string{"a", "b"}, Labels: []int32{0, 0, 1, 1, 0}, Src: []int32{0, 1, 2, 3}, Dst: []int32{1, 0, 3, 2}}
	d.X = make([]gnn.Vector, 5)
	if src, dst, n := fillIsolated(d); n != 1 || len(src) != 5 || src[4] != 4 || dst[4] != 4 {
		t.Errorf("edges between equals: %v, %v, %d filled", src, dst, n)
	}
	d.Labels = []int32{0, 1, 1, 0, 0}
	if src, _, n := fillIsolated(d); n != 0 || len(src) != 4 {
		t.Errorf("edges between others: %d edges, %d filled", len(src), n)
	}
	d.Src, d.Dst = nil, nil
	if _, _, n := fillIsolated(d); n != 0 {
		t.Errorf("no edges say nothing: %d filled", n)
	}
}
