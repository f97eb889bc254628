package table

import (
	"math"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
)

// TestEmbeddings: under the strict protocol a step's nodes are embedded in the
// graph up to that step, under the full one in the whole graph.
func TestEmbeddings(t *testing.T) {
	s, stream := ready(t, easySource(), quick())
	c, err := s.classifier(member{kind: gnn.KindSAGE})
	if err != nil {
		t.Fatal(err)
	}
	last := len(stream.steps) - 1
	for _, protocol := range Protocols {
		z := stream.embeddings(c.encoder, protocol)
		for step := range stream.steps {
			g := stream.known(step, protocol)
			lo, hi := stream.span(step)
			if nodes := len(g.X); protocol == Strict && nodes != hi || protocol == Full && nodes != len(s.graph.Features) {
				t.Fatalf("%s: step %d is embedded in a graph of %d nodes", protocol, step, nodes)
			}
			want := c.encoder.Encode(g.X, g.Src, g.Dst)[lo*c.encoder.Out() : hi*c.encoder.Out()]
			for i := range want {
				if math.Abs(float64(want[i]-z[step][i])) > 1e-5 {
					t.Fatalf("%s: step %d has embedding %v, want %v", protocol, step, z[step][i], want[i])
				}
			}
		}
	}
	strict, full := stream.embeddings(c.encoder, Strict), stream.embeddings(c.encoder, Full)
	if slices.Equal(strict[0], full[0]) {
		t.Error("the first step sees the whole graph")
	}
	for i, x := range strict[last] {
		if math.Abs(float64(x-full[last][i])) > 1e-5 {
			t.Fatal("the last step does not see the whole graph")
		}
	}
}

// TestFolds: every training node is in one fold, and a fold has its share of
// every class.
func TestFolds(t *testing.T) {
	s, _ := ready(t, easySource(), quick())
	others, folds, err := s.folds(4)
	if err != nil {
		t.Fatal(err)
	}
	var all []int32
	for f := range folds {
		both := append(slices.Clone(folds[f]), others[f]...)
		slices.Sort(both)
		if !slices.Equal(both, s.nodes) {
			t.Errorf("fold %d and the others are not the training nodes", f)
		}
		count := make([]int, 3)
		for _, v := range folds[f] {
			count[s.graph.Labels[v]]++
		}
		if slices.Max(count)-slices.Min(count) > 2 {
			t.Errorf("fold %d has %v of the classes", f, count)
		}
		all = append(all, folds[f]...)
	}
	slices.Sort(all)
	if !slices.Equal(all, s.nodes) {
		t.Error("the folds are not the training nodes")
	}
	if got := pieces(all[:10], 3); len(got) != 4 || len(got[0])+len(got[1])+len(got[2])+len(got[3]) != 10 {
		t.Errorf("pieces of 10 nodes, at most 3 each: %v", got)
	}
	if got := pieces(all[:2], 30); len(got) != 2 {
		t.Errorf("pieces of 2 nodes: %v", got)
	}
}
