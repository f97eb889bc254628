package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
)

// TestGeneratedEqualsDrift: the folder that generate writes gives the same events in
// the same steps, and the same model file, as --drift with the same seed and steps, as
// the help of generate says.
func TestGeneratedEqualsDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("it compares large graphs, in one goroutine")
	}
	for _, c := range []struct {
		drift flags.Data
		args  []string
	}{
		{flags.Data{Drift: "strong", Seed: 1}, nil},
		{flags.Data{Drift: "abrupt", Seed: 7, Steps: 20}, []string{"--drift", "abrupt", "--seed", "7", "--steps", "20"}},
	} {
		a, err := c.drift.Open()
		must(t, err)
		dir := filepath.Join(t.TempDir(), "graph")
		lab(t, append([]string{"generate", "--out", dir}, c.args...)...)
		b, err := flags.Data{Data: dir, Seed: c.drift.Seed}.Open()
		must(t, err)
		if a.Split.How != b.Split.How || !reflect.DeepEqual(a.Stream(), b.Stream()) {
			t.Errorf("%v: the splits are %q and %q, or the events differ", c.args, a.Split.How, b.Split.How)
		}
		if c.args == nil && !bytes.Equal(trained(t, a), trained(t, b)) {
			t.Error("the model files differ")
		}
	}
}

// trained returns the file of a model that is trained on a data set.
func trained(t *testing.T, d *flags.DataSet) []byte {
	t.Helper()
	m, err := holdout.Train(t.Context(), d.Training(), model.Config{Epochs: 2, Seed: 1, Pool: true}, nil, nil)
	must(t, err)
	file := filepath.Join(t.TempDir(), "model")
	must(t, m.Save(file))
	b, err := os.ReadFile(file)
	must(t, err)
	return b
}
