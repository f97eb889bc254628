package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/worker"
)

// colleague is a worker that runs beside others.
type colleague struct {
	cancel    context.CancelFunc
	recovered chan worker.Recovered
	took      chan worker.TookOver
	stepped   chan worker.Stepped
	commits   chan worker.Committed
	committed atomic.Int64 // windows
	ended     chan error
}

func (w *fixture) hire(e worker.Engine, cfg worker.Config) *colleague {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	c := &colleague{
		cancel: cancel, recovered: make(chan worker.Recovered, 1), took: make(chan worker.TookOver, 1),
		stepped: make(chan worker.Stepped, 1000), commits: make(chan worker.Committed, 1000), ended: make(chan error, 1),
	}
	if cfg.Policy == nil {
		cfg.Policy = intake.CountOrLinger{Count: 7, Linger: 5 * time.Millisecond}
	}
	cfg.Names, cfg.Model, cfg.Settings, cfg.Classes, cfg.Session = w.names, "tally", settings, []string{"a", "b"}, session
	cfg.Hooks = worker.Join(cfg.Hooks, worker.Hooks{
		Recovered: func(r worker.Recovered) { c.recovered <- r },
		TookOver:  func(t worker.TookOver) { c.took <- t },
		Committed: func(done worker.Committed) { c.committed.Store(done.Last + 1); c.commits <- done },
		Stepped:   func(s worker.Stepped) { c.stepped <- s },
	})
	go func() { c.ended <- worker.Run(ctx, w.client, e, cfg) }()
	w.t.Cleanup(cancel)
	return c
}

// await takes stepped windows until n nodes, labels and bad records are there.
// What an owner stepped is committed then.
func (c *colleague) await(t *testing.T, n int) (replayed int) {
	t.Helper()
	last := int64(-1)
	for got := 0; got < n; {
		select {
		case s := <-c.stepped:
			if !s.Replayed {
				last = s.Outcome.Window
			}
			got += len(s.Outcome.Predictions) + len(s.Outcome.Labelled) + len(s.Outcome.Refused)
			if s.Replayed {
				replayed++
			}
		case err := <-c.ended:
			t.Fatalf("the worker ended with %v", err)
		}
	}
	for c.committed.Load() <= last {
		select {
		case <-c.commits:
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

// TestStandby: standbys follow the owner's windows; that they come does not
// disturb it. When it leaves, one takes over with nothing to replay, and then
// the other.
func TestStandby(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		w.send(0, 40)
		first := w.hire(&tally{}, worker.Config{})
		<-first.took
		first.await(t, 81)
		second := w.hire(&tally{}, worker.Config{})
		<-second.recovered
		w.send(40, 80)
		first.await(t, 81)
		if second.await(t, 162) == 0 {
			t.Error("the standby replayed nothing")
		}
		third := w.hire(&tally{}, worker.Config{})
		<-third.recovered
		if err := first.end(); err != nil {
			t.Fatal(err)
		}
		var took worker.TookOver
		select {
		case took = <-second.took:
		case took = <-third.took:
			second, third = third, second
		}
		if want := first.committed.Load(); took.Windows != want {
			t.Errorf("took over at window %d, want %d", took.Windows, want)
		}
		w.send(80, 100)
		for second.committed.Load() <= took.Windows {
			<-second.commits
		}
		if err := second.end(); err != nil {
			t.Fatal(err)
		}
		<-third.took
		if err := third.end(); err != nil {
			t.Fatal(err)
		}
		if err := w.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		w.check(100, 3)
	})
}

// TestTakenOverMeanwhile: the answer to a commit leaves it open, and the session
// that is then begun is refused, because another has begun one (KIP-360).
func TestTakenOverMeanwhile(t *testing.T) {
	cluster := fake(t)
	w := newFixture(t, cluster.ListenAddrs()[0])
	w.send(0, 20)
	ends(cluster, func() int16 { return invalidState })
	cluster.ControlKey(int16(kmsg.InitProducerID), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if r.(*kmsg.InitProducerIDRequest).ProducerID < 0 {
			return nil, nil, false
		}
		res := r.ResponseKind().(*kmsg.InitProducerIDResponse)
		res.ErrorCode = fencedOff
		return res, nil, true
	})
	if err := w.run(&tally{}, worker.Config{}); !errors.Is(err, worker.ErrOwned) {
		t.Fatalf("the worker ended with %v", err)
	}
}

// TestTakeOver: an owner that was fenced by somebody stops, commits nothing
// more, and the next goes on.
func TestTakeOver(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
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
