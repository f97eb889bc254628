package serve

import (
	"errors"
	"testing"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot/snapshottest"
)

// TestHugeBlocks: nothing is taken for the blocks of a snapshot that says that they are longer than any.
func TestHugeBlocks(t *testing.T) {
	r := newRows(1, 1, PendingConfig{})
	r.perBlock = 10 * maxBlockBytes
	err := snapshottest.Copy(t, r.State, newRows(1, 1, PendingConfig{}).State)
	if !errors.Is(err, safetensors.ErrDamaged) {
		t.Errorf("blocks of %d rows: error %v", r.perBlock, err)
	}
}
