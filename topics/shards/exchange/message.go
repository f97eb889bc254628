// Package exchange carries what the tasks of a sharded graph need of each other in a window,
// over a topic: task 0 is the trainer, tasks 1 to P are the shards. Partition 0 is read by the
// trainer, partitions 1 to P each by one shard, and partition P+1 by all shards.
//
// What a task sends is a function of the ledger and the inputs. So nothing here is in a
// transaction: a task that is run twice, or takes over from another, sends the same bytes
// again, and readers take the first. Other bytes for what was sent before show that two
// workers disagree, which ends the reader with an error.
//
// An empty message is a message: a task waits until it has one of every sender.
//
//	message.go   the bytes of a message
//	sender.go    Sender
//	receiver.go  Receiver; lane.go one partition of it
package exchange

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math"
	"time"
)

// Kind is what a message holds.
type Kind uint8

// The kinds of messages.
const (
	Part   Kind = 1 + iota // a shard's partial embeddings of another shard's arrivals
	Rows                   // a shard's labelled rows, to the trainer
	Heads                  // the trainer's heads, to all shards
	Served                 // what a shard served, to all shards
)

var kinds = map[Kind]string{Part: "parts", Rows: "rows", Heads: "heads", Served: "served bytes"}

// String returns the plural.
func (k Kind) String() string {
	if s, ok := kinds[k]; ok {
		return s
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Config says which messages are one's own.
type Config struct {
	Topic  string
	Shards int // P
	Task   int // that sends or receives, 0 to P
	// Run tells the messages of one execution of the graph's windows from those of another,
	// such as of the epoch before or of a graph that has begun again.
	Run uint64

	// Memory bounds in bytes what a Receiver holds of messages that are not waited for yet,
	// and what a Sender holds that is not acknowledged. Zero means 256 MiB.
	Memory int
	// Waited, if not nil, is called for every message that was waited for, with its sender
	// and how long it was missing.
	Waited func(from int, d time.Duration)
	// Sent, if not nil, reports whether a task has sent all its messages for a window, as far as
	// that is known elsewhere. It is asked when they have been missing for a while: if they
	// are not in the log then, they are lost.
	Sent func(ctx context.Context, window int64, from int) (bool, error)
	// Logger gets a warning while a message is missing. Nil means slog's default.
	Logger *slog.Logger
}

func (cfg *Config) setDefaults() {
	cfg.Memory = cmp.Or(cfg.Memory, 256<<20)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Waited == nil {
		cfg.Waited = func(int, time.Duration) {}
	}
	if cfg.Sent == nil {
		cfg.Sent = func(context.Context, int64, int) (bool, error) { return false, nil }
	}
}

// partition returns where messages of the kind go; to is the shard, from 0, if the kind is Part.
func (cfg *Config) partition(k Kind, to int) int32 {
	switch k {
	case Part:
		return int32(1 + to)
	case Rows:
		return 0
	default:
		return int32(1 + cfg.Shards)
	}
}

// senders returns the tasks that send messages of the kind: the first, and the last of them.
func (cfg *Config) senders(k Kind) (first, last int) {
	if k == Heads {
		return 0, 0
	}
	return 1, cfg.Shards
}

// slot is the place of a message: there is one for each.
type slot struct {
	window int64
	kind   Kind
	from   int // task
}

// piece is a record of the topic: a message, or a part of one that is too large for a record
// batch.
type piece struct {
	slot
	run     uint64
	k, of   int // this is the k-th of so many, from 0
	sum     uint32
	payload []byte
}

// The bytes of a piece, little-endian:
//
//	0  format, 1 byte
//	1  kind, 1 byte
//	2  sending task, 2 bytes
//	4  k, 4 bytes
//	8  number of pieces, 4 bytes
//	12 window, 8 bytes
//	20 run, 8 bytes
//	28 payload
//	-4 CRC-32C of everything before it
const (
	format     = 1
	headerLen  = 28
	trailerLen = 4
	// maxPayload keeps a piece within a record batch of 900 KB.
	maxPayload = 900_000 - 200
	// maxPieces bounds a message: 3.6 GB.
	maxPieces = 1 << 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// append appends the piece's bytes to dst.
func (p *piece) append(dst []byte) []byte {
	le, start := binary.LittleEndian, len(dst)
	dst = append(dst, format, byte(p.kind))
	dst = le.AppendUint16(dst, uint16(p.from))
	dst = le.AppendUint32(dst, uint32(p.k))
	dst = le.AppendUint32(dst, uint32(p.of))
	dst = le.AppendUint64(dst, uint64(p.window))
	dst = le.AppendUint64(dst, p.run)
	dst = append(dst, p.payload...)
	return le.AppendUint32(dst, sum(dst[start:]))
}

// decode reads a piece. Its payload points into b.
func decode(b []byte) (p piece, err error) {
	le := binary.LittleEndian
	if len(b) < headerLen+trailerLen {
		return p, fmt.Errorf("%d bytes are too few for a message", len(b))
	}
	if b[0] != format {
		return p, fmt.Errorf("a message of format %d, this program reads format %d", b[0], format)
	}
	end := len(b) - trailerLen
	p.sum = le.Uint32(b[end:])
	if p.sum != sum(b[:end]) {
		return p, errors.New("the CRC of a message is wrong")
	}
	window, k, of := le.Uint64(b[12:]), le.Uint32(b[4:]), le.Uint32(b[8:])
	if window > math.MaxInt64 || of < 1 || of > maxPieces || k >= of {
		return p, fmt.Errorf("a message says that it is piece %d of %d for window %d", k, of, window)
	}
	p.slot = slot{int64(window), Kind(b[1]), int(le.Uint16(b[2:]))}
	if _, ok := kinds[p.kind]; !ok {
		return p, fmt.Errorf("a message of %v", p.kind)
	}
	p.run, p.k, p.of, p.payload = le.Uint64(b[20:]), int(k), int(of), b[headerLen:end]
	return p, nil
}

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
