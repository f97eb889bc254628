package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline/model"
)

// ownGraph writes a graph as somebody has it: nodes have text ids and times, later ones
// first, every third has no label, and half of those are context. It returns its folder.
func ownGraph(t *testing.T, nodes int) string {
	t.Helper()
	dir := t.TempDir()
	table, edges := new(strings.Builder), new(strings.Builder)
	fmt.Fprintln(table, "id,label,time,context,red,blue")
	fmt.Fprintln(edges, "source,target")
	for i := range nodes {
		label := []string{"left", "right", ""}[i%3]
		fmt.Fprintf(table, "paper-%d,%s,%d,%t,%d,%d\n", i, label, 3000-i, i%6 == 5, 1-i%3%2, i%3%2)
		fmt.Fprintf(edges, "paper-%d,paper-%d\n", i, (i+3)%nodes)
	}
	must(t, os.WriteFile(filepath.Join(dir, "nodes.csv"), []byte(table.String()), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "edges.csv"), []byte(edges.String()), 0o644))
	return dir
}

// TestDemoOfOwnGraph: predictions have the ids of the data set, in the order of its times.
// Nodes without a label are predicted, and their labels are not waited for; context nodes are not.
func TestDemoOfOwnGraph(t *testing.T) { onKFake(t, testDemoOfOwnGraph) }

func testDemoOfOwnGraph(t *testing.T, sh *shell) {
	sum := sh.demo([]string{"demo", "--data", ownGraph(t, 60), "--train-until", "2961", "--steps", "7", "--epochs", "3", "--brokers", sh.addr, "--json"})
	// Papers 59 to 40 are of a time before 2961, and those among them with a label train.
	var want []string
	labels := 0
	for i := 59; i >= 0; i-- {
		labelled := i%3 != 2
		if i >= 40 && labelled || i%6 == 5 {
			continue
		}
		want = append(want, fmt.Sprint("paper-", i))
		if labelled {
			labels++
		}
	}
	if sum.Predictions != len(want) || sum.Labels != labels {
		t.Errorf("%d predictions and %d labels, want %d and %d", sum.Predictions, sum.Labels, len(want), labels)
	}
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(sh.gvbll("tail", "--brokers", sh.addr, "--json", "--no-follow")), "\n") {
		var p struct{ Node string }
		must(t, json.Unmarshal([]byte(line), &p))
		got = append(got, p.Node)
	}
	if !slices.Equal(got, want) {
		t.Errorf("predictions of %v, want %v", got, want)
	}
}

// TestModelKnowsItsNodes: a model file that is trained here knows its training nodes by the
// ids that are sent, and only these.
func TestModelKnowsItsNodes(t *testing.T) {
	t.Parallel()
	dir := ownGraph(t, 60)
	file := filepath.Join(t.TempDir(), "m.safetensors")
	gvbll(t, "train", "--data", dir, "--train-share", "0.5", "--epochs", "1", "--out", file)
	m, err := model.Open(file)
	must(t, err)
	set, err := flags.Data{Data: dir, Seed: 1, TrainShare: .5}.Open()
	must(t, err)
	if len(set.Split.Train) != 20 || m.KnownNodes() != 20 {
		t.Fatalf("%d nodes train, and the model knows %d, want 20", len(set.Split.Train), m.KnownNodes())
	}
	for v := range int32(60) {
		if trains := slices.Contains(set.Split.Train, v); m.TrainedOn(set.ID(v)) != trains {
			t.Errorf("node %v trains: %t, and the model knows the contrary", set.ID(v), trains)
		}
	}
}

// TestParquet: --data takes tables in Parquet. A model that is there already stays, unless it is
// said that it may go.
func TestParquet(t *testing.T) {
	t.Parallel()
	train := []string{"train", "--data", "parquet/testdata/pandas", "--train-share", "1", "--epochs", "1", "--out", filepath.Join(t.TempDir(), "m.safetensors")}
	out := gvbll(t, train...)
	if !strings.Contains(out, "graphsage 4-64-16, 2 classes, trained on 3 nodes") {
		t.Errorf("got %q, want a model of 4 features and 2 classes, trained on 3 nodes", out)
	}
	if code, _, errs := command(t, train...); code != exitUsage || !strings.Contains(errs, "it exists already: give another name, or --force") {
		t.Errorf("trained into the same file: exit code %d and %q", code, errs)
	}
	gvbll(t, append(train, "--force")...)
}
