package pipeline

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/conformal"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Tests step engines alone, and take and restore their snapshots without a pair.

// Snapshot is [Pair.Snapshot] of an engine alone.
func (e *Engine) Snapshot(meta map[string]string) *Snapshot { return takeSnapshot(meta, under{"", e}) }

// Restore is [RestorePair] of an engine alone.
func Restore(m *model.Model, cfg Config, r io.ReaderAt, size int64) (e *Engine, meta map[string]string, err error) {
	file, err := safetensors.NewReader(r, size)
	if err == nil {
		e, err = restored(m, cfg, file, metaOwn)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot: %w", err)
	}
	return e, callers(file.Metadata()), nil
}

// Embeddings returns those of the window's arrivals.
func (e *Engine) Embeddings() []float32 { return e.predictor.rows.Z }

// Embeddings returns those of the window's arrivals, as the shards added them up.
func (s *Sharded) Embeddings() (z []float32) {
	d := s.lead.model.Prior.Dim
	next := make([]int, len(s.shards))
	for _, p := range s.shards[0].served.owner {
		z = append(z, s.shards[p].z[next[p]*d:][:d]...)
		next[p]++
	}
	return z
}

// Next returns the number of the next window.
func (s *Sharded) Next() int64 { return s.lead.next }

// Summaries is [Lead.Summaries].
func (s *Sharded) Summaries() []Summary { return s.lead.Summaries() }

// SavedShards are open snapshots of all shards and their lead, and what they have not heard of.
type SavedShards struct {
	Files []*Snapshot // the lead's last
	chain event.Hash
	told  []told
}

// Save begins the snapshots of all shards and their lead.
func (s *Sharded) Save() *SavedShards {
	saved := &SavedShards{chain: s.chain, told: slices.Clone(s.told)}
	for _, shard := range s.shards {
		saved.Files = append(saved.Files, shard.Snapshot(nil))
	}
	saved.Files = append(saved.Files, s.lead.Snapshot(nil))
	return saved
}

// Restore returns the graph of snapshots that were read.
func (s *SavedShards) Restore(m *model.Model, cfg Config, run Runner, files [][]byte) (*Sharded, error) {
	P := len(files) - 1
	lead, _, err := RestoreLead(m, cfg, P, bytes.NewReader(files[P]), int64(len(files[P])))
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
	restored := shardedOf(shards, lead, run)
	restored.chain, restored.told = s.chain, s.told
	return restored, nil
}

// StepWith is Step with other embeddings of the arrivals.
func (e *Engine) StepWith(w *event.Window, z []float32) *event.Outcome {
	e.Enter(w)
	copy(e.nodes.Embeddings(), z)
	e.predictor.embedded(e.nodes.Embeddings())
	e.Serve()
	return e.Learn()
}

// StepWith is Step of a graph in one shard with other embeddings of the arrivals.
func (s *Sharded) StepWith(w *event.Window, z []float32) *event.Outcome {
	each := s.run
	defer func() { s.run = each }()
	phase := 0
	s.run = func(n int, step func(i int)) {
		each(n, step)
		if phase++; phase == 1 { // all have entered
			copy(s.shards[0].Part(0), z)
		}
	}
	return s.Step(w)
}

// Around returns what counts of the labels around node id in a shard with a pool, and whether
// the node is there.
func (s *Sharded) Around(shard int, id event.ID) ([]float32, bool) {
	e := s.shards[shard]
	v, there := e.nodes.Number(id)
	if !there {
		return nil, false
	}
	around, rows := e.heads.(pooledShard).around, pool.Rows{}
	around.Reset(&rows)
	around.Append(&rows, v)
	return rows.Labelled, true
}

// ImputeLate has the scores of a window's predictions count for the thresholds of sets from the
// next window on, as on shards.
func (e *Engine) ImputeLate() {
	for _, o := range e.observers {
		if s, is := o.(*sets); is {
			s.impute = func(rows conformal.Rows) { s.imputed = s.setMaker.predictor.Imputed(rows) }
		}
	}
}

// Fewest is the number of arrivals from which two threads share them.
const Fewest = fewest
