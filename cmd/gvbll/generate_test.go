package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestGeneratedEqualsDrift: the folder that gvbll generate writes gives the same events in
// the same steps, and the same model file, as --drift with the same seed and steps, as
// the help of generate says.
func TestGeneratedEqualsDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("it compares large graphs, in one goroutine")
	}
	for _, c := range []struct {
		drift dataFlags
		flags []string
	}{
		{dataFlags{Drift: "strong", Seed: 1}, nil},
		{dataFlags{Drift: "abrupt", Seed: 7, Steps: 20}, []string{"--drift", "abrupt", "--seed", "7", "--steps", "20"}},
	} {
		a, err := c.drift.open()
		must(t, err)
		b, err := dataFlags{Data: generated(t, c.flags...), Seed: c.drift.Seed}.open()
		must(t, err)
		if a.split.How != b.split.How || !reflect.DeepEqual(a.stream(), b.stream()) {
			t.Errorf("%v: the splits are %q and %q, or the events differ", c.flags, a.split.How, b.split.How)
		}
	}
	dir := t.TempDir()
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
	gvbll(t, "train", "--epochs", "2", "--out", one)
	gvbll(t, "train", "--epochs", "2", "--out", other, "--data", generated(t))
	a, err := os.ReadFile(one)
	must(t, err)
	b, err := os.ReadFile(other)
	must(t, err)
	if !bytes.Equal(a, b) {
		t.Error("the model files differ")
	}
}
