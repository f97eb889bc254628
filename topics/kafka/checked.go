package kafka

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxChecked bounds an answer other than to a fetch, in bytes: metadata of some 200,000 partitions.
const maxChecked = 16 << 20

// checkedConn is a connection to a broker whose answers are whole ones of the protocol, or errors: kafka-go takes memory for any length
// and count that an answer claims, or panics. Answers to a fetch pass, see [raw]. There is one request at a time.
type checkedConn struct {
	net.Conn
	head   []byte // of the request that is being written, up to its version
	left   int    // bytes of it behind that
	key    kmsg.Key
	answer []byte // not read yet
	pass   int    // bytes of a fetch's answer that are not read yet
	err    error  // of an answer: kafka-go reads on behind one, and would wait for more
	// throttled is called with what answers say that kafka-go asks for itself.
	throttled func(request protocol.ApiKey, d time.Duration)
}

// requestHead is the length of what a request begins with: its size, key and version.
const requestHead = 4 + 2 + 2

// dialChecked returns a function that connects to a broker, with TLS if the configuration has it.
func dialChecked(cfg Config, throttled func(protocol.ApiKey, time.Duration)) func(ctx context.Context, network,
	address string) (net.Conn, error) {
	dial := cfg.Dialer
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if cfg.TLS != nil {
			with := cfg.TLS.Clone()
			if with.ServerName == "" {
				with.ServerName, _, _ = net.SplitHostPort(address)
			}
			conn = tls.Client(conn, with)
		}
		return &checkedConn{Conn: conn, throttled: throttled}, nil
	}
}

// Write implements [net.Conn].
func (c *checkedConn) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if c.left == 0 {
			n := min(len(rest), requestHead-len(c.head))
			c.head, rest = append(c.head, rest[:n]...), rest[n:]
			if len(c.head) == requestHead {
				c.left = int(binary.BigEndian.Uint32(c.head)) - (requestHead - 4)
				c.key = kmsg.Key(binary.BigEndian.Uint16(c.head[4:]))
			}
		}
		n := min(len(rest), c.left)
		rest, c.left = rest[n:], c.left-n
		if len(c.head) == requestHead && c.left == 0 && len(rest) > 0 {
			c.head = c.head[:0]
		}
	}
	return c.Conn.Write(p)
}

// Read implements [net.Conn].
func (c *checkedConn) Read(p []byte) (n int, err error) {
	if len(c.answer) == 0 && c.pass == 0 {
		if c.err == nil {
			c.err = c.next()
		}
		if c.err != nil {
			return 0, c.err
		}
	}
	if len(c.answer) > 0 {
		n = copy(p, c.answer)
		c.answer = c.answer[n:]
		return n, nil
	}
	n, err = c.Conn.Read(p[:min(len(p), c.pass)])
	c.pass -= n
	return n, err
}

// next reads the next answer, or of a fetch its length, and checks it.
func (c *checkedConn) next() error {
	var size [4]byte
	if _, err := io.ReadFull(c.Conn, size[:]); err != nil {
		return err
	}
	n, head := binary.BigEndian.Uint32(size[:]), c.head
	c.head = c.head[:0]
	if c.key == kmsg.Fetch && n <= maxAnswer {
		c.answer, c.pass = size[:], int(n)
		return nil
	}
	if n < 4 || n > maxChecked || len(head) < requestHead {
		return fmt.Errorf("%w: it has %d bytes", errMalformed, n)
	}
	b, err := readFull(c.Conn, size[:], int(n))
	if err != nil {
		return err
	}
	res := kmsg.ResponseForKey(int16(c.key))
	if res == nil {
		return fmt.Errorf("%w: nobody asked for it", errMalformed)
	}
	res.SetVersion(int16(binary.BigEndian.Uint16(head[6:])))
	body := b[8:] // behind the correlation id
	if res.IsFlexible() && c.key != kmsg.ApiVersions {
		if len(body) == 0 || body[0] != 0 { // tags
			return errMalformed
		}
		body = body[1:]
	}
	if err := res.ReadFrom(body); err != nil {
		return fmt.Errorf("%w: to %s: %w", errMalformed, c.key.Name(), err)
	}
	if t, ok := res.(kmsg.ThrottleResponse); ok && (c.key == kmsg.ApiVersions || c.key == kmsg.Metadata) {
		d, _ := t.Throttle()
		c.throttled(protocol.ApiKey(c.key), time.Duration(d)*time.Millisecond)
	}
	c.answer = b
	return nil
}
