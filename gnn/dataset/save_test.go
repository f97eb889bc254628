package dataset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
)

// TestSaveOpens: a data set is the same after it is saved and opened, to the bit: the order
// of more than ten numbered classes, a class without nodes, years, dense features of any
// magnitude, sparse ones, the order of the edges, ids, nodes without a label, and the split.
func TestSaveOpens(t *testing.T) {
	for _, name := range []string{"none", "strong", "abrupt"} {
		c, err := DriftPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		c.Nodes, c.Dim, c.Steps, c.Seed = 400, 7, 9, 3
		d, stream, err := Drift(c)
		if err != nil {
			t.Fatal(err)
		}
		got := reopened(t, d)
		again, err := got.Cut(Cut{})
		if diff := cmp.Diff(stream, again); err != nil || diff != "" {
			t.Errorf("%s: error %v, stream (-want +got)\n%s", name, err, diff)
		}
		if s, err := got.Cut(Cut{Steps: 5}); err != nil || len(s.Steps) != 5 || len(s.Train) != len(stream.Train) {
			t.Errorf("%s: divided into 5 steps: got %d (%v)", name, len(s.Steps), err)
		}
	}
	reopened(t, &Dataset{
		Name: "bag", Dim: 9, Sparse: true, Classes: []string{"z", `with, "quotes"`, "empty", "a"}, Labels: []int32{0, 1, 3},
		Features: []gnn.Vector{
			{Index: []uint32{0, 8}, Value: []float32{1e-45, -3.4028235e38}},
			{Index: []uint32{}, Value: []float32{}},
			{Index: []uint32{3}, Value: []float32{0.1}},
		},
		Edges: [][2]int32{{2, 0}, {0, 1}, {1, 1}},
	})
	reopened(t, &Dataset{
		Name: "own", Dim: 1, Classes: []string{"-1", "0"}, Labels: []int32{0, Unlabelled, 1}, Time: []float64{1.7e12 + .25, -3, 0}, Context: []bool{false, true, false},
		IDs:      IDs{Texts: []string{"a, b", "08", `"`}},
		Features: []gnn.Vector{{Dense: []float32{1}}, {Dense: []float32{2}}, {Dense: []float32{3}}},
		Edges:    [][2]int32{{0, 2}},
		Given:    &GivenSplit{Parts: []Part{InTrain, InNone, InTest}, How: "column split"},
	})
}

// reopened saves and opens a data set, and fails unless it is the same. Saving over it must
// be an error.
func reopened(t *testing.T, d *Dataset) *Dataset {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "folder")
	if err := d.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, got); diff != "" {
		t.Errorf("%s (-saved +opened):\n%s", d.Name, diff)
	}
	if err := d.Save(dir); err == nil || !strings.Contains(err.Error(), "nodes.csv is there already: give another folder") {
		t.Errorf("saving over it: got %v, want an error that asks for another folder", err)
	}
	return got
}

// TestDescriptionRefuses: the error for an invalid dataset.json is one line that names the
// problem.
func TestDescriptionRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "dataset.json: ",
		"[]":                                  "dataset.json: a list where fields are needed: name, classes, ",
		`{"classes": ["p"]}`:                  `label "q" of the node table is not among the classes`,
		`{"classes": ["q","p","q"]}`:          `class "q" is listed twice`,
		`{"split": {"train": 2, "steps": 1}}`: "does not fit 2 nodes",
		`{"split": {"train": 1, "warmup": -1, "steps": 1}}`:  "does not fit 2 nodes",
		`{"split": {"train": 1, "warmup": 9e9, "steps": 1}}`: "dataset.json: ",
		`{"split": {"train": 1}}`:                            "0 steps does not fit",
	} {
		dir := write(t, map[string]string{"nodes.csv": "id,label,x\na,p,1\nb,q,2\n", "edges.csv": "source,target\na,b\n"})
		if err := os.WriteFile(filepath.Join(dir, "dataset.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if d, err := Open(dir); d != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("dataset.json %s: got %v, want one line with %q", text, err, want)
		}
	}
}
