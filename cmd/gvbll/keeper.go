package main

import (
	"io"
	"sync"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
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
	_ worker.Keeper       = (*keeper)(nil)
	_ worker.Comparer     = (*keeper)(nil)
	_ worker.RoleAssigner = (*keeper)(nil)
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

// AssignRoles implements worker.RoleAssigner.
func (k *keeper) AssignRoles(serves, shadow string) {
	k.turn.Lock()
	defer k.turn.Unlock()
	k.Pair.AssignRoles(serves, shadow)
}

// ask calls f with the engine that serves, between steps.
func (k *keeper) ask(f func(*pipeline.Engine)) {
	k.turn.Lock()
	defer k.turn.Unlock()
	f(k.Serving())
}

// Snapshot implements worker.Keeper.
func (k *keeper) Snapshot(meta map[string]string) io.ReadCloser {
	k.turn.Lock()
	defer k.turn.Unlock()
	return snapshot{k, k.Pair.Snapshot(meta)}
}

// restorer returns a function that reads a keeper back from its snapshot.
func restorer(cfg pipeline.Config, models ...*model.Model) func(io.ReaderAt, int64) (worker.Keeper, map[string]string, error) {
	return func(r io.ReaderAt, size int64) (worker.Keeper, map[string]string, error) {
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
	of *keeper
	*pipeline.Snapshot
}

func (s snapshot) Read(p []byte) (int, error) {
	s.of.turn.Lock()
	defer s.of.turn.Unlock()
	return s.Snapshot.Read(p)
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
