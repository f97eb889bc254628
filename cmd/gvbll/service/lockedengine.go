package service

import (
	"io"
	"sync"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/blocks"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// lockedEngine is the engine that a worker drives and saves in checkpoints, and that the page
// queries between steps. The engine itself has no locks: every method holds turn, but those for
// the goroutine that steps.
type lockedEngine struct {
	pair *pipeline.Pair
	turn sync.Mutex
	// The worker may still read the last two outcomes. Older ones go back to the engine.
	before, last *event.Outcome
}

// Serving returns the engine that serves, to the goroutine that steps.
func (e *lockedEngine) Serving() *pipeline.Engine { return e.pair.Serving() }

// shadow returns the engine in the shadow, nil for none, to the goroutine that steps.
func (e *lockedEngine) shadow() *pipeline.Engine { return e.pair.Shadow() }

var (
	_ replay.Keeper   = (*lockedEngine)(nil)
	_ replay.Comparer = (*lockedEngine)(nil)
	_ worker.Taker    = (*lockedEngine)(nil)
	_ io.Closer       = (*lockedEngine)(nil)
)

// Step implements replay.Engine.
func (e *lockedEngine) Step(w *event.Window) *event.Outcome {
	e.turn.Lock()
	defer e.turn.Unlock()
	if e.before != nil {
		e.pair.Recycle(e.before)
	}
	e.before, e.last = e.last, e.pair.Step(w)
	return e.last
}

// Err implements replay.Engine.
func (e *lockedEngine) Err() error {
	e.turn.Lock()
	defer e.turn.Unlock()
	return e.pair.Err()
}

// Close frees the blocks of an engine that is not needed any more.
func (e *lockedEngine) Close() error {
	e.turn.Lock()
	defer e.turn.Unlock()
	e.pair.Close()
	return nil
}

// AssignRoles implements replay.RoleAssigner.
func (e *lockedEngine) AssignRoles(serves, shadow string) {
	e.turn.Lock()
	defer e.turn.Unlock()
	e.pair.AssignRoles(serves, shadow)
}

// Take implements worker.Taker.
func (e *lockedEngine) Take(shadow replay.Engine) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	return e.pair.Take(shadow.(*lockedEngine).Serving())
}

// ask calls f with the engine that serves, between steps.
func (e *lockedEngine) ask(f func(*pipeline.Engine)) {
	e.turn.Lock()
	defer e.turn.Unlock()
	f(e.Serving())
}

// Snapshot implements replay.Keeper.
func (e *lockedEngine) Snapshot(meta map[string]string) replay.Snapshot {
	e.turn.Lock()
	defer e.turn.Unlock()
	return snapshot{&e.turn, e.Serving().Config().Local.Blocks, e.pair.Snapshot(meta)}
}

// restorer returns a function that reads a locked engine back from its snapshot.
func restorer(cfg pipeline.Config, models ...*model.Model) func(io.ReaderAt, int64, string) (replay.Keeper, map[string]string, error) {
	return func(r io.ReaderAt, size int64, folder string) (replay.Keeper, map[string]string, error) {
		if files, ok := cfg.Local.Blocks.(*blocks.Store); ok {
			files.From(folder)
		}
		p, meta, err := pipeline.RestorePair(cfg, r, size, models...)
		return &lockedEngine{pair: p}, meta, err
	}
}

// fresh returns a function that makes locked engines at window 0.
func fresh(cfg pipeline.Config, models ...*model.Model) func() (replay.Engine, error) {
	return func() (replay.Engine, error) {
		p, err := pipeline.NewPair(cfg, models...)
		return &lockedEngine{pair: p}, err
	}
}

// Apart implements replay.Comparer.
func (e *lockedEngine) Apart(exact replay.Engine) (d ledger.Distance) {
	e.turn.Lock()
	defer e.turn.Unlock()
	d.Mean, d.Variance = e.Serving().Apart(exact.(*lockedEngine).Serving())
	return d
}

// snapshot is a snapshot of a locked engine, read between its steps.
type snapshot struct {
	turn  *sync.Mutex
	store pipeline.Blocks
	*pipeline.Snapshot
}

func (s snapshot) Read(p []byte) (int, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.Snapshot.Read(p)
}

// Keep implements replay.Snapshot.
func (s snapshot) Keep(folder string) error {
	numbers := s.Blocks()
	if len(numbers) == 0 {
		return nil
	}
	return s.store.(*blocks.Store).Link(folder, numbers)
}

func (s snapshot) Close() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.Snapshot.Close()
	return nil
}

// effective returns a function for [replay.Terms.Effective].
func effective(models ...*model.Model) func(event.Settings) event.Settings {
	return func(there event.Settings) event.Settings {
		cfg, err := pipeline.ParseSettings(there)
		if err != nil {
			return there // settings that cannot be parsed differ; the error names them
		}
		return cfg.Effective(models...).Settings()
	}
}
