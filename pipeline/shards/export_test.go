package shards

import (
	"bytes"
	"slices"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/snapshots"
	"github.com/gvbll/gvbll/posterior/pool"
)

// SavedShards are open snapshots of all shards and their trainer, and what they have not heard of.
type SavedShards struct {
	Files []*snapshots.Snapshot // the trainer's last
	chain event.Hash
	due   []afterWindow
}

// Save begins the snapshots of all shards and their trainer.
func (s *All) Save() *SavedShards {
	saved := &SavedShards{chain: s.chain, due: slices.Clone(s.due)}
	for _, shard := range s.Shards {
		saved.Files = append(saved.Files, shard.Snapshot(nil))
	}
	saved.Files = append(saved.Files, s.Trainer.Snapshot(nil))
	return saved
}

// Restore returns the graph of snapshots that were read.
func (s *SavedShards) Restore(m *model.Model, cfg pipeline.Config, run Runner, files [][]byte) (*All, error) {
	P := len(files) - 1
	lead, _, err := RestoreTrainer(m, cfg, P, bytes.NewReader(files[P]), int64(len(files[P])))
	if err != nil {
		return nil, err
	}
	cfg.PendingMemory /= int64(P)
	var shards []*Shard
	for p, b := range files[:P] {
		shard, _, err := RestoreShard(m, cfg, p, P, bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return nil, err
		}
		shards = append(shards, shard)
	}
	restored := allOf(shards, lead, run)
	restored.chain, restored.due = s.chain, s.due
	return restored, nil
}

// Around returns what counts of the labels around node id in a shard with a pool, and whether
// the node is there.
func (s *All) Around(shard int, id event.ID) ([]float32, bool) {
	e := s.Shards[shard]
	v, there := e.nodes.Number(id)
	if !there {
		return nil, false
	}
	around, rows := e.heads.(pooledShard).Around, pool.Rows{}
	around.Reader.Reset(&rows)
	around.Reader.Append(&rows, v)
	return rows.Labelled, true
}

// Chain returns the global chain, see [event.Hash.Join].
func (s *All) Chain() event.Hash { return s.chain }
