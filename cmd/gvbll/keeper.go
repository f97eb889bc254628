package main

import (
	"io"
	"sync"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/blocks"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/worker"
)

// keeper is the engine that a worker drives and saves in checkpoints, and that the page
// queries between steps. The engine itself has no locks: every method holds turn.
type keeper struct {
	*pipeline.Pair
	turn sync.Mutex
	// before and last are the outcomes of the last two steps, nil before them. The
	// worker may still read them; an older one is recycled.
	before, last *event.Outcome
}

var (
	_ worker.Keeper   = (*keeper)(nil)
	_ worker.Comparer = (*keeper)(nil)
	_ worker.Taker    = (*keeper)(nil)
	_ io.Closer       = (*keeper)(nil)
)

// Step implements worker.Engine.
func (k *keeper) Step(w *event.Window) *event.Outcome {
	k.turn.Lock()
	defer k.turn.Unlock()
	if k.before != nil {
		k.Recycle(k.before)
	}
	k.before, k.last = k.last, k.Pair.Step(w)
	return k.last
}

// Err implements worker.Engine.
func (k *keeper) Err() error {
	k.turn.Lock()
	defer k.turn.Unlock()
	return k.Pair.Err()
}

// Close frees the blocks of an engine that is not needed any more.
func (k *keeper) Close() error {
	k.turn.Lock()
	defer k.turn.Unlock()
	k.Pair.Close()
	return nil
}

// AssignRoles implements worker.RoleAssigner.
func (k *keeper) AssignRoles(serves, shadow string) {
	k.turn.Lock()
	defer k.turn.Unlock()
	k.Pair.AssignRoles(serves, shadow)
}

// Take implements worker.Taker.
func (k *keeper) Take(shadow worker.Engine) error {
	k.turn.Lock()
	defer k.turn.Unlock()
	return k.Pair.Take(shadow.(*keeper).Serving())
}

// beside runs a job on a goroutine: it is the [pipeline.Config] Run of this program.
func beside(job func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		job()
	}()
	return func() { <-done }
}

// ask calls f with the engine that serves, between steps.
func (k *keeper) ask(f func(*pipeline.Engine)) {
	k.turn.Lock()
	defer k.turn.Unlock()
	f(k.Serving())
}

// Snapshot implements worker.Keeper.
func (k *keeper) Snapshot(meta map[string]string) worker.Snapshot {
	k.turn.Lock()
	defer k.turn.Unlock()
	return snapshot{k, k.Pair.Snapshot(meta)}
}

// restorer returns a function that reads a keeper back from its snapshot.
func restorer(cfg pipeline.Config, models ...*model.Model) func(io.ReaderAt, int64, string) (worker.Keeper, map[string]string, error) {
	return func(r io.ReaderAt, size int64, folder string) (worker.Keeper, map[string]string, error) {
		if files, ok := cfg.Blocks.(*blocks.Store); ok {
			files.From(folder)
		}
		if cfg.Shards > 1 {
			return restoreSliced(cfg, models[0], r, size)
		}
		p, meta, err := pipeline.RestorePair(cfg, r, size, models...)
		return &keeper{Pair: p}, meta, err
	}
}

// fresh returns a function that makes keepers at window 0.
func fresh(cfg pipeline.Config, models ...*model.Model) func() (worker.Engine, error) {
	return func() (worker.Engine, error) {
		if cfg.Shards > 1 {
			return newSliced(cfg, models[0])
		}
		p, err := pipeline.NewPair(cfg, models...)
		return &keeper{Pair: p}, err
	}
}

// Apart implements worker.Comparer.
func (k *keeper) Apart(exact worker.Engine) (d ledger.Distance) {
	k.turn.Lock()
	defer k.turn.Unlock()
	d.Mean, d.Variance = k.Serving().Apart(exact.(*keeper).Serving())
	return d
}

// snapshot is a snapshot of a keeper, read between its steps.
type snapshot struct {
	of *keeper
	*pipeline.Snapshot
}

func (s snapshot) Read(p []byte) (int, error) {
	s.of.turn.Lock()
	defer s.of.turn.Unlock()
	return s.Snapshot.Read(p)
}

// Keep implements worker.Snapshot.
func (s snapshot) Keep(folder string) error {
	return linkBlocks(s.of.Serving().Config().Blocks, folder, s.Blocks())
}

// linkBlocks makes links in a folder to the blocks of an engine, if there are any.
func linkBlocks(store pipeline.Blocks, folder string, numbers []int64) error {
	if len(numbers) == 0 {
		return nil
	}
	return store.(*blocks.Store).Link(folder, numbers)
}

func (s snapshot) Close() error {
	s.of.turn.Lock()
	defer s.of.turn.Unlock()
	s.Snapshot.Close()
	return nil
}

// effective returns a function for [worker.Config.Effective].
func effective(models ...*model.Model) func(event.Settings) event.Settings {
	return func(there event.Settings) event.Settings {
		cfg, err := pipeline.ParseSettings(there)
		if err != nil {
			return there // settings that cannot be parsed differ; the error names them
		}
		return cfg.Effective(models...).Settings()
	}
}
