package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/segmentio/kafka-go/compress"
)

// session is a producer's identity: what idempotence and fencing go by.
type session struct {
	id    int64
	epoch int16
}

// Fixed places in a record batch of format 2, from its first byte
// (kafka.apache.org/documentation, "Record Batch").
const (
	batchLengthAt = 8  // int32, of all that follows it
	crcAt         = 17 // uint32, CRC-32C of all that follows it
	attributesAt  = 21
	recordsAt     = 61
)

const transactionalBit = 1 << 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// after returns the sequence number of the record that is n behind the one
// numbered sequence: after 2³¹-1 comes 0.
func after(sequence int32, n int) int32 {
	return int32((int64(sequence) + int64(n)) & math.MaxInt32)
}

// appendBatch appends one record batch of format 2, with the 4 bytes of its
// size in front as a produce request wants it. records is not empty.
func appendBatch(dst []byte, records []Record, s session, sequence int32, transactional bool, codec compress.Compression) ([]byte, error) {
	size := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	start := len(dst)
	attributes := int16(codec)
	if transactional {
		attributes |= transactionalBit
	}
	first, last := records[0].Time.UnixMilli(), records[0].Time.UnixMilli()
	for i := range records {
		last = max(last, records[i].Time.UnixMilli())
	}
	be := binary.BigEndian
	dst = be.AppendUint64(dst, 0)          // base offset
	dst = be.AppendUint32(dst, 0)          // length, below
	dst = be.AppendUint32(dst, ^uint32(0)) // partition leader epoch
	dst = append(dst, 2)                   // format
	dst = be.AppendUint32(dst, 0)          // CRC, below
	dst = be.AppendUint16(dst, uint16(attributes))
	dst = be.AppendUint32(dst, uint32(len(records)-1)) // last offset delta
	dst = be.AppendUint64(dst, uint64(first))
	dst = be.AppendUint64(dst, uint64(last))
	dst = be.AppendUint64(dst, uint64(s.id))
	dst = be.AppendUint16(dst, uint16(s.epoch))
	dst = be.AppendUint32(dst, uint32(sequence))
	dst = be.AppendUint32(dst, uint32(len(records)))
	if codec == compress.None {
		dst = appendRecords(dst, records, first)
	} else {
		var b bytes.Buffer
		w := codec.Codec().NewWriter(&b)
		if _, err := w.Write(appendRecords(nil, records, first)); err != nil {
			return nil, fmt.Errorf("compressing a record batch: %w", err)
		}
		if err := w.Close(); err != nil {
			return nil, fmt.Errorf("compressing a record batch: %w", err)
		}
		dst = append(dst, b.Bytes()...)
	}
	batch := dst[start:]
	be.PutUint32(dst[size:], uint32(len(batch)))
	be.PutUint32(batch[batchLengthAt:], uint32(len(batch)-batchLengthAt-4))
	be.PutUint32(batch[crcAt:], crc32.Checksum(batch[attributesAt:], castagnoli))
	return dst, nil
}

func appendRecords(dst []byte, records []Record, first int64) []byte {
	for i := range records {
		r := &records[i]
		delta := r.Time.UnixMilli() - first
		n := 1 + varintLen(delta) + varintLen(int64(i)) + bytesLen(r.Key) + bytesLen(r.Value) + varintLen(int64(len(r.Headers)))
		for _, h := range r.Headers {
			n += varintLen(int64(len(h.Key))) + len(h.Key) + bytesLen(h.Value)
		}
		dst = binary.AppendVarint(dst, int64(n))
		dst = append(dst, 0) // attributes
		dst = binary.AppendVarint(dst, delta)
		dst = binary.AppendVarint(dst, int64(i))
		dst = appendBytes(dst, r.Key)
		dst = appendBytes(dst, r.Value)
		dst = binary.AppendVarint(dst, int64(len(r.Headers)))
		for _, h := range r.Headers {
			dst = binary.AppendVarint(dst, int64(len(h.Key)))
			dst = append(dst, h.Key...)
			dst = appendBytes(dst, h.Value)
		}
	}
	return dst
}

// appendBytes writes length and bytes; null has length -1.
func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

func bytesLen(b []byte) int {
	if b == nil {
		return 1
	}
	return varintLen(int64(len(b))) + len(b)
}

func varintLen(x int64) int {
	u := uint64(x<<1) ^ uint64(x>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

// sizeOf is what a record takes in a batch, or a little more: varints are
// counted at their longest.
func sizeOf(r *Record) int {
	n := 40 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 20 + len(h.Key) + len(h.Value)
	}
	return n
}
