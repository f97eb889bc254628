package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/worker"
)

// slicedKeeper is a graph in shards, all of them in this process, as a worker drives and
// saves it. Every method holds turn, as those of [keeper] do.
type slicedKeeper struct {
	*pipeline.Sharded
	turn     sync.Mutex
	recycler recycler
}

var (
	_ worker.Keeper = (*slicedKeeper)(nil)
	_ worker.Shards = (*slicedKeeper)(nil)
	_ io.Closer     = (*slicedKeeper)(nil)
)

// newSliced returns a graph in cfg.Shards shards at window 0.
func newSliced(cfg pipeline.Config, m *model.Model) (*slicedKeeper, error) {
	cfg, run := threads(cfg)
	s, err := pipeline.NewSharded(m, cfg, cfg.Shards, run)
	return &slicedKeeper{Sharded: s}, err
}

// restoreSliced returns the graph of a snapshot.
func restoreSliced(cfg pipeline.Config, m *model.Model, r io.ReaderAt, size int64) (*slicedKeeper, map[string]string, error) {
	cfg, run := threads(cfg)
	s, meta, err := pipeline.RestoreSharded(m, cfg, cfg.Shards, run, r, size)
	return &slicedKeeper{Sharded: s}, meta, err
}

// threads returns a runner of the shards on cfg.Workers threads, and cfg with those that each
// shard may use itself: one, unless there are more threads than shards.
func threads(cfg pipeline.Config) (pipeline.Config, pipeline.Runner) {
	run := byThreads(cfg.Workers)
	cfg.Workers = max(1, cfg.Workers/cfg.Shards)
	return cfg, run
}

// byThreads returns a runner of at most so many threads, the caller's being one of them.
func byThreads(threads int) pipeline.Runner {
	return func(n int, each func(i int)) {
		var next atomic.Int64
		work := func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				each(i)
			}
		}
		var others sync.WaitGroup
		for range min(threads, n) - 1 {
			others.Go(work)
		}
		work()
		others.Wait()
	}
}

// Step implements worker.Engine.
func (k *slicedKeeper) Step(w *event.Window) *event.Outcome {
	k.turn.Lock()
	defer k.turn.Unlock()
	k.recycler.recycle(k.Sharded)
	return k.recycler.add(k.Sharded.Step(w))
}

// Err implements worker.Engine.
func (k *slicedKeeper) Err() error {
	k.turn.Lock()
	defer k.turn.Unlock()
	return k.Sharded.Err()
}

// Close frees the blocks of a graph that is not needed any more.
func (k *slicedKeeper) Close() error {
	k.turn.Lock()
	defer k.turn.Unlock()
	k.Sharded.Close()
	return nil
}

// Snapshot implements worker.Keeper.
func (k *slicedKeeper) Snapshot(meta map[string]string) worker.Snapshot {
	k.turn.Lock()
	defer k.turn.Unlock()
	return snapshot{&k.turn, func() pipeline.Blocks { return k.Config().Blocks }, k.Sharded.Snapshot(meta)}
}

// checkSlices refuses flags that shards in one process do not have.
func (w workCmd) checkSlices() error {
	switch {
	case w.Shards < 1:
		return usagef("--shards %d: give at least 1", w.Shards)
	case w.Shards > 1 && w.Shadow != "":
		return usagef("--shards %d: shards serve one model: leave --shadow out, or give --shards 1", w.Shards)
	case w.Shards > 1 && w.Models != "":
		return usagef("--shards %d: shards serve one model: leave --models out, or give --shards 1", w.Shards)
	}
	return nil
}

// slicedService is a worker of a graph in shards in this process, with its metrics. There is no
// engine to ask questions about nodes.
type slicedService struct {
	*service
	graph *slicedKeeper
}

// newSlicedService returns the service of a graph in cfg.Shards shards.
func newSlicedService(s *service, cfg pipeline.Config, m *model.Model) (*slicedService, error) {
	graph, err := newSliced(cfg, m)
	if err != nil {
		return nil, usagef("--shards %d: %w", cfg.Shards, err)
	}
	s.page.Silent()
	return &slicedService{s, graph}, nil
}

// wholeOf returns the settings of an engine that has the whole of a graph in shards: the one that
// stands for it on the page, which is never stepped, and those that train on its ledger.
func wholeOf(cfg pipeline.Config) pipeline.Config {
	cfg.Shards = 1
	return cfg
}

// run drives the graph until the context ends, see [service.run].
func (s *slicedService) run(ctx context.Context, c *kafka.Client, cfg worker.Config) error {
	trouble := func() string { return waitsForKafka(c) }
	s.web.trouble.Store(&trouble)
	cfg.About, cfg.AtRisk = s.about(), s.stream.AtRisk
	own := worker.Hooks{
		Replaying: s.onReplaying,
		Recovered: func(r worker.Recovered) { s.graph = r.Engine.(*slicedKeeper); s.web.ready.Store(true) },
		Forgot:    func(f worker.Forgotten) { s.graph = f.Engine.(*slicedKeeper) },
		TookOver:  func(worker.TookOver) { s.page.Owns() },
		Stepped:   s.stepped,
		Committed: func(worker.Committed) { s.show(); s.page.Committed(time.Now()) },
		Lag:       s.page.Lag,
	}
	cfg.Hooks = worker.Join(s.stream.Hooks(), own)
	if err := worker.Run(ctx, c, s.graph, cfg); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

func (s *slicedService) stepped(w worker.Stepped) {
	s.last = w.Outcome
	if !w.Replayed {
		s.metrics.Observe(w.Outcome)
		s.page.Stepped(page.Window{Outcome: w.Outcome, Cause: w.Cause, Took: w.Took, At: time.Now()})
	}
}

// show updates page and metrics.
func (s *slicedService) show() {
	scores, learned := s.graph.Summaries(), s.graph.Pooled()
	s.page.Show(scores, learned)
	if s.last == nil {
		return
	}
	now, trained := s.graph.Posterior()
	s.showScores(s.last, scores, learned, now, trained)
}
