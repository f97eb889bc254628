package shards

import (
	"context"
	"fmt"
	"sync"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/cmd/gvbll/service"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	sharding "github.com/gvbll/gvbll/pipeline/shards"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/replay"
	tasks "github.com/gvbll/gvbll/topics/shards"
	"github.com/gvbll/gvbll/topics/shards/cuts"
)

// shardEngine is a shard as a worker drives it: what shards send each other is bytes.
type shardEngine struct {
	*sharding.Shard
	lag     int64
	release func() // the files of its pending predictions

	sent     [][]byte    // parts, by the shard that they are for
	received [][]float32 // parts, by the shard that they are from
	rows     []byte
	served   []byte
	recycler service.Recycler
}

var _ tasks.Shard = (*shardEngine)(nil)

func newShardEngine(s *sharding.Shard, shards int, release func()) *shardEngine {
	return &shardEngine{Shard: s, release: release, lag: int64(s.Config().LearnLag), sent: make([][]byte, shards), received: make([][]float32, shards)}
}

// Enter implements tasks.Shard.
func (s *shardEngine) Enter(w *event.Window) [][]byte {
	s.Shard.Enter(w)
	for q := range s.sent {
		s.sent[q] = sharding.AppendPart(s.sent[q][:0], s.Part(q))
	}
	return s.sent
}

// Serve implements tasks.Shard.
func (s *shardEngine) Serve(parts [][]byte, heads []byte) (out *event.Outcome, rows, served []byte, err error) {
	window := s.Serving()
	for p, b := range parts {
		if s.received[p], err = sharding.DecodePart(b, s.received[p]); err != nil {
			return nil, nil, nil, fmt.Errorf("window %d, from shard %d: %w", window, p+1, err)
		}
	}
	var learned *sharding.Heads
	if len(heads) > 0 {
		if learned, err = sharding.DecodeHeads(heads, window-1-s.lag); err != nil {
			return nil, nil, nil, err
		}
	}
	s.recycler.Recycle(s.Shard)
	if out, err = s.Shard.Serve(s.received, learned); err != nil {
		return nil, nil, nil, err
	}
	s.recycler.Add(out)
	s.rows, s.served = s.AppendRows(s.rows[:0]), s.AppendServed(s.served[:0])
	return out, s.rows, s.served, nil
}

// Snapshot implements tasks.Shard.
func (s *shardEngine) Snapshot(meta map[string]string) replay.Snapshot {
	return taskSnapshot{s.Shard.Snapshot(meta), s.Config().Blocks}
}

// Close implements io.Closer.
func (s *shardEngine) Close() error {
	s.release()
	return nil
}

// taskSnapshot is a snapshot of a shard or of the trainer, read by the goroutine that steps it.
type taskSnapshot struct {
	*pipeline.Snapshot
	blocks pipeline.Blocks
}

// Keep implements replay.Snapshot.
func (s taskSnapshot) Keep(folder string) error {
	return service.LinkBlocks(s.blocks, folder, s.Blocks())
}

// Close implements io.Closer.
func (s taskSnapshot) Close() error {
	s.Snapshot.Close()
	return nil
}

// trainerEngine is what learns for all shards, as a worker drives it.
type trainerEngine struct {
	*sharding.Trainer
	heads    []byte
	recycler service.Recycler
}

var _ tasks.Trainer = (*trainerEngine)(nil)

// Learn implements tasks.Trainer.
func (l *trainerEngine) Learn(window int64, rows [][]byte) (out *event.Outcome, heads []byte, err error) {
	if window != l.Next() {
		return nil, nil, fmt.Errorf("window %d to learn, but %d is next", window, l.Next())
	}
	decoded := make([]*sharding.Rows, len(rows))
	for p, b := range rows {
		if decoded[p], err = l.DecodeRows(b); err != nil {
			return nil, nil, fmt.Errorf("window %d, from shard %d: %w", window, p+1, err)
		}
	}
	l.recycler.Recycle(l.Trainer)
	out, learned, err := l.Trainer.Learn(decoded)
	if err != nil {
		return nil, nil, err
	}
	l.recycler.Add(out)
	if learned == nil {
		return out, nil, nil
	}
	l.heads = sharding.AppendHeads(l.heads[:0], learned)
	return out, l.heads, nil
}

// Snapshot implements tasks.Trainer.
func (l *trainerEngine) Snapshot(meta map[string]string) replay.Snapshot {
	return taskSnapshot{l.Trainer.Snapshot(meta), nil}
}

// allShards is all shards of a graph with their trainer, which an audit steps.
type allShards struct {
	*sharding.All
	recycler service.Recycler
}

var _ tasks.Shards = (*allShards)(nil)

// Step implements replay.Engine.
func (s *allShards) Step(w *event.Window) *event.Outcome {
	s.recycler.Recycle(s.All)
	return s.recycler.Add(s.All.Step(w))
}

// Close frees the blocks of a graph that is not needed any more.
func (s *allShards) Close() error {
	s.All.Close()
	return nil
}

// onThreads is a [sharding.Runner] with a thread for each.
func onThreads(n int, each func(i int)) {
	var others sync.WaitGroup
	for i := 1; i < n; i++ {
		others.Go(func() { each(i) })
	}
	each(0)
	others.Wait()
}

// Audited is the result of an audit of a graph of several shards.
type Audited struct {
	audit.Result
	Shards int `json:"shards"`
}

// Audit audits a graph of several shards.
func Audit(ctx context.Context, p flags.Process, g look.Graph, m *model.Model, state flags.State) (found Audited, err error) {
	client, names, shards := g.Client, g.Names, g.Shards
	found.Shards = shards
	cuts, err := cuts.OpenCuts(ctx, client, names.LedgerAt(0), cuts.Place{})
	if err != nil {
		return found, fmt.Errorf("audit: %w", err)
	}
	first, err := cuts.Next(ctx)
	if err != nil {
		return found, err
	}
	total, err := client.Offsets(ctx, names.Ledger)
	if err != nil {
		return found, err
	}
	if first == nil {
		for at, b := range total {
			if b.End > 0 {
				return found, fmt.Errorf("audit: ledger %s partition 0 has no window, and partition %d has some: it was cut short: restore the topic from a backup or a mirror", names.Ledger, at.Partition)
			}
		}
		return found, topics.CheckLedger(ctx, client, names)
	}
	cfg, err := flags.ParseSettings(first.Configuration, []*model.Model{m})
	if err != nil {
		return found, fmt.Errorf("audit: ledger %s: %w", names.Ledger, err)
	}
	cfg, removeFiles, err := service.WithFiles(cfg, state, p.Log)
	if err != nil {
		return found, err
	}
	defer removeFiles()
	own := service.Terms(p, names, cfg, m)
	own.Models.Fresh = func() (replay.Engine, error) {
		graph, err := sharding.NewAll(m, cfg, shards, onThreads)
		if err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
		return &allShards{All: graph}, nil
	}
	graph, err := own.Models.Fresh()
	if err != nil {
		return found, err
	}
	at := total[names.LedgerAt(0)]
	bar := flags.NewProgress(p.Err, "audit", int(at.End-at.First))
	found.Result, err = tasks.Audit(ctx, client, graph.(*allShards), own.Replay(), shards,
		func(windows int64) { bar.Set(int(windows), "windows") })
	if err != nil {
		return found, fmt.Errorf("audit, %d windows agree, then: %w", found.Windows, err)
	}
	return found, nil
}
