package dataset

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
)

// timed returns a data set of six nodes whose times fall, and of which two have no label.
func timed() *Dataset {
	return &Dataset{
		Name: "timed", Dim: 1, Features: make([]gnn.Vector, 6), Classes: []string{"a", "b"},
		Labels: []int32{0, Unlabelled, 1, 0, Unlabelled, 1},
		Time:   []float64{6, 5.5, 5, 4, 3, 2},
	}
}

// TestCut: each way to choose the training nodes, and the order in which the others come.
// Unlabelled nodes never train, and are part of the stream.
func TestCut(t *testing.T) {
	at := func(time float64) *float64 { return &time }
	given := func(change func(*GivenSplit)) func(*Dataset) {
		return func(d *Dataset) {
			d.Given = &GivenSplit{Parts: []Part{InTest, InTrain, InTrain, InTest, InNone, inValid}, How: "masks"}
			change(d.Given)
		}
	}
	same := func(*GivenSplit) {}
	for _, c := range []struct {
		what   string
		change func(*Dataset)
		cut    Cut
		want   Stream
	}{
		{
			"before a time", func(*Dataset) {},
			Cut{Until: at(5), Steps: 2},
			Stream{Train: []int32{5, 3}, Steps: [][]int32{{4, 2}, {1, 0}}, Ordered: true, How: "before 5, 2 steps"},
		},
		{
			"the earliest", func(*Dataset) {},
			Cut{Share: .75, Steps: 1},
			Stream{Train: []int32{5, 3, 2}, Steps: [][]int32{{4, 1, 0}}, Ordered: true, How: "earliest 0.75, 1 steps"},
		},
		{
			"the earliest tenth, and a step a node", func(*Dataset) {},
			Cut{},
			Stream{Train: []int32{5}, Steps: [][]int32{{4}, {3}, {2}, {1}, {0}}, Ordered: true, How: "earliest 0.1, 5 steps"},
		},
		{
			"all that has a label", func(*Dataset) {},
			Cut{Share: 1},
			Stream{Train: []int32{5, 3, 2, 0}, Steps: [][]int32{{4}, {1}}, Ordered: true, How: "earliest 1, 2 steps"},
		},
		{
			"all", func(d *Dataset) { d.Labels = make([]int32, 6) },
			Cut{Share: 1, Steps: 3},
			Stream{Train: []int32{5, 4, 3, 2, 1, 0}, Steps: [][]int32{}, Ordered: true, How: "earliest 1, 0 steps"},
		},
		{
			"ogbn-arxiv", func(d *Dataset) { d.Name, d.Time = "arxiv", []float64{2020, 2019, 2018, 2017, 2017, 2016} },
			Cut{},
			Stream{Train: []int32{5, 3}, Warmup: []int32{2}, Steps: [][]int32{{4}, {1}, {0}}, Ordered: true, How: "by year, 3 steps"},
		},
		{
			"a given split", given(same),
			Cut{Seed: 1},
			Stream{Train: []int32{2}, Warmup: []int32{5}, Steps: [][]int32{{4}, {3}, {1}, {0}}, Ordered: true, How: "masks cut into 4 steps"},
		},
		{
			"in order of arrival", given(func(g *GivenSplit) { g.InOrder, g.Steps = true, 2 }),
			Cut{Seed: 1},
			Stream{Train: []int32{2}, Warmup: []int32{5}, Steps: [][]int32{{0, 1}, {3, 4}}, Ordered: true, How: "masks"},
		},
		{
			"a share in place of the given split", given(same),
			Cut{Seed: 1, Share: .25, Steps: 1},
			Stream{Train: []int32{5}, Steps: [][]int32{{4, 3, 2, 1, 0}}, Ordered: true, How: "earliest 0.25, 1 steps"},
		},
		{
			"context nodes come before the stream", func(d *Dataset) { d.Context = []bool{false, true, false, false, true, false} },
			Cut{Share: .5, Steps: 2},
			Stream{Train: []int32{5, 3}, Warmup: []int32{4, 1}, Steps: [][]int32{{2}, {0}}, Ordered: true, How: "earliest 0.5, 2 steps"},
		},
		{
			"nothing has a label", func(d *Dataset) { d.Labels = slices.Repeat([]int32{Unlabelled}, 6) },
			Cut{Steps: 1},
			Stream{Steps: [][]int32{{5, 4, 3, 2, 1, 0}}, Ordered: true, How: "earliest 0.1, 1 steps"},
		},
	} {
		d := timed()
		c.change(d)
		got, err := d.Cut(c.cut)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, stream (-want +got)\n%s", c.what, err, diff)
		}
	}
	d := timed()
	if _, err := d.Cut(Cut{Until: at(2)}); err == nil || err.Error() != "no node with a label is of a time before 2, so none trains: times go from 2 to 6" {
		t.Errorf("got error %v, want one that says from when to when times go", err)
	}
	if d.Name, d.Time = "arxiv", nil; true {
		if _, err := d.Cut(Cut{}); err == nil {
			t.Error("ogbn-arxiv without years can be cut, want an error")
		}
	}
}

// TestUnlabelledAreNotDrawn: a stratified sample is drawn from the labelled nodes, and the
// draw is the same whether there are others or not.
func TestUnlabelledAreNotDrawn(t *testing.T) {
	d := &Dataset{Classes: []string{"a", "b"}}
	for i := range 100 {
		d.Labels = append(d.Labels, int32(i%2))
	}
	all, err := d.Cut(Cut{Seed: 1, Share: .2})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		d.Labels = append(d.Labels, Unlabelled)
	}
	some, err := d.Cut(Cut{Seed: 1, Share: .2})
	if err != nil || !slices.Equal(all.Train, some.Train) {
		t.Errorf("training nodes %v with unlabelled nodes (error %v), want %v", some.Train, err, all.Train)
	}
	if n := len(slices.Concat(some.Steps...)); n != 130 {
		t.Errorf("%d nodes in the stream, want 80 and the 50 without a label", n)
	}
}

// TestIDs: ids are numbers only if all of them are written as numbers are.
func TestIDs(t *testing.T) {
	for _, c := range []struct {
		texts []string
		want  IDs
	}{
		{[]string{"0", "1", "2"}, IDs{}},
		{[]string{"7", "-1", "9223372036854775807"}, IDs{Numbers: []int64{7, -1, 9223372036854775807}}},
		{[]string{"7", "08"}, IDs{Texts: []string{"7", "08"}}},
		{[]string{"7", "+8"}, IDs{Texts: []string{"7", "+8"}}},
		{[]string{"7", "9223372036854775808"}, IDs{Texts: []string{"7", "9223372036854775808"}}},
		{[]string{"7", "8.0"}, IDs{Texts: []string{"7", "8.0"}}},
	} {
		got := idsOf(c.texts)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.texts, diff)
		}
		for v := range int32(len(c.texts)) {
			if s := got.String(v); s != c.texts[v] {
				t.Errorf("%q: node %d is %q", c.texts, v, s)
			}
		}
	}
}
