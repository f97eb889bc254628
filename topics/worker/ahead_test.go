package worker_test

import (
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// Error codes of Kafka that these tests answer an EndTxn request with.
const (
	requestTimedOut    = 7  // the client sends the request again
	invalidTxnState    = 48 // the client gives up the session, and the outcome is unknown
	txnIDNotAuthorized = 53
	producerFenced     = 90
)

// answerEndTxn answers every EndTxn request with the error code that the function
// returns; 0 passes the request on to the broker.
func answerEndTxn(c *kfake.Cluster, code func() int16) {
	c.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n := code()
		if n == 0 {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.EndTxnResponse)
		res.ErrorCode = n
		return res, nil, true
	})
}

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
		{"not committed", []int16{invalidTxnState}, false, 2, nil},
		{"not committed twice", []int16{invalidTxnState, invalidTxnState}, false, 3, nil},
		{"committed, the answer lost and the next one an error", []int16{0, invalidTxnState}, true, 1, nil},
		{"committed, the answer lost", []int16{0}, true, 1, nil},
		{"fenced by another worker", []int16{producerFenced}, false, 0, publish.ErrOwned},
		{"not authorized once", []int16{txnIDNotAuthorized}, false, 2, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			kafkatest.Bubble(t, func(t *testing.T, n *kafkatest.Network) {
				var lose atomic.Bool
				f := newFixture(t, n.KFake(t, append(slices.Clone(oneBroker), kfake.ListenFn(func(network, address string) (net.Listener, error) {
					l, err := n.Listen(network, address)
					return lossyListener{l, &lose}, err
				}))...))
				f.send(0, 200)
				// Windows from gate on are not cut before the first commit has begun, so that
				// it contains earlier ones only. It cannot end before window ahead is stepped.
				const gate, ahead = 20, 40
				var committing, steppedAhead atomic.Bool
				var requests atomic.Int64 // after window ahead was stepped
				answerEndTxn(f.on.Fake, func() int16 {
					committing.Store(true)
					if !steppedAhead.Load() {
						return requestTimedOut
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
				err := f.run(&tally{}, worker.Config{Events: hooks, Policy: policy})
				if c.err != nil {
					if !errors.Is(err, c.err) {
						t.Fatalf("the worker ended with error %v, want %v", err, c.err)
					}
					if len(commits) > 0 {
						t.Errorf("the worker reported the commits %+v, want none", commits)
					}
					if err := f.run(&tally{}, worker.Config{}); err != nil {
						t.Fatal(err)
					}
					f.checkOutputs(200, 1)
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
				f.checkOutputs(200, 1)
				if err := f.run(&tally{}, worker.Config{}); err != nil {
					t.Fatalf("a replay of the ledger: %v", err)
				}
			})
		})
	}
}

// TestInputFails: an input topic can no longer be read after some windows. The worker
// ends with an error that names the topic, and with all stepped windows committed.
func TestInputFails(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.on.Fake
		f.send(0, 50)
		refused := kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: f.names.Nodes, Err: kerr.TopicAuthorizationFailed, Count: -1}
		var fault atomic.Pointer[kfake.FaultHandle]
		var last int64
		err := worker.Run(t.Context(), f.client, &tally{}, f.config(worker.Config{
			Publishing: publish.Config{CommitInterval: 10 * time.Minute},
			Policy:     intake.CountOrLinger{Count: 7, Linger: time.Millisecond},
			Events: replay.On(func(s replay.Stepped) {
				last = s.Outcome.Window
				if fault.Load() == nil {
					fault.Store(cluster.Fault(refused))
				}
			}),
		}))
		if err == nil || !strings.Contains(err.Error(), f.names.Nodes) {
			t.Fatalf("the worker ended with error %v, want one that names the topic %s", err, f.names.Nodes)
		}
		fault.Load().Remove()
		recovered := int64(0)
		if err := f.run(&tally{}, worker.Config{Events: replay.On(func(r replay.Recovered) { recovered = r.Windows })}); err != nil {
			t.Fatal(err)
		}
		if recovered != last+1 {
			t.Errorf("%d windows were committed, want all %d that were stepped", recovered, last+1)
		}
		f.checkOutputs(50, 1)
	})
}

// TestProduceFails: the producer session is lost in the middle of a transaction of
// several windows. All of the transaction is produced again, in one retry.
func TestProduceFails(t *testing.T) {
	for _, e := range []*kerr.Error{kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID} {
		t.Run(e.Message, func(t *testing.T) {
			onFake(t, func(t *testing.T, f *fixture) {
				cluster := f.on.Fake
				f.send(0, 100)
				retries := 0
				var failing atomic.Bool // the fault is in place
				hooks := replay.Join(
					replay.On(func(s replay.Stepped) {
						if s.Outcome.Window == 5 {
							cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: f.names.Predictions, Err: e, Count: 1})
							failing.Store(true)
						}
					}),
					replay.On(func(c replay.Committed) { retries += c.Tries - 1 }),
				)
				policy := gatedPolicy{intake.CountOrLinger{Count: 4, Linger: 5 * time.Millisecond}, 6, &failing}
				if err := f.run(&tally{}, worker.Config{Events: hooks, Policy: policy, Publishing: publish.Config{CommitInterval: 20 * time.Millisecond}}); err != nil {
					t.Fatal(err)
				}
				if retries != 1 {
					t.Errorf("%d transactions were produced again, want 1", retries)
				}
				f.checkOutputs(100, 1)
			})
		})
	}
}
