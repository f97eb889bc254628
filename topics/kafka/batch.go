package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// session is a producer's id and epoch, which idempotence and fencing rest on.
type session struct {
	id    int64
	epoch int16
}

// none is how requests encode the absence of a session.
var none = session{-1, -1}

// Offsets in a record batch of format 2, from its first byte
// (kafka.apache.org/documentation, "Record Batch").
const (
	batchLengthAt = 8  // int32, the number of bytes that follow it
	crcAt         = 17 // uint32, CRC-32C of the bytes that follow it
	attributesAt  = 21
	recordsAt     = 61
)

const transactionalBit = 1 << 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// nextSequence returns sequence + n, where sequence numbers wrap from 2³¹-1 to 0.
func nextSequence(sequence int32, n int) int32 {
	return int32((int64(sequence) + int64(n)) & math.MaxInt32)
}

// headerLen is the number of bytes before a batch's records: the batch's size in 4
// bytes, which a produce request puts before it, and the batch header.
const headerLen = 4 + recordsAt

// recordBatch is one record batch of format 2, whose records are encoded as they are
// added. Only the header depends on the producer's session, so the same batch can
// be sealed again for another session.
type recordBatch struct {
	bytes       []byte       // headerLen bytes for the header, then the records
	n           int          // records
	first, last int64        // the first record's time and the latest time, in ms
	packed      bytes.Buffer // the sealed batch, if records are compressed
	one         []byte       // the record that was added last; reused
}

func (rb *recordBatch) reset() {
	rb.bytes, rb.n = append(rb.bytes[:0], make([]byte, headerLen)...), 0
}

// add appends a record with the time at, in milliseconds.
func (rb *recordBatch) add(r *Record, at int64) {
	if rb.n == 0 {
		rb.first, rb.last = at, at
	}
	rb.last = max(rb.last, at)
	one := kmsg.Record{TimestampDelta64: at - rb.first, OffsetDelta: int32(rb.n), Key: r.Key, Value: r.Value, Headers: r.Headers}
	rb.one = one.AppendTo(rb.one[:0]) // with one byte for a length
	n := len(rb.one) - 1
	if need := len(rb.bytes) + binary.MaxVarintLen64 + n; need > cap(rb.bytes) {
		rb.bytes = slices.Grow(rb.bytes, max(need, 2*cap(rb.bytes))-len(rb.bytes)) // append grows by a quarter
	}
	rb.bytes = append(binary.AppendVarint(rb.bytes, int64(n)), rb.one[1:]...)
	rb.n++
}

// split divides the records among two batches.
func (rb *recordBatch) split() (halves [2]*recordBatch) {
	all := storedBatch{first: rb.first}
	in := input{b: rb.bytes[headerLen:]}
	for i := range halves {
		halves[i] = &recordBatch{}
		halves[i].reset()
	}
	for i := range rb.n {
		stored := all.next(&in)
		r := stored.record(TopicPartition{})
		halves[2*i/rb.n].add(&r, stored.time)
	}
	return halves
}

// seal writes the header and returns the batch, preceded by its size in 4 bytes.
// The result is valid until the batch is changed or sealed again. It must not
// be empty.
func (rb *recordBatch) seal(by session, sequence int32, transactional bool, codec compress.Compression) ([]byte, error) {
	sealed := rb.bytes
	if codec != compress.None {
		rb.packed.Reset()
		rb.packed.Write(rb.bytes[:headerLen])
		w := codec.Codec().NewWriter(&rb.packed)
		_, err := w.Write(rb.bytes[headerLen:])
		if err = errors.Join(err, w.Close()); err != nil {
			return nil, fmt.Errorf("compressing a record batch: %w", err)
		}
		sealed = rb.packed.Bytes()
	}
	attributes := uint16(codec)
	if transactional {
		attributes |= transactionalBit
	}
	be := binary.BigEndian
	be.PutUint32(sealed, uint32(len(sealed)-4))
	b := sealed[4:]
	h := be.AppendUint64(b[:0], 0)                         // base offset
	h = be.AppendUint32(h, uint32(len(b)-batchLengthAt-4)) // length
	h = be.AppendUint32(h, ^uint32(0))                     // partition leader epoch
	h = append(h, 2)                                       // format
	h = be.AppendUint32(h, 0)                              // CRC, set below
	h = be.AppendUint16(h, attributes)
	h = be.AppendUint32(h, uint32(rb.n-1)) // last offset delta
	h = be.AppendUint64(h, uint64(rb.first))
	h = be.AppendUint64(h, uint64(rb.last))
	h = be.AppendUint64(h, uint64(by.id))
	h = be.AppendUint16(h, uint16(by.epoch))
	h = be.AppendUint32(h, uint32(sequence))
	be.AppendUint32(h, uint32(rb.n))
	be.PutUint32(b[crcAt:], crc32.Checksum(b[attributesAt:], castagnoli))
	return sealed, nil
}

// Batch holds encoded records to produce. Add copies its record. A Batch does not
// depend on the producer's session: after a Restart it can be produced again.
type Batch struct {
	limit  int           // bytes of one record batch
	most   *atomic.Int64 // likewise, of several records, as brokers have taught since; 0 for nothing
	topics []topicBatches
	bytes  int // size of the records before compression
}

// topicBatches is the part of a Batch for one topic.
type topicBatches struct {
	topic string
	parts [][]*recordBatch // by partition; all but the last of a partition are full
	spare []*recordBatch   // to reuse
}

// NewBatch returns an empty Batch whose record batches have at most
// MaxBatchBytes each.
func (p *Producer) NewBatch() *Batch { return &Batch{limit: p.cfg.MaxBatchBytes, most: &p.most} }

// Add appends a record to its partition. A record that is too large for a record
// batch is an error and is not added.
func (b *Batch) Add(r *Record) error {
	size := sizeOf(r)
	if size > b.limit {
		return fmt.Errorf("a record for %s partition %d has %d bytes, but a record batch has at most %d", r.Topic,
			r.Partition, size, b.limit)
	}
	t := b.of(r.Topic)
	for int(r.Partition) >= len(t.parts) {
		t.parts = append(t.parts, nil)
	}
	batches := t.parts[r.Partition]
	limit := b.limit
	if most := int(b.most.Load()); most > 0 {
		limit = min(limit, most)
	}
	if len(batches) == 0 || len(batches[len(batches)-1].bytes)-headerLen+size > limit {
		batches = append(batches, t.new())
		t.parts[r.Partition] = batches
	}
	rb := batches[len(batches)-1]
	before := len(rb.bytes)
	at := r.Time
	if at.IsZero() {
		at = time.Now()
	}
	rb.add(r, at.UnixMilli())
	b.bytes += len(rb.bytes) - before
	return nil
}

// Bytes returns the size of the records before compression.
func (b *Batch) Bytes() int { return b.bytes }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	for i := range b.topics {
		t := &b.topics[i]
		for p, batches := range t.parts {
			t.spare = append(t.spare, batches...)
			t.parts[p] = batches[:0]
		}
	}
	b.bytes = 0
}

// of returns the part of a topic, which it creates if there is none.
func (b *Batch) of(topic string) *topicBatches {
	for i := range b.topics {
		if b.topics[i].topic == topic {
			return &b.topics[i]
		}
	}
	b.topics = append(b.topics, topicBatches{topic: topic})
	return &b.topics[len(b.topics)-1]
}

// new returns an empty record batch.
func (t *topicBatches) new() *recordBatch {
	rb := &recordBatch{}
	if n := len(t.spare); n > 0 {
		rb, t.spare = t.spare[n-1], t.spare[:n-1]
	}
	rb.reset()
	return rb
}

// sizeOf returns an upper bound of a record's size in a batch: varints are
// counted at their longest.
func sizeOf(r *Record) int {
	n := 40 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 20 + len(h.Key) + len(h.Value)
	}
	return n
}
