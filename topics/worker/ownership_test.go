package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/worker"
)

// colleague is a worker that runs beside others.
type colleague struct {
	cancel    context.CancelFunc
	recovered chan worker.Recovered
	took      chan worker.TookOver
	stepped   chan worker.Stepped // the newest, if nobody listens
	committed atomic.Int64        // windows
	ended     chan error
}

func (w *world) hire(e worker.Engine, cfg worker.Config) *colleague {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	c := &colleague{
		cancel: cancel, recovered: make(chan worker.Recovered, 1), took: make(chan worker.TookOver, 1),
		stepped: make(chan worker.Stepped, 1000), ended: make(chan error, 1),
	}
	if cfg.Policy == nil {
		cfg.Policy = worker.CountOrLinger{Count: 7, Linger: 5 * time.Millisecond}
	}
	cfg.Names, cfg.Model, cfg.Settings, cfg.Classes, cfg.Session = w.names, "tally", "none", []string{"a", "b"}, session
	cfg.Hooks = worker.Join(cfg.Hooks, worker.Hooks{
		Recovered: func(r worker.Recovered) { c.recovered <- r },
		TookOver:  func(t worker.TookOver) { c.took <- t },
		Committed: func(done worker.Committed) { c.committed.Store(done.Last + 1) },
		Stepped:   func(s worker.Stepped) { c.stepped <- s },
	})
	go func() { c.ended <- worker.Run(ctx, w.client, e, cfg) }()
	w.t.Cleanup(cancel)
	return c
}

// await takes stepped windows until the chain of all n nodes and labels, and of
// bad records, is there.
func (c *colleague) await(t *testing.T, n int) (replayed int) {
	t.Helper()
	for got := 0; got < n; {
		select {
		case s := <-c.stepped:
			got += len(s.Outcome.Predictions) + len(s.Outcome.Labelled) + len(s.Outcome.Refused)
			if s.Replayed {
				replayed++
			}
		case err := <-c.ended:
			t.Fatalf("the worker ended with %v", err)
		}
	}
	return replayed
}

// end has the worker end, and returns how.
func (c *colleague) end() error {
	c.cancel()
	return <-c.ended
}

// TestStandby: the second worker follows the first one's windows, takes over
// when that one leaves, and has nothing to replay then. A third that starts
// meanwhile does not disturb the owner, and is not preferred to the second.
func TestStandby(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world) {
		w.send(0, 40)
		first := w.hire(&tally{}, worker.Config{})
		<-first.took
		first.await(t, 81)
		second := w.hire(&tally{}, worker.Config{})
		second.await(t, 81)
		<-second.recovered
		w.send(40, 80)
		first.await(t, 81)
		if followed := second.await(t, 81); followed == 0 {
			t.Error("the standby replayed nothing")
		}
		third := w.hire(&tally{}, worker.Config{})
		<-third.recovered
		select {
		case err := <-first.ended:
			t.Fatalf("the owner ended with %v when another came", err)
		default:
		}
		if err := first.end(); err != nil {
			t.Fatal(err)
		}
		took := <-second.took
		if want := first.committed.Load(); took.Windows != want {
			t.Errorf("took over at window %d, want %d", took.Windows, want)
		}
		w.send(80, 100)
		second.await(t, 41)
		if err := second.end(); err != nil {
			t.Fatal(err)
		}
		<-third.took
		if err := third.end(); err != nil {
			t.Fatal(err)
		}
		w.check(100, 3)
	})
}

// TestTakeOver: an owner that was fenced by somebody stops, commits nothing
// more, and the next goes on.
func TestTakeOver(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world) {
		w.send(0, 20)
		first := w.hire(&tally{}, worker.Config{})
		first.await(t, 41)
		w.settle() // opens a producer session of the same name
		w.send(20, 40)
		if err := <-first.ended; !errors.Is(err, worker.ErrOwned) {
			t.Fatalf("the first worker ended with %v", err)
		}
		if err := w.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		w.check(40, 2)
	})
}
