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

// TestWrongModelFile: a file that is no model is named once, with what it is and how one is made, and so is one of weights.
func TestWrongModelFile(t *testing.T) {
	folder := t.TempDir()
	data := ownGraph(t, 60)
	for name, c := range map[string]struct{ text, is string }{
		"m.csv":   {"id,amount,class\na,1,2\n", "a table of text"},
		"m.pt":    {"PK\x03\x04\x00\x00\x08\x08" + strings.Repeat("\x00", 22) + "archive/data.pklFB", "what torch.save writes (.pt)"},
		"old.pt":  {"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M", "a pickle of Python, such as torch.save wrote before 1.6"},
		"x.npz":   {"PK\x03\x04\x00\x00\x08\x08" + strings.Repeat("\x00", 22) + "x.npyFB", "arrays of NumPy (.npz)"},
		"zip":     {"PK\x03\x04", "a zip archive"},
		"empty":   {"", "an empty file"},
		"short":   {"\x08\x00\x00\x00\x00\x00\x00\x00", "bytes that nothing is known of"},
		"lfs":     {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a pointer of Git LFS: 'git lfs pull' gets the file"},
		"json":    {`{"model": 1, "classes": []}`, "JSON"},
		"a words": {"nothing to see here", "text"},
		"":        {"", "a folder"},
	} {
		file := filepath.Join(folder, name)
		if name != "" {
			must(t, os.WriteFile(file, []byte(c.text), 0o644))
		}
		for _, args := range [][]string{{"inspect", file}, {"work", "--model", file}, {"train", "--data", data, "--weights", file, "--out", file + ".m"}} {
			code, out, errs := command(t, args...)
			remedy := "a model is what 'gvbll train --data DIR --out FILE' writes"
			if args[0] == "train" {
				remedy = "save a state dict with safetensors.torch.save_file("
			}
			if name == "" && args[0] == "train" {
				continue // refused as a flag
			}
			last := errs[strings.LastIndex(strings.TrimSpace(errs), "\n")+1:]
			if code != exitFailed || out != "" || strings.Count(last, strings.TrimSuffix(file, "/")) != 1 ||
				!strings.Contains(last, " is "+c.is+", not a safetensors file: "+remedy) {
				t.Errorf("%s of %q: exit code %d: %s%s", args[0], name, code, out, errs)
			}
		}
	}
	if code, _, errs := command(t, "inspect", filepath.Join(folder, "nothing")); code != exitFailed || !strings.HasSuffix(errs, "/nothing: no such file or directory\n") {
		t.Errorf("inspect of no file: exit code %d: %s", code, errs)
	}
}
