package flags

import (
	"math"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// TestDataChecks: shares and steps out of range, and two flags that choose the same, are refused by name, with what to give instead.
func TestDataChecks(t *testing.T) {
	for _, c := range []struct {
		what  string
		f     Data
		given Given
		want  string
	}{
		{"as it comes", Data{}, givenFlags(), ""},
		{"all of it", Data{TrainShare: 1, Steps: math.MaxInt}, givenFlags(), ""},
		{"more than all", Data{TrainShare: 1.01}, givenFlags(), "--train-share 1.01: give a share up to 1"},
		{"less than none", Data{TrainShare: -0.1}, givenFlags(), "--train-share -0.1: give a share"},
		{"no number", Data{TrainShare: math.NaN()}, givenFlags(), "--train-share NaN: give a share"},
		{"without end", Data{TrainShare: math.Inf(1)}, givenFlags(), "--train-share +Inf: give a share"},
		{"two ways to train", Data{TrainShare: .5, TrainUntil: "2019"}, givenFlags(), "--train-share 0.5 and --train-until 2019 both choose"},
		{"fewer steps than none", Data{Steps: -1}, givenFlags(), "--steps -1: give a positive number"},
		{"drift of own data", Data{Data: "d"}, givenFlags("drift"), "--drift X: no effect on --data"},
		{"drift of the synthetic graph", Data{}, givenFlags("drift"), ""},
	} {
		if err := c.f.Check(c.given); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.what, err, c.want)
		}
	}
}

// TestSyntheticData: without data there is a graph that depends on the seed, in as many steps as are asked for. The events of a stream
// name earlier nodes alone, or those of the same step, and event time goes on by a millisecond a node.
func TestSyntheticData(t *testing.T) {
	f := Data{Drift: "moderate", Seed: 3, Steps: 20}
	d, err := f.Open()
	must(t, err)
	if n := len(d.Split.Steps); n != 20 || len(d.Classes) != 10 || len(d.Features) != 6000 {
		t.Fatalf("%v: want 6,000 nodes of 10 classes in 20 steps", d)
	}
	other, err := Data{Drift: "moderate", Seed: 4, Steps: 20}.Open()
	must(t, err)
	if d.String() == other.String() {
		t.Errorf("two seeds give one graph: %v", d)
	}
	s := d.Stream()
	if len(s.Context) != len(d.Split.Train)+len(d.Split.Warmup) || len(s.Steps) != 20 {
		t.Fatalf("%d nodes of context and %d steps, want %d and 20", len(s.Context), len(s.Steps), len(d.Split.Train)+len(d.Split.Warmup))
	}
	came, time := map[string]bool{}, int64(0)
	for i := -1; i < len(s.Steps); i++ {
		items := s.Context
		if i >= 0 {
			items = s.Steps[i]
		}
		for _, x := range items {
			came[x.Node.ID.String()] = true
		}
		for _, x := range items {
			if time++; x.Node.Time != time || x.Node.Context != (i < 0) {
				t.Fatalf("node %v of step %d has time %d and context %v, want %d and %v", x.Node.ID, i, x.Node.Time, x.Node.Context, time, i < 0)
			}
			for _, u := range x.Node.Neighbours {
				if !came[u.String()] {
					t.Fatalf("node %v of step %d names %v, which comes later", x.Node.ID, i, u)
				}
			}
		}
	}
	if _, err := (Data{Drift: "wild"}).Open(); err == nil || !strings.Contains(err.Error(), "wild") {
		t.Errorf("a drift that is none: error %v, want one that names it", err)
	}
}

// TestTooFewToLearnFrom: a data set of which next to nothing trains says so where it is described.
func TestTooFewToLearnFrom(t *testing.T) {
	for train, want := range map[int]bool{1: true, 3: true, 4: false} {
		set := &DataSet{Dataset: &dataset.Dataset{Name: "t", Classes: []string{"a", "b"}}, Split: dataset.Stream{Train: make([]int32, train)}}
		if got := strings.Contains(set.String(), "too few to learn from"); got != want {
			t.Errorf("of %d nodes that train: %s", train, set)
		}
	}
}
