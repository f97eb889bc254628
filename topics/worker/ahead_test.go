package worker_test

import (
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/worker"
)

// Codes that a broker answers an EndTxn with.
const (
	timedOut     = 7  // asked again
	invalidState = 48 // the session is given up, and the outcome unknown
	notAllowed   = 53
	fencedOff    = 90
)

// ends answers EndTxn requests with an error code; 0 lets the broker act.
func ends(c *kfake.Cluster, code func() int16) {
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

// deaf is a listener whose connections can lose the answer to an EndTxn: the
// broker acts on it, and the connection is gone before it can say so.
type deaf struct {
	net.Listener
	lose *atomic.Bool
}

func (d deaf) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	return &deafConn{Conn: c, lose: d.lose}, err
}

// deafConn follows the requests that are read from it: a length, then a body
// that begins with the request's key.
type deafConn struct {
	net.Conn
	lose   *atomic.Bool
	left   uint32 // of the body
	inside bool
	ending atomic.Bool
}

func (c *deafConn) Read(b []byte) (int, error) {
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

func (c *deafConn) Write(b []byte) (int, error) {
	if c.ending.Load() && c.lose.CompareAndSwap(true, false) {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// held is a policy that cuts the window numbered at, and those behind it, only
// when it is let to.
type held struct {
	intake.Policy
	at int64
	on *atomic.Bool
}

func (p held) Cut(b intake.Buffered) intake.Cut {
	if b.Window >= p.at && !p.on.Load() {
		return intake.Cut{Within: time.Millisecond}
	}
	return p.Policy.Cut(b)
}

// TestAhead has windows stepped while the first commit is under way, and that
// commit go wrong in each of the ways there are. What was stepped ahead is
// published once, after it; or not at all when another has taken over, or the
// broker refuses, and then by the next worker.
func TestAhead(t *testing.T) {
	for _, c := range []struct {
		name  string
		codes []int16 // of the first EndTxns, after windows were stepped ahead
		lose  bool    // the answer to the first one that the broker acts on
		tries int     // told of the first commit
		err   error
	}{
		{"nothing goes wrong", nil, false, 1, nil},
		{"it was not committed", []int16{invalidState}, false, 2, nil},
		{"it was not committed, twice", []int16{invalidState, invalidState}, false, 3, nil},
		{"it was committed, and nobody said so", []int16{0, invalidState}, true, 1, nil},
		{"one answer is lost", []int16{0}, true, 1, nil},
		{"another has taken over", []int16{fencedOff}, false, 0, worker.ErrOwned},
		{"it is refused, for a while", []int16{notAllowed}, false, 2, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lose atomic.Bool
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(session), kfake.ListenFn(func(network, address string) (net.Listener, error) {
				l, err := net.Listen(network, address)
				return deaf{l, &lose}, err
			}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cluster.Close)
			w := newFixture(t, cluster.ListenAddrs()[0])
			w.send(0, 200)
			var asked, ahead atomic.Bool
			var n atomic.Int64
			ends(cluster, func() int16 {
				asked.Store(true)
				if !ahead.Load() {
					return timedOut
				}
				i := int(n.Add(1)) - 1
				if i >= len(c.codes) {
					return 0
				}
				if c.codes[i] == 0 {
					lose.Store(c.lose)
				}
				return c.codes[i]
			})
			var commits []worker.Committed
			hooks := worker.Hooks{
				Stepped: func(s worker.Stepped) {
					if s.Outcome.Window >= 40 {
						ahead.Store(true)
					}
				},
				Committed: func(c worker.Committed) { commits = append(commits, c) },
			}
			err = w.run(&tally{}, worker.Config{Hooks: hooks, Policy: held{intake.CountOrLinger{Count: 7, Linger: 5 * time.Millisecond}, 20, &asked}})
			if c.err != nil {
				if !errors.Is(err, c.err) {
					t.Fatalf("the worker ended with %v, want %v", err, c.err)
				}
				if len(commits) > 0 {
					t.Errorf("a commit was told of: %+v", commits)
				}
				if err := w.run(&tally{}, worker.Config{}); err != nil {
					t.Fatal(err)
				}
				w.check(200, 1)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if first := commits[0]; first.Tries != c.tries || first.Last >= 20 {
				t.Errorf("the first commit: %+v, want %d tries and windows before 20", first, c.tries)
			}
			last := int64(-1)
			for _, c := range commits {
				if c.Last-int64(c.Windows) != last {
					t.Errorf("%d windows up to %d follow window %d", c.Windows, c.Last, last)
				}
				last = c.Last
			}
			w.check(200, 1)
			// The ledger's chain is that of the engine alone: a replay agrees.
			if err := w.run(&tally{}, worker.Config{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestInputFails has an input refused after some windows: these are committed,
// and the error is the worker's.
func TestInputFails(t *testing.T) {
	cluster := fake(t)
	w := newFixture(t, cluster.ListenAddrs()[0])
	w.send(0, 50)
	refused := kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: w.names.Nodes, Err: kerr.TopicAuthorizationFailed, Count: -1}
	var fault atomic.Pointer[kfake.FaultHandle]
	var last int64
	err := worker.Run(t.Context(), w.client, &tally{}, worker.Config{
		Names: w.names, Model: "tally", Settings: settings, CommitInterval: time.Hour,
		Policy: intake.CountOrLinger{Count: 7, Linger: time.Millisecond},
		Hooks: worker.Hooks{Stepped: func(s worker.Stepped) {
			last = s.Outcome.Window
			if fault.Load() == nil {
				fault.Store(cluster.Fault(refused))
			}
		}},
	})
	if err == nil || !strings.Contains(err.Error(), w.names.Nodes) {
		t.Fatalf("the worker ended with %v", err)
	}
	fault.Load().Remove()
	recovered := int64(0)
	if err := w.run(&tally{}, worker.Config{Hooks: worker.Hooks{Recovered: func(r worker.Recovered) { recovered = r.Windows }}}); err != nil {
		t.Fatal(err)
	}
	if recovered != last+1 {
		t.Errorf("%d windows were committed of %d stepped", recovered, last+1)
	}
	w.check(50, 1)
}

// TestProduceFails has a session lost in the middle of a transaction of several
// windows: all of it is produced again.
func TestProduceFails(t *testing.T) {
	for _, e := range []*kerr.Error{kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID} {
		t.Run(e.Message, func(t *testing.T) {
			cluster := fake(t)
			w := newFixture(t, cluster.ListenAddrs()[0])
			w.send(0, 100)
			tries := 0
			var asked atomic.Bool
			hooks := worker.Hooks{
				Stepped: func(s worker.Stepped) {
					if s.Outcome.Window == 5 {
						cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: w.names.Predictions, Err: e, Count: 1})
						asked.Store(true)
					}
				},
				Committed: func(c worker.Committed) { tries += c.Tries - 1 },
			}
			policy := held{intake.CountOrLinger{Count: 7, Linger: 5 * time.Millisecond}, 6, &asked}
			if err := w.run(&tally{}, worker.Config{Hooks: hooks, Policy: policy, CommitInterval: 20 * time.Millisecond}); err != nil {
				t.Fatal(err)
			}
			if tries != 1 {
				t.Errorf("%d transactions were produced again, not 1", tries)
			}
			w.check(100, 1)
		})
	}
}
