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
	turn     sync.Mutex
	recycler recycler
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
	k.recycler.recycle(k.Pair)
	return k.recycler.add(k.Pair.Step(w))
}

// recycler gives outcomes back to what made them. It keeps the last two: the worker may still
// read these.
type recycler struct{ before, last *event.Outcome }

// recycle gives the outcome before the last one back. It is called before a step.
func (r *recycler) recycle(to interface{ Recycle(*event.Outcome) }) {
	if r.before != nil {
		to.Recycle(r.before)
		r.before = nil
	}
}

// add keeps the outcome of a step, and returns it.
func (r *recycler) add(out *event.Outcome) *event.Outcome {
	r.before, r.last = r.last, out
	return out
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
	return snapshot{&k.turn, func() pipeline.Blocks { return k.Serving().Config().Blocks }, k.Pair.Snapshot(meta)}
}

// restorer returns a function that reads a keeper back from its snapshot.
func restorer(cfg pipeline.Config, models ...*model.Model) func(io.ReaderAt, int64, string) (worker.Keeper, map[string]string, error) {
	return func(r io.ReaderAt, size int64, folder string) (worker.Keeper, map[string]string, error) {
		if files, ok := cfg.Blocks.(*blocks.Store); ok {
			files.From(folder)
		}
		p, meta, err := pipeline.RestorePair(cfg, r, size, models...)
		return &keeper{Pair: p}, meta, err
	}
}

// fresh returns a function that makes keepers at window 0.
func fresh(cfg pipeline.Config, models ...*model.Model) func() (worker.Engine, error) {
	return func() (worker.Engine, error) {
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
	turn  *sync.Mutex
	store func() pipeline.Blocks
	*pipeline.Snapshot
}

func (s snapshot) Read(p []byte) (int, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.Snapshot.Read(p)
}

// Keep implements worker.Snapshot.
func (s snapshot) Keep(folder string) error {
	return linkBlocks(s.store(), folder, s.Blocks())
}

// linkBlocks makes links in a folder to the blocks of an engine, if there are any.
func linkBlocks(store pipeline.Blocks, folder string, numbers []int64) error {
	if len(numbers) == 0 {
		return nil
	}
	return store.(*blocks.Store).Link(folder, numbers)
}

func (s snapshot) Close() error {
	s.turn.Lock()
	defer s.turn.Unlock()
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
