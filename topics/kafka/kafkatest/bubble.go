package kafkatest

import (
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// begins is when a [Bubble] does. The event times in tests are before it.
var begins = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// longest is how long a test in a [Bubble] may take. One that waits for what never comes has
// taken it within seconds.
const longest = time.Hour

// Bubble runs a test in virtual time (testing/synctest), in parallel with others. Time goes on
// when all of the test's goroutines wait, so that waiting takes none of the wall's.
//
// The network n is the only one there is: a test that waits for a real one deadlocks. A loop that
// asks again and again must sleep in between, or time stands still. Goroutines that outlive the
// test are an error.
func Bubble(t *testing.T, test func(t *testing.T, n *Network)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Time stands still when the test and its clean-ups have ended. Those that were told to
		// stop may have a time-out to wait for.
		t.Cleanup(func() { time.Sleep(time.Minute) })
		time.Sleep(time.Until(begins))
		limit := time.AfterFunc(longest, func() {
			debug.SetTraceback("all")
			panic(fmt.Sprintf("%s has not ended after %v of virtual time", t.Name(), longest))
		})
		t.Cleanup(func() { limit.Stop() })
		test(t, new(Network))
	})
}

// Network is the network in a [Bubble]. The zero value is ready for use.
type Network struct {
	kfake.VirtualNetwork

	mu   sync.Mutex
	last int // port that was chosen
}

// firstPort is the first that Listen chooses.
const firstPort = 20_000

// Listen listens on a port of 127.0.0.1; on port 0, it chooses a free one.
func (n *Network) Listen(network, address string) (net.Listener, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && port == "0" {
		n.mu.Lock()
		n.last = max(n.last+1, firstPort)
		address = net.JoinHostPort(host, fmt.Sprint(n.last))
		n.mu.Unlock()
	}
	l, err := n.VirtualNetwork.Listen(network, address)
	return listener{l, address}, err
}

type listener struct {
	net.Listener
	address string
}

func (l listener) Addr() net.Addr { return addr(l.address) }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// KFake starts a kfake in the network that runs until the test ends.
func (n *Network) KFake(t testing.TB, opts ...kfake.Opt) *Kafka {
	t.Helper()
	c := start(t, append([]kfake.Opt{kfake.ListenFn(n.Listen)}, opts...)...)
	return &Kafka{Addrs: c.ListenAddrs(), Dial: n.DialContext, Fake: c, Network: n}
}
