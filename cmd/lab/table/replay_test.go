package table

import (
	"math"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
)

// TestEmbeddings: under the strict protocol a step's nodes are embedded on the graph up to
// and including that step, under the full protocol on the whole graph. A baseline that
// saw more would have an unfair advantage.
func TestEmbeddings(t *testing.T) {
	tr, stream := ready(t, easySource(), quick(), 1)
	c, err := tr.classifier(member{kind: gnn.KindSAGE})
	if err != nil {
		t.Fatal(err)
	}
	last := len(stream.steps) - 1
	for _, protocol := range protocols {
		z := stream.embeddings(c, protocol)
		for step := range stream.steps {
			g := stream.known(step, protocol)
			lo, hi := stream.span(step)
			if nodes := len(g.X); protocol == strict && nodes != hi || protocol != strict && nodes != len(tr.graph.Features) {
				t.Fatalf("%s: step %d is embedded on a graph of %d nodes, want %d under strict and %d under full", protocol, step, nodes, hi, len(tr.graph.Features))
			}
			want := c.Encode(g.X, g.Src, g.Dst)[lo*c.Out() : hi*c.Out()]
			for i := range want {
				if math.Abs(float64(want[i]-z[step][i])) > 1e-5 {
					t.Fatalf("%s: step %d: number %d of the embeddings is %v, want %v", protocol, step, i, z[step][i], want[i])
				}
			}
		}
	}
	strict, full := stream.embeddings(c, strict), stream.embeddings(c, full)
	if slices.Equal(strict[0], full[0]) {
		t.Error("the first step has the same embeddings under both protocols, want different ones")
	}
	for i, x := range strict[last] {
		if math.Abs(float64(x-full[last][i])) > 1e-5 {
			t.Fatal("the last step has different embeddings under the two protocols, want the same: its graph is the whole one")
		}
	}
}

// TestFolds: every training node is in exactly one fold, and every fold has its share of
// each class, so that no held-out fold lacks one.
func TestFolds(t *testing.T) {
	tr, _ := ready(t, easySource(), quick(), 1)
	others, folds, err := tr.folds(4)
	if err != nil {
		t.Fatal(err)
	}
	var all []int32
	for f := range folds {
		both := append(slices.Clone(folds[f]), others[f]...)
		slices.Sort(both)
		if !slices.Equal(both, tr.nodes) {
			t.Errorf("fold %d together with the nodes outside it is %v, want the training nodes %v", f, both, tr.nodes)
		}
		count := make([]int, 3)
		for _, v := range folds[f] {
			count[tr.graph.Labels[v]]++
		}
		if slices.Max(count)-slices.Min(count) > 2 {
			t.Errorf("fold %d has %v nodes of the classes, want a difference of at most 2", f, count)
		}
		all = append(all, folds[f]...)
	}
	slices.Sort(all)
	if !slices.Equal(all, tr.nodes) {
		t.Errorf("all folds together are %v, want the training nodes %v", all, tr.nodes)
	}
}

// TestUnlabelledAreNotScored: nodes without a label arrive like all others, and every
// system is scored on the labelled nodes alone, the same for each. A step without labels
// does not count.
func TestUnlabelledAreNotScored(t *testing.T) {
	d := easy()
	for v := range d.Labels {
		if v%3 == 0 {
			d.Labels[v] = dataset.Unlabelled
		}
	}
	cut := dataset.Cut{Seed: 1, Share: .3, Steps: 8}
	_, s, err := Of(d, cut).Open(cut)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range s.Steps[3] {
		d.Labels[v] = dataset.Unlabelled
	}
	want := 0
	for _, v := range slices.Concat(s.Steps...) {
		if d.Labels[v] != dataset.Unlabelled {
			want++
		}
	}
	source := Source{Name: "some", Open: func(dataset.Cut) (*dataset.Dataset, dataset.Stream, error) { return d, s, nil }}
	plan := Plan{Sources: []Source{source}, Protocols: []string{strict}, Seeds: []uint64{1}, Settings: quick(), Systems: []string{"graphsage", "gvbll-online", "pool"}}
	results := run(t, plan)
	if len(results) != 3 {
		t.Fatalf("%d results, want 3", len(results))
	}
	for _, r := range results {
		if r.Stream.N != want || len(r.Steps) != 7 {
			t.Errorf("%s is scored on %d labels of %d steps, want %d of 7", r.System, r.Stream.N, len(r.Steps), want)
		}
	}
}

// TestLabelTimes: a label comes before the first step that begins after its time, and never before
// its node was served; in a data set without them, a delay in steps counts.
func TestLabelTimes(t *testing.T) {
	d := &dataset.Dataset{Name: "timed", Dim: 1, Classes: []string{"a", "b"}}
	for v := range 9 {
		d.Features = append(d.Features, gnn.Vector{Dense: []float32{float32(v)}})
		d.Labels, d.Time = append(d.Labels, int32(v%2)), append(d.Time, float64(10*v))
	}
	d.LabelTime = []float64{0, 10, 20, 80, 65, 50, 60, dataset.Never, 90}
	stream := newReplay(d, dataset.Stream{Train: []int32{0, 1, 2}, Steps: [][]int32{{3, 4}, {5, 6}, {7}, {8}}}, &gnn.Normalizer{Kind: gnn.NormalizeNone})
	want := [][]int32{nil, {5, 6, 4}, {3}, nil}
	for step := range stream.steps {
		if got := stream.due(step, Settings{Delay: 1}); !slices.Equal(got, want[step]) {
			t.Errorf("after step %d the labels of %v come, want those of %v", step, got, want[step])
		}
	}
	d.LabelTime = nil
	stream = newReplay(d, dataset.Stream{Train: []int32{0, 1, 2}, Steps: [][]int32{{3, 4}, {5, 6}, {7}, {8}}}, &gnn.Normalizer{Kind: gnn.NormalizeNone})
	if got := stream.due(1, Settings{Delay: 1}); !slices.Equal(got, []int32{3, 4}) {
		t.Errorf("one step late come those of %v", got)
	}
}

// TestWithhold: of the steps' labels a share never comes, and none of a class whose rate is 0; those of the training and
// warm-up nodes always do.
func TestWithhold(t *testing.T) {
	_, stream := ready(t, easySource(), quick(), 3)
	all, before := len(stream.labelsOf(numbers(stream.context.nodes, len(stream.x)))), len(stream.labelsOf(numbers(0, stream.context.nodes)))
	classes := 1 + slices.Max(stream.labels)
	stream.withhold(0.75, slices.Repeat([]float64{1}, int(classes)), 1)
	if n := len(stream.labelsOf(numbers(0, stream.context.nodes))); n != before {
		t.Errorf("%d labels come before the first step, want all %d", n, before)
	}
	if share := float64(len(stream.labelsOf(numbers(stream.context.nodes, len(stream.x))))) / float64(all); math.Abs(share-0.25) > 0.15 {
		t.Errorf("a share of %.2f of the steps' %d labels comes, want about 0.25", share, all)
	}
	rates := slices.Repeat([]float64{1}, int(classes))
	rates[0] = 0
	stream.withhold(0, rates, 1)
	for v := stream.context.nodes; v < len(stream.x); v++ {
		if y, comes := stream.comes(v); comes != (y > 0) {
			t.Fatalf("node %d of class %d: its label comes: %v", v, y, comes)
		}
	}
}
