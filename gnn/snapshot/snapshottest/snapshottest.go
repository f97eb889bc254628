// Package snapshottest has what tests of states share.
package snapshottest

import (
	"bytes"
	"io"
	"testing"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// Copy saves what from declares, restores it by what to declares, and returns the error of that.
func Copy(t testing.TB, from, to func(*snapshot.Schema)) error {
	t.Helper()
	saving := snapshot.Saving()
	from(saving)
	defer saving.Release()
	stream, err := safetensors.NewStream(nil, saving.Parts())
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	file, err := safetensors.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	restoring := snapshot.Restoring(file)
	to(restoring)
	return restoring.Finish()
}
