package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// TestGraphsToClassify: from tables of graphs to predictions: a model of graphs is trained, its
// graphs are sent and served with late labels, and an audit repeats what was published. What has no
// meaning for graphs is refused in a line.
func TestGraphsToClassify(t *testing.T) { onKFake(t, testGraphsToClassify) }

func testGraphsToClassify(t *testing.T, sh *shell) {
	dir := t.TempDir()
	data := filepath.Join(dir, "motifs")
	d, err := dataset.Motifs(dataset.MotifsConfig{Graphs: 400, Drift: 0.3, Seed: 1})
	must(t, err)
	must(t, d.Save(data))
	summary := sh.demo([]string{"demo", "--data", data, "--encoder", "gin", "--steps", "8", "--label-delay", "1", "--epochs", "30", "--json", "--brokers", sh.addr, "--dir", dir})
	if summary.Predictions != 320 || summary.Labels != 320 {
		t.Errorf("%d predictions and %d labels learned, want 320 of each", summary.Predictions, summary.Labels)
	}
	file := filepath.Join(dir, "model.safetensors")
	if code, out, errs := sh.command("audit", "--model", file, "--brokers", sh.addr); code != exitOK {
		t.Errorf("the audit ends with %d: %s%s", code, out, errs)
	}
	if out := sh.gvbll("inspect", file); !strings.Contains(out, "graphs, of ") {
		t.Errorf("inspect does not say that the model is of graphs:\n%s", out)
	}
	code, _, errs := sh.command("export", "--brokers", sh.addr, "--out", filepath.Join(dir, "export"))
	if code == exitOK || !strings.Contains(errs, "the stream is of graphs with nodes of their own") {
		t.Errorf("an export of graphs: exit code %d, %s", code, errs)
	}
}
