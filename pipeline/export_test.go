package pipeline

import (
	"fmt"
	"io"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/snapshots"
)

// Tests step engines alone, and take and restore their snapshots without a pair.

// Snapshot is [Pair.Snapshot] of an engine alone.
func (e *Engine) Snapshot(meta map[string]string) *snapshots.Snapshot {
	return snapshots.Take(meta, snapshots.Under("", savedEngine{e}))
}

// Restore is [RestorePair] of an engine alone.
func Restore(m *model.Model, cfg Config, r io.ReaderAt, size int64) (e *Engine, meta map[string]string, err error) {
	file, err := safetensors.NewReader(r, size)
	if err == nil {
		e, err = restored(m, cfg, file, snapshots.Own)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot: %w", err)
	}
	return e, snapshots.Meta(file.Metadata()), nil
}

// Waits reports whether the prediction of a node in the graph waits for its label.
func (e *Engine) Waits(id event.ID) bool {
	v, known := e.nodes.Number(id)
	return known && e.pending.Waits(v)
}

// Overdue is [structure.Nodes.Overdue] after Enter.
func (e *Engine) Overdue() []event.Node { return e.nodes.Overdue() }

// Fewest is the number of arrivals from which two threads share them.
const Fewest = heads.Fewest
