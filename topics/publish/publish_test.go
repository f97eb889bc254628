package publish_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// lossyListener is a broker's listener whose connections can lose the answer to an EndTxn
// request: the broker acts on the request, and the connection is closed before it answers.
type lossyListener struct {
	net.Listener
	lose *atomic.Bool // lose the next answer
}

func (l lossyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &lossyConn{Conn: c, lose: l.lose}, err
}

// lossyConn parses the requests that the broker reads from it: a length of 4 bytes, then
// a body that begins with the request's key.
type lossyConn struct {
	net.Conn
	lose   *atomic.Bool
	left   uint32      // bytes of the body that are not read yet
	inside bool        // some of the body has been read
	ending atomic.Bool // the last request was an EndTxn
}

func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case n == 0:
	case c.left == 0 && n == 4:
		c.left, c.inside = binary.BigEndian.Uint32(b), false
	default:
		if !c.inside && n >= 2 {
			c.inside = true
			c.ending.Store(binary.BigEndian.Uint16(b) == uint16(kmsg.EndTxn))
		}
		c.left -= min(c.left, uint32(n))
	}
	return n, err
}

func (c *lossyConn) Write(b []byte) (int, error) {
	if c.ending.Load() && c.lose.CompareAndSwap(true, false) {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// gatedPolicy is a policy that does not cut the window numbered from, or any later one,
// until the gate is open.
type gatedPolicy struct {
	intake.Policy
	from int64
	open *atomic.Bool
}

func (p gatedPolicy) Cut(b intake.Buffered) intake.Cut {
	if b.Window >= p.from && !p.open.Load() {
		return intake.Cut{Within: time.Millisecond}
	}
	return p.Policy.Cut(b)
}

// TestAhead: the loop steps further windows while the first commit is under way, and that
// commit fails in various ways. The windows stepped ahead are published exactly once and
// after it. If another worker has taken over, this one publishes nothing, and the next
// worker publishes everything.
func TestAhead(t *testing.T) {
	for _, c := range []struct {
		name  string
		codes []int16 // answers to the first EndTxn requests after windows were stepped ahead
		lose  bool    // lose the answer to the first request that the broker acts on
		tries int     // that the first commit took
		err   error
	}{
		{"no failure", nil, false, 1, nil},
		{"not committed", []int16{kerr.InvalidTxnState.Code}, false, 2, nil},
		{"not committed twice", []int16{kerr.InvalidTxnState.Code, kerr.InvalidTxnState.Code}, false, 3, nil},
		{"committed, the answer lost and the next one an error", []int16{0, kerr.InvalidTxnState.Code}, true, 1, nil},
		{"committed, the answer lost", []int16{0}, true, 1, nil},
		{"fenced by another worker", []int16{kerr.ProducerFenced.Code}, false, 0, publish.ErrOwned},
		{"not authorized for a moment", []int16{kerr.TransactionalIDAuthorizationFailed.Code}, false, 1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			kafkatest.Bubble(t, func(t *testing.T, n *kafkatest.Network) {
				var lose atomic.Bool
				f := newFixture(t, n.KFake(t, append(slices.Clone(workertest.OneBroker), kfake.ListenFn(func(network, address string) (net.Listener, error) {
					l, err := n.Listen(network, address)
					return lossyListener{l, &lose}, err
				}))...))
				f.Send(0, 200)
				// Windows from gate on are not cut before the first commit has begun, so that
				// it contains earlier ones only. It cannot end before window ahead is stepped.
				const gate, ahead = 20, 40
				var committing, steppedAhead atomic.Bool
				var requests atomic.Int64 // after window ahead was stepped
				workertest.AnswerEndTxn(f.On.Fake, func() int16 {
					committing.Store(true)
					if !steppedAhead.Load() {
						return kerr.RequestTimedOut.Code
					}
					i := int(requests.Add(1)) - 1
					if i >= len(c.codes) {
						return 0
					}
					if c.codes[i] == 0 {
						lose.Store(c.lose)
					}
					return c.codes[i]
				})
				var commits []replay.Committed
				hooks := replay.Join(
					replay.On(func(s replay.Stepped) {
						if s.Outcome.Window >= ahead {
							steppedAhead.Store(true)
						}
					}),
					replay.On(func(c replay.Committed) { commits = append(commits, c) }),
				)
				policy := gatedPolicy{intake.CountOrLinger{Count: 4, Linger: 5 * time.Millisecond}, gate, &committing}
				err := f.Run(&tally{}, worker.Config{Events: hooks, Policy: policy})
				if c.err != nil {
					if !errors.Is(err, c.err) {
						t.Fatalf("the worker ended with error %v, want %v", err, c.err)
					}
					if len(commits) > 0 {
						t.Errorf("the worker reported the commits %+v, want none", commits)
					}
					if err := f.Run(&tally{}, worker.Config{}); err != nil {
						t.Fatal(err)
					}
					f.CheckOutputs(200, 1)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if first := commits[0]; first.Tries != c.tries || first.Last >= gate {
					t.Errorf("the first commit is %+v, want %d tries and a last window before %d", first, c.tries, gate)
				}
				last := int64(-1)
				for _, c := range commits {
					if c.Last-int64(c.Windows) != last {
						t.Errorf("a commit of %d windows up to window %d follows window %d, want no gap and no overlap", c.Windows, c.Last, last)
					}
					last = c.Last
				}
				f.CheckOutputs(200, 1)
				if err := f.Run(&tally{}, worker.Config{}); err != nil {
					t.Fatalf("a replay of the ledger: %v", err)
				}
			})
		})
	}
}

// TestProduceFails: the producer session is lost in the middle of a transaction of
// several windows. All of the transaction is produced again, in one retry.
func TestProduceFails(t *testing.T) {
	for _, e := range []*kerr.Error{kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID} {
		t.Run(e.Message, func(t *testing.T) {
			onFake(t, func(t *testing.T, f *fixture) {
				cluster := f.On.Fake
				f.Send(0, 100)
				retries := 0
				var failing atomic.Bool // the fault is in place
				hooks := replay.Join(
					replay.On(func(s replay.Stepped) {
						if s.Outcome.Window == 5 {
							cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: f.Names.Predictions, Err: e, Count: 1})
							failing.Store(true)
						}
					}),
					replay.On(func(c replay.Committed) { retries += c.Tries - 1 }),
				)
				policy := gatedPolicy{intake.CountOrLinger{Count: 4, Linger: 5 * time.Millisecond}, 6, &failing}
				if err := f.Run(&tally{}, worker.Config{Events: hooks, Policy: policy, Publishing: publish.Config{CommitInterval: 20 * time.Millisecond}}); err != nil {
					t.Fatal(err)
				}
				if retries != 1 {
					t.Errorf("%d transactions were produced again, want 1", retries)
				}
				f.CheckOutputs(100, 1)
			})
		})
	}
}

// TestOffsetsOfPausedStream: a transaction of several windows commits the group's offsets behind
// the last of them, so that lag tools show none when the stream pauses.
func TestOffsetsOfPausedStream(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		w := f.StartWorker(&tally{}, worker.Config{Publishing: publish.Config{CommitInterval: 50 * time.Millisecond}})
		for i := range 3 {
			w.AwaitEvents(t, f.Send(100*i, 100*(i+1)))
			want, err := f.Client.Offsets(t.Context(), f.Names.Nodes, f.Names.Labels)
			if err != nil {
				t.Fatal(err)
			}
			ends := make(map[kafka.TopicPartition]int64)
			for at, bounds := range want {
				ends[at] = bounds.End
			}
			for reached := false; !reached; {
				got, err := f.Client.Committed(t.Context(), f.Names.Ledger, f.Names.Nodes, f.Names.Labels)
				if err != nil {
					t.Fatal(err) // also when the test takes too long
				}
				reached = maps.Equal(got, ends)
				time.Sleep(time.Millisecond)
			}
		}
		w.Cancel()
		if err := <-w.Ended; err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(300, 3)
	})
}

// TestFencedAfterUnknownOutcome: the outcome of a commit is unknown, and the new session that
// the worker then asks for is refused, because another worker has opened one (KIP-360). The
// worker ends with ErrOwned.
func TestFencedAfterUnknownOutcome(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.On.Fake
		f.Send(0, 20)
		workertest.AnswerEndTxn(cluster, func() int16 { return kerr.InvalidTxnState.Code })
		refuseSessions(cluster)
		if err := f.Run(&tally{}, worker.Config{}); !errors.Is(err, publish.ErrOwned) {
			t.Fatalf("the worker ended with error %v, want %v", err, publish.ErrOwned)
		}
	})
}

// TestTransactionExpires: while no broker answered, the transaction was open for longer than
// its time-out. The broker has ended it, and refuses the worker's session as it would after
// a take-over. The worker is still the one that was elected: it opens a new session, finds
// that nobody has written to the ledger, and commits the same windows.
func TestTransactionExpires(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.On.Fake
		f.Send(0, 50)
		answers := []int16{kerr.RequestTimedOut.Code, kerr.RequestTimedOut.Code, kerr.RequestTimedOut.Code, kerr.InvalidTxnState.Code} // each but the last is retried
		workertest.AnswerEndTxn(cluster, func() (code int16) {
			if len(answers) > 0 {
				code, answers = answers[0], answers[1:]
			}
			return code
		})
		refuseSessions(cluster)
		if err := f.Run(&tally{}, worker.Config{Publishing: publish.Config{TransactionTimeout: time.Millisecond}}); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(50, 1)
	})
}

// TestTransactionExpiresAndOwned: the same, but another worker was the owner meanwhile, and
// has written to the ledger. This one publishes nothing.
func TestTransactionExpiresAndOwned(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.On.Fake
		f.Send(0, 50)
		refuseSessions(cluster)
		other := ledger.Record{Version: ledger.Version, Chain: "another", Terms: ledger.Terms{Settings: settings.Hash(), Configuration: settings}}
		commit := func() {
			p, err := f.Client.NewProducer(t.Context(), kafka.ProducerConfig{TransactionalID: f.Names.Ledger})
			if err != nil {
				t.Error(err)
				return
			}
			if err := p.Commit(t.Context(), []kafka.Record{{Topic: f.Names.Ledger, Value: other.Append(nil)}}, "", nil); err != nil {
				t.Error(err)
			}
		}
		err := f.Run(&tally{}, worker.Config{Publishing: publish.Config{TransactionTimeout: time.Millisecond}, Events: replay.On(func(replay.TookOver) { commit() })})
		if !errors.Is(err, publish.ErrOwned) {
			t.Errorf("the worker ended with error %v, want %v", err, publish.ErrOwned)
		}
		if n := f.Count(f.Names.Predictions); n > 0 {
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
		res.ErrorCode = kerr.ProducerFenced.Code
		return res, nil, true
	})
}

// TestTransactionTimeoutFollows: with a long commit interval the transaction's time-out is
// longer, so that the broker does not end it before the worker does.
func TestTransactionTimeoutFollows(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.On.Fake
		f.Send(0, 10)
		var timeout atomic.Int64
		cluster.ControlKey(int16(kmsg.InitProducerID), func(r kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			if req := r.(*kmsg.InitProducerIDRequest); req.TransactionalID != nil {
				timeout.Store(int64(req.TransactionTimeoutMillis))
			}
			return nil, nil, false
		})
		w := f.StartWorker(&tally{}, worker.Config{Publishing: publish.Config{CommitInterval: 10 * time.Minute}})
		<-w.Took
		if err := w.Stop(); err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(timeout.Load()) * time.Millisecond; got != 11*time.Minute {
			t.Errorf("transactions time out after %v, want 11m", got)
		}
	})
}

// TestUnknownOutcome: the broker answers every second EndTxn with an error that leaves
// the outcome of the transaction unknown. The worker reads the ledger to find it out, and
// publishes everything exactly once.
func TestUnknownOutcome(t *testing.T) {
	for _, c := range []struct {
		name string
		code int16
	}{{"the request timed out", kerr.RequestTimedOut.Code}, {"the transaction's state is invalid", kerr.InvalidTxnState.Code}} {
		t.Run(c.name, func(t *testing.T) {
			onFake(t, func(t *testing.T, f *fixture) {
				cluster := f.On.Fake
				f.Send(0, 50)
				var requests atomic.Int64
				workertest.AnswerEndTxn(cluster, func() int16 {
					if requests.Add(1)%2 == 0 {
						return 0
					}
					return c.code
				})
				if err := f.Run(&tally{}, worker.Config{}); err != nil {
					t.Fatal(err)
				}
				if n := requests.Load(); n < 2 {
					t.Fatalf("%d EndTxn requests, want at least 2", n)
				}
				f.CheckOutputs(50, 1)
			})
		})
	}
}

// oversized is a tally whose predictions are too large for any record.
type oversized struct{ tally }

func (e *oversized) Step(w *event.Window) *event.Outcome {
	out := e.tally.Step(w)
	for i := range out.Predictions {
		out.Predictions[i].Class = strings.Repeat("x", 1<<20)
	}
	return out
}

// TestTooLarge: a prediction that is too large for a record ends the worker with an
// error, and nothing of its window is published.
func TestTooLarge(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 20)
		if err := f.Run(&oversized{}, worker.Config{}); err == nil || !strings.Contains(err.Error(), "at most") {
			t.Fatalf("the worker ended with error %v, want one that names the limit", err)
		}
		if err := f.Client.ReadAll(t.Context(), f.Names.Predictions, func(r *kafka.Record) {
			t.Errorf("the prediction of node %s was published", r.Key)
		}); err != nil {
			t.Fatal(err)
		}
	})
}
