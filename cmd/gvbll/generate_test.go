package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
)

// TestGeneratedEqualsDrift: the folder that gvbll generate writes gives the same events in
// the same steps, and the same model file, as --drift with the same seed and steps, as
// the help of generate says.
func TestGeneratedEqualsDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("it compares large graphs, in one goroutine")
	}
	for _, c := range []struct {
		drift flags.Data
		flags []string
	}{
		{flags.Data{Drift: "strong", Seed: 1}, nil},
		{flags.Data{Drift: "abrupt", Seed: 7, Steps: 20}, []string{"--drift", "abrupt", "--seed", "7", "--steps", "20"}},
	} {
		a, err := c.drift.Open()
		must(t, err)
		b, err := flags.Data{Data: generated(t, c.flags...), Seed: c.drift.Seed}.Open()
		must(t, err)
		if a.Split.How != b.Split.How || !reflect.DeepEqual(a.Stream(), b.Stream()) {
			t.Errorf("%v: the splits are %q and %q, or the events differ", c.flags, a.Split.How, b.Split.How)
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
