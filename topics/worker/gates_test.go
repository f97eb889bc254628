package worker_test

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// gates stand between the clients of a broker and the broker. A client whose gate is shut neither
// reaches it nor hears from it until the gate is open again, as a process that was halted and
// wakes up. One whose gate is broken never does, as a process that was killed.
type gates struct {
	mu     sync.Mutex
	change *sync.Cond
	shut   map[string]bool // by client
	broken map[string]bool
}

// onGates runs a test on kfake behind gates, with a graph of so many shards.
func onGates(t *testing.T, shards int, test func(t *testing.T, g *sharded, gates *gates)) {
	t.Helper()
	kafkatest.Bubble(t, func(t *testing.T, n *kafkatest.Network) {
		g := &gates{shut: make(map[string]bool), broken: make(map[string]bool)}
		g.change = sync.NewCond(&g.mu)
		on := n.KFake(t, append(slices.Clone(oneBroker), kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := n.Listen(network, address)
			return gatedListener{l, g}, err
		}))...)
		t.Cleanup(func() { g.set(func() { clear(g.shut) }) })
		test(t, newSharded(t, on, shards), g)
	})
}

func (g *gates) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	g.change.Broadcast()
}

// halt shuts a client's gate, wake opens it again, and kill breaks it.
func (g *gates) halt(client string) { g.set(func() { g.shut[client] = true }) }
func (g *gates) wake(client string) { g.set(func() { delete(g.shut, client) }) }
func (g *gates) kill(client string) { g.set(func() { g.broken[client] = true }) }

// pass waits until a client's gate is open. It returns false if that is broken.
func (g *gates) pass(client string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut[client] && !g.broken[client] {
		g.change.Wait()
	}
	return !g.broken[client]
}

type gatedListener struct {
	net.Listener
	gates *gates
}

func (l gatedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gatedConn{Conn: c, gates: l.gates}, nil
}

// gatedConn is the broker's end of a connection. The first request says which client it is of.
type gatedConn struct {
	net.Conn
	gates *gates

	mu     sync.Mutex
	client string
	head   []byte // of the first request, that was not read on yet
}

// headLen is where a request's client id begins: size, key, version, correlation id, and the
// length of the id.
const headLen = 4 + 2 + 2 + 4 + 2

func (c *gatedConn) Read(b []byte) (int, error) {
	client, err := c.name()
	if err != nil {
		return 0, err
	}
	n := 0
	if len(c.head) > 0 {
		n = copy(b, c.head)
		c.head = c.head[n:]
	} else {
		n, err = c.Conn.Read(b)
	}
	if !c.gates.pass(client) {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// name returns the client.
func (c *gatedConn) name() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != "" {
		return c.client, nil
	}
	head := make([]byte, headLen)
	if _, err := io.ReadFull(c.Conn, head); err != nil {
		return "", err
	}
	id := make([]byte, max(0, int16(binary.BigEndian.Uint16(head[headLen-2:]))))
	if _, err := io.ReadFull(c.Conn, id); err != nil {
		return "", err
	}
	c.head, c.client = append(head, id...), string(id)
	if len(id) == 0 {
		c.client = "?"
	}
	return c.client, nil
}

func (c *gatedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	client := c.client
	c.mu.Unlock()
	if !c.gates.pass(client) {
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(b)
}
