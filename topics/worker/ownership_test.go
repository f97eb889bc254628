package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// runningWorker is a worker in the background. Its hooks send on the channels.
type runningWorker struct {
	cancel    context.CancelFunc
	recovered chan replay.Recovered
	took      chan replay.TookOver
	stepped   chan replay.Stepped
	commits   chan replay.Committed
	committed atomic.Int64 // number of committed windows
	ended     chan error   // what Run returned
}

// startWorker starts a worker in the background.
func (f *fixture) startWorker(e replay.Engine, cfg worker.Config) *runningWorker {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	c := &runningWorker{
		cancel: cancel, recovered: make(chan replay.Recovered, 1), took: make(chan replay.TookOver, 1),
		stepped: make(chan replay.Stepped, 1000), commits: make(chan replay.Committed, 1000), ended: make(chan error, 1),
	}
	cfg = f.config(cfg)
	cfg.Session = session
	cfg.Events = replay.Join(cfg.Events, replay.Join(
		replay.On(func(r replay.Recovered) { c.recovered <- r }),
		replay.On(func(t replay.TookOver) { c.took <- t }),
		replay.On(func(done replay.Committed) { c.committed.Store(done.Last + 1); c.commits <- done }),
		replay.On(func(s replay.Stepped) { c.stepped <- s }),
	))
	go func() { c.ended <- worker.Run(ctx, f.client, e, cfg) }()
	f.t.Cleanup(cancel)
	return c
}

// awaitEvents waits until the worker has stepped windows with n more events, refused ones
// included, and, where it stepped them as the owner, has committed them. It returns how many
// of the windows were replayed.
func (c *runningWorker) awaitEvents(t *testing.T, n int) (replayed int) {
	t.Helper()
	last := int64(-1)
	for got := 0; got < n; {
		select {
		case s := <-c.stepped:
			if s.Replayed {
				replayed++
			} else {
				last = s.Outcome.Window
			}
			got += len(s.Outcome.Predictions) + len(s.Outcome.Labelled) + len(s.Outcome.Refused)
		case err := <-c.ended:
			t.Fatalf("the worker ended with error %v after %d events, want %d", err, got, n)
		}
	}
	for c.committed.Load() <= last {
		select {
		case <-c.commits:
		case err := <-c.ended:
			t.Fatalf("the worker ended with error %v before it had committed window %d", err, last)
		}
	}
	return replayed
}

// stop stops the worker and returns what Run returned.
func (c *runningWorker) stop() error {
	c.cancel()
	return <-c.ended
}

// TestStandby: standbys replay the owner's windows as they are committed, and do not disturb
// it when they join. When the owner leaves, one of them takes over at the next window, and
// after it the other.
func TestStandby(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		before := f.send(0, 40)
		first := f.startWorker(&tally{}, worker.Config{})
		<-first.took
		first.awaitEvents(t, before)
		second := f.startWorker(&tally{}, worker.Config{})
		<-second.recovered
		after := f.send(40, 80)
		first.awaitEvents(t, after)
		if second.awaitEvents(t, before+after) == 0 {
			t.Error("the standby replayed no windows")
		}
		third := f.startWorker(&tally{}, worker.Config{})
		<-third.recovered
		if err := first.stop(); err != nil {
			t.Fatal(err)
		}
		var took replay.TookOver
		select {
		case took = <-second.took:
		case took = <-third.took:
			second, third = third, second
		}
		if want := first.committed.Load(); took.Windows != want {
			t.Errorf("a standby took over at window %d, want %d", took.Windows, want)
		}
		f.send(80, 100)
		for second.committed.Load() <= took.Windows {
			<-second.commits
		}
		if err := second.stop(); err != nil {
			t.Fatal(err)
		}
		<-third.took
		if err := third.stop(); err != nil {
			t.Fatal(err)
		}
		if err := f.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(100, 3)
	})
}

// TestFencedAfterUnknownOutcome: the outcome of a commit is unknown, and the new session that
// the worker then asks for is refused, because another worker has opened one (KIP-360). The
// worker ends with ErrOwned.
func TestFencedAfterUnknownOutcome(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.on.Fake
		f.send(0, 20)
		answerEndTxn(cluster, func() int16 { return invalidTxnState })
		refuseSessions(cluster)
		if err := f.run(&tally{}, worker.Config{}); !errors.Is(err, publish.ErrOwned) {
			t.Fatalf("the worker ended with error %v, want %v", err, publish.ErrOwned)
		}
	})
}

// TestTakeOver: an owner that another producer session has fenced ends with ErrOwned and
// commits nothing more. The next worker continues after the last committed window.
func TestTakeOver(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		n := f.send(0, 20)
		first := f.startWorker(&tally{}, worker.Config{})
		first.awaitEvents(t, n)
		f.fence()
		f.send(20, 40)
		if err := <-first.ended; !errors.Is(err, publish.ErrOwned) {
			t.Fatalf("the first worker ended with error %v, want %v", err, publish.ErrOwned)
		}
		if err := f.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(40, 2)
	})
}

// TestTransactionExpires: while no broker answered, the transaction was open for longer than
// its time-out. The broker has ended it, and refuses the worker's session as it would after
// a take-over. The worker is still the one that was elected: it opens a new session, finds
// that nobody has written to the ledger, and commits the same windows.
func TestTransactionExpires(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.on.Fake
		f.send(0, 50)
		answers := []int16{requestTimedOut, requestTimedOut, requestTimedOut, invalidTxnState} // each but the last is retried
		answerEndTxn(cluster, func() (code int16) {
			if len(answers) > 0 {
				code, answers = answers[0], answers[1:]
			}
			return code
		})
		refuseSessions(cluster)
		if err := f.run(&tally{}, worker.Config{Publishing: publish.Config{TransactionTimeout: time.Millisecond}}); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(50, 1)
	})
}

// TestTransactionExpiresAndOwned: the same, but another worker was the owner meanwhile, and
// has written to the ledger. This one publishes nothing.
func TestTransactionExpiresAndOwned(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.on.Fake
		f.send(0, 50)
		refuseSessions(cluster)
		other := ledger.Record{Version: ledger.Version, Chain: "another", Terms: ledger.Terms{Settings: settings.Hash(), Configuration: settings}}
		commit := func() {
			p, err := f.client.NewProducer(t.Context(), kafka.ProducerConfig{TransactionalID: f.names.Ledger})
			if err != nil {
				t.Error(err)
				return
			}
			if err := p.Commit(t.Context(), []kafka.Record{{Topic: f.names.Ledger, Value: other.Append(nil)}}, "", nil); err != nil {
				t.Error(err)
			}
		}
		err := f.run(&tally{}, worker.Config{Publishing: publish.Config{TransactionTimeout: time.Millisecond}, Events: replay.On(func(replay.TookOver) { commit() })})
		if !errors.Is(err, publish.ErrOwned) {
			t.Errorf("the worker ended with error %v, want %v", err, publish.ErrOwned)
		}
		if n := f.count(f.names.Predictions); n > 0 {
			t.Errorf("%d nodes were predicted, want none", n)
		}
	})
}

// refuseSessions refuses to a producer that has had a session another one, as after a
// take-over. The cluster itself ends no transaction because of its time-out.
func refuseSessions(cluster *kfake.Cluster) {
	cluster.ControlKey(int16(kmsg.InitProducerID), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if req := r.(*kmsg.InitProducerIDRequest); req.ProducerID < 0 {
			req.TransactionTimeoutMillis = 60_000
			return nil, nil, false
		}
		res := r.ResponseKind().(*kmsg.InitProducerIDResponse)
		res.ErrorCode = producerFenced
		return res, nil, true
	})
}

// TestTransactionTimeoutFollows: with a long commit interval the transaction's time-out is
// longer, so that the broker does not end it before the worker does.
func TestTransactionTimeoutFollows(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.on.Fake
		f.send(0, 10)
		var timeout atomic.Int64
		cluster.ControlKey(int16(kmsg.InitProducerID), func(r kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			if req := r.(*kmsg.InitProducerIDRequest); req.TransactionalID != nil {
				timeout.Store(int64(req.TransactionTimeoutMillis))
			}
			return nil, nil, false
		})
		w := f.startWorker(&tally{}, worker.Config{Publishing: publish.Config{CommitInterval: 10 * time.Minute}})
		<-w.took
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(timeout.Load()) * time.Millisecond; got != 11*time.Minute {
			t.Errorf("transactions time out after %v, want 11m", got)
		}
	})
}
