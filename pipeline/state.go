package pipeline

import (
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/snapshots"
	"github.com/gvbll/gvbll/posterior"
)

// This file declares an engine's state, which snapshot.go writes and restore.go reads.

// savedEngine is an engine as snapshots save it.
type savedEngine struct{ *Engine }

// State declares the engine's state without its strings. A part comes after those that
// its checks use.
func (e savedEngine) State(s *snapshot.Schema) {
	e.predictor.State(s, e.next)
	e.labels.State(s)
	heads.DeclareHeads(s, e.serving, &e.queue.Last.Posterior)
	e.queue.State(s, e.next)
	e.scorer.State(s)
	e.observers.State(s)
	if e.cfg.Local.Unwatched && !s.Saving() { // check the snapshot's detectors all the same
		s.Check(func() error {
			parts.NewDetectors(e.model, &posterior.Rows{}).State(s)
			return nil
		})
	}
}

// Rest waits for the end of a job of Config.Run.
func (e savedEngine) Rest() {
	if e.now != nil {
		panic("pipeline: a snapshot within a window")
	}
	e.queue.Settle()
}

func (e savedEngine) Open() **snapshots.Snapshot { return &e.snapshot }

func (e savedEngine) AppendBlocks(list []int64) []int64 { return e.pending.AppendBlocks(list) }

// Strings returns the engine's strings.
func (e savedEngine) Strings() []snapshots.String {
	return snapshots.Strings(e.cfg.Settings(), e.model.ID, &e.next, &e.chain.Hash, &e.queue.Last.Posterior)
}
