package kafkatest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Lies alter an answer, which begins with its length, in ways that a proxy before the brokers may.
var Lies = map[string]func(key kmsg.Key, answer []byte) []byte{
	"counts of 2³¹-1": filled("\x7f\xff\xff\xff"), "counts of -1": filled("\xff\xff\xff\xff"),
	"varints of 2³²-1": filled("\x00\xff\xff\xff\xff\x0f"),
	"varints of 2⁶³":   filled("\x00\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
	"2 GiB":            sized(1<<31 - 1), "-1 bytes": sized(1<<32 - 1), "no bytes": sized(0), "256 MiB": sized(256 << 20),
}

func filled(pattern string) func(kmsg.Key, []byte) []byte {
	return func(key kmsg.Key, b []byte) []byte {
		at := 8 // behind length and correlation id
		if key == kmsg.ApiVersions {
			at += 2 // an error there is believed
		}
		copy(b[at:], strings.Repeat(pattern, len(b)))
		return b
	}
}

func sized(n uint32) func(kmsg.Key, []byte) []byte {
	return func(_ kmsg.Key, b []byte) []byte {
		binary.BigEndian.PutUint32(b, n)
		return b
	}
}

// Lying returns the same brokers behind a proxy that alters the first two answers to each kind of request, and passes the others on.
func (k *Kafka) Lying(lie func(kmsg.Key, []byte) []byte) *Kafka {
	var mu sync.Mutex
	told := make(map[kmsg.Key]int)
	altered := func(key kmsg.Key, b []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		if told[key]++; told[key] > 2 {
			return b
		}
		return lie(key, b)
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := k.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &lyingConn{Conn: c, altered: altered, answer: bytes.NewReader(nil)}, nil
	}
	return &Kafka{Addrs: k.Addrs, Dial: dial, Fake: k.Fake, Network: k.Network}
}

// lyingConn is a connection with one request at a time.
type lyingConn struct {
	net.Conn
	altered func(kmsg.Key, []byte) []byte
	begun   int // bytes of a request that were written
	key     kmsg.Key
	answer  *bytes.Reader
}

// Write implements [net.Conn]. The first bytes of a request are written together.
func (c *lyingConn) Write(p []byte) (int, error) {
	if c.begun == 0 && len(p) >= 6 {
		c.key = kmsg.Key(binary.BigEndian.Uint16(p[4:]))
	}
	c.begun += len(p)
	return c.Conn.Write(p)
}

// Read implements [net.Conn].
func (c *lyingConn) Read(p []byte) (int, error) {
	if c.answer.Len() == 0 {
		var size [4]byte
		if _, err := io.ReadFull(c.Conn, size[:]); err != nil {
			return 0, err
		}
		b := slices.Concat(size[:], make([]byte, binary.BigEndian.Uint32(size[:])))
		if _, err := io.ReadFull(c.Conn, b[4:]); err != nil {
			return 0, err
		}
		c.begun = 0
		c.answer.Reset(c.altered(c.key, b))
	}
	return c.answer.Read(p)
}
