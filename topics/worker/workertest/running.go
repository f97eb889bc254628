package workertest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// Running is a worker in the background. Its hooks send on the channels.
type Running struct {
	Cancel    context.CancelFunc
	Recovered chan replay.Recovered
	Took      chan replay.TookOver
	Stepped   chan replay.Stepped
	Commits   chan replay.Committed
	Committed atomic.Int64 // number of committed windows
	Ended     chan error   // what Run returned
}

// StartWorker starts a worker in the background.
func (f *Fixture) StartWorker(e replay.Engine, cfg worker.Config) *Running {
	f.T.Helper()
	ctx, cancel := context.WithCancel(f.T.Context())
	c := &Running{
		Cancel: cancel, Recovered: make(chan replay.Recovered, 1), Took: make(chan replay.TookOver, 1),
		Stepped: make(chan replay.Stepped, 1000), Commits: make(chan replay.Committed, 1000), Ended: make(chan error, 1),
	}
	cfg = f.Config(cfg)
	cfg.Session = Session
	cfg.Events = replay.Join(cfg.Events, replay.Join(
		replay.On(func(r replay.Recovered) { c.Recovered <- r }),
		replay.On(func(t replay.TookOver) { c.Took <- t }),
		replay.On(func(done replay.Committed) { c.Committed.Store(done.Last + 1); c.Commits <- done }),
		replay.On(func(s replay.Stepped) { c.Stepped <- s }),
	))
	go func() { c.Ended <- worker.Run(ctx, f.Client, e, cfg) }()
	f.T.Cleanup(cancel)
	return c
}

// AwaitEvents waits until the worker has stepped windows with n more events, refused ones
// included, and, where it stepped them as the owner, has committed them. It returns how many
// of the windows were replayed.
func (c *Running) AwaitEvents(t *testing.T, n int) (replayed int) {
	t.Helper()
	last := int64(-1)
	for got := 0; got < n; {
		select {
		case s := <-c.Stepped:
			if s.Replayed {
				replayed++
			} else {
				last = s.Outcome.Window
			}
			got += len(s.Outcome.Predictions) + len(s.Outcome.Labelled) + len(s.Outcome.Refused)
		case err := <-c.Ended:
			t.Fatalf("the worker ended with error %v after %d events, want %d", err, got, n)
		}
	}
	for c.Committed.Load() <= last {
		select {
		case <-c.Commits:
		case err := <-c.Ended:
			t.Fatalf("the worker ended with error %v before it had committed window %d", err, last)
		}
	}
	return replayed
}

// Stop stops the worker and returns what Run returned.
func (c *Running) Stop() error {
	c.Cancel()
	return <-c.Ended
}
