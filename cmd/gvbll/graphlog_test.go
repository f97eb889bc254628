package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline/model"
)

// TestTrainFromLog: a model that is trained on the ledger of a demo has the classes of the
// one that serves, was trained on every labelled node, and tells the scores of both. The
// same ledger gives the same model. --until and --since leave out labels.
func TestTrainFromLog(t *testing.T) { onKFake(t, testTrainFromLog) }

func testTrainFromLog(t *testing.T, sh *shell) {
	dir := t.TempDir()
	sum := sh.demo(smallDemo(t, "--brokers", sh.addr, "--dir", dir))
	serving := filepath.Join(dir, "model.safetensors")
	train := func(name string, more ...string) (*model.Model, string) {
		t.Helper()
		file := filepath.Join(dir, name)
		out := sh.gvbll(append([]string{"train", "--brokers", sh.addr, "--out", file, "--epochs", "5"}, more...)...)
		m, err := model.Open(file)
		must(t, err)
		return m, out
	}
	first, err := model.Open(serving)
	must(t, err)
	m, out := train("new", "--serving", serving)
	v := m.Training.Validation
	if v == nil || v.Serving != first.ID || v.Labels == 0 || v.Served["pool"].NLL == 0 || strings.Join(m.Classes, ",") != strings.Join(first.Classes, ",") {
		t.Errorf("validation %+v and classes %q, want those beside model %s", v, m.Classes, first.ID)
	}
	if m.Training.Nodes <= first.Training.Nodes+sum.Predictions/2 {
		t.Errorf("trained on %d nodes, the first model on %d, and %d came since", m.Training.Nodes, first.Training.Nodes, sum.Predictions)
	}
	for _, want := range []string{"trained on the labels of", "served:", "pool ", m.ID} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q: %s", want, out)
		}
	}
	if again, _ := train("again", "--serving", serving); again.ID != m.ID {
		t.Errorf("the same ledger gives models %s and %s", m.ID, again.ID)
	}
	if part, _ := train("part", "--until", "9", "--since", "1"); part.Training.Nodes >= m.Training.Nodes || part.Encoder.In() != m.Encoder.In() || part.Training.Validation.Windows != 9 {
		t.Errorf("with --until and --since, trained on %d nodes of %d features by validation %+v", part.Training.Nodes, part.Encoder.In(), part.Training.Validation)
	}
	if named, _ := train("named", "--serving", serving, "--classes", "born"); named.Classes[len(named.Classes)-1] != "born" {
		t.Errorf("classes %q, want born at the end", named.Classes)
	}
	checkExport(t, sh, filepath.Join(dir, "exported"))
	for _, wrong := range []struct{ flag, value, want string }{
		{"--serving", filepath.Join(dir, "part"), "give the file of the first"},
		{"--since", "1000", "--since 1000: the"},
		{"--until", "0", "no windows to read"},
		{"--until", time.Now().Add(-time.Hour).Format(time.RFC3339), "no windows to read"},
		{"--data", dir, "no effect with --brokers"},
		{"--until", "yesterday", "give the number of a window, or a time"},
	} {
		if code, _, errs := sh.command("train", "--brokers", sh.addr, "--out", filepath.Join(dir, "x"), wrong.flag, wrong.value); code == exitOK || !strings.Contains(errs, wrong.want) {
			t.Errorf("%s %s: exit code %d and %q, want an error with %q", wrong.flag, wrong.value, code, errs, wrong.want)
		}
	}
}

// checkExport exports the ledger of a small demo: the data set has the ids, features and
// labels of the one that was streamed, as far as labels have come, and its edges, each once.
func checkExport(t *testing.T, sh *shell, dir string) {
	t.Helper()
	sh.gvbll("export", "--brokers", sh.addr, "--out", dir)
	onlyMine(t, dir, filepath.Join(dir, "nodes.csv"), filepath.Join(dir, "edges.csv"), filepath.Join(dir, "dataset.json"))
	got, err := dataset.Open(dir)
	must(t, err)
	want, err := dataset.Open(smallGraph(t))
	must(t, err)
	place := make(map[string]int32)
	for v := range want.Features {
		place[want.IDs.String(int32(v))] = int32(v)
	}
	labelled := 0
	for v := range got.Features {
		u, known := place[got.IDs.String(int32(v))]
		if !known || !reflect.DeepEqual(got.Features[v], want.Features[u]) {
			t.Fatalf("node %s is exported, and was not streamed so", got.IDs.String(int32(v)))
		}
		if class := got.ClassOf(int32(v)); class != "" {
			labelled++
			if class != want.ClassOf(u) {
				t.Errorf("node %s has class %q, want %q", got.IDs.String(int32(v)), class, want.ClassOf(u))
			}
		}
	}
	if len(got.Features) != len(want.Features) || labelled < len(want.Features)*3/4 || len(got.Edges) == 0 || got.Given == nil || got.Time == nil {
		t.Errorf("exported %d nodes, %d labelled, and %d edges, of %d nodes", len(got.Features), labelled, len(got.Edges), len(want.Features))
	}
	if code, _, errs := sh.command("export", "--brokers", sh.addr, "--out", dir); code == exitOK || !strings.Contains(errs, "is there already") {
		t.Errorf("exported again: exit code %d and %q", code, errs)
	}
	sh.gvbll("train", "--data", dir, "--epochs", "2", "--out", filepath.Join(dir, "m"))
}
