package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
)

// Bounds on what one answer may grow to in memory. A batch that is larger when it is
// unpacked is refused. Once an answer holds this much, the rest of it is asked for again.
const (
	maxUnpacked      = 64 << 20 // bytes
	maxRecords       = 1 << 16
	maxRecordHeaders = 1 << 12 // of one record
)

// storedBatch is a record batch of format 2 as a broker stores it
// (kafka.apache.org/documentation, "Record Batch").
type storedBatch struct {
	raw           []byte
	base, last    int64 // offsets; last may have been compacted away
	producer      int64
	control       bool // it is a transaction marker
	transactional bool
	codec         compress.Compression
	first         int64 // time of its first record, in ms; those of records count from it
	latest        int64 // latest time of its records
	records       int
	// damaged says why nothing but base is known of it, "" if all is. doubtful: the damage may
	// have happened on the way here.
	damaged  string
	doubtful bool
}

// tooMuchUnpacked says that a batch is larger than maxUnpacked, or claims to be.
var tooMuchUnpacked = fmt.Sprintf("its records unpack to more than %d MB", maxUnpacked>>20)

const (
	formatAt    = 16
	controlBit  = 1 << 5
	codecBits   = 7
	batchFormat = 2 // since Kafka 0.11
)

// claimedLen returns the number of bytes that the batch at the beginning of b claims to have, 0 if
// there are too few to tell.
func claimedLen(b []byte) int64 {
	if len(b) <= formatAt {
		return 0
	}
	return int64(int32(binary.BigEndian.Uint32(b[batchLengthAt:]))) + batchLengthAt + 4
}

// nextBatch cuts the first batch off the bytes of an answer. It returns false at their
// end, which may be in the middle of a batch.
func nextBatch(b *[]byte) (s storedBatch, ok bool) {
	n := claimedLen(*b)
	if n <= formatAt || n > int64(len(*b)) {
		return s, false
	}
	be := binary.BigEndian
	s.raw, *b = (*b)[:n:n], (*b)[n:]
	s.base = int64(be.Uint64(s.raw))
	s.last = s.base
	if format := s.raw[formatAt]; format != batchFormat {
		s.damaged = fmt.Sprintf("its format is %d, and formats other than %d are not read", format, batchFormat)
		// The older formats' CRC covers it.
		s.doubtful = be.Uint32(s.raw[batchLengthAt+4:]) != crc32.ChecksumIEEE(s.raw[formatAt:])
		return s, true
	}
	if len(s.raw) < recordsAt {
		s.damaged, s.doubtful = "its header is not whole", true
		return s, true
	}
	if be.Uint32(s.raw[crcAt:]) != crc32.Checksum(s.raw[attributesAt:], castagnoli) {
		s.damaged, s.doubtful = "its CRC is wrong", true
		return s, true
	}
	h := s.raw[attributesAt:] // attributes, last offset delta, first and latest time, producer's id, epoch, sequence, number of records
	attributes := be.Uint16(h)
	s.control, s.transactional = attributes&controlBit != 0, attributes&transactionalBit != 0
	s.codec = compress.Compression(attributes & codecBits)
	s.last += int64(int32(be.Uint32(h[2:])))
	s.first, s.latest, s.producer = int64(be.Uint64(h[6:])), int64(be.Uint64(h[14:])), int64(be.Uint64(h[22:]))
	s.records = int(int32(be.Uint32(h[36:])))
	return s, true
}

// unpack returns the batch's records as bytes, unpacked into s if they are compressed, or
// says why they cannot be read. The reasons are texts of this package alone, because
// they are published in dead letters, whose bytes an audit compares.
func (b *storedBatch) unpack(s *share) (packed []byte, why string) {
	packed = b.raw[recordsAt:]
	if b.codec == compress.None {
		return packed, ""
	}
	codec := b.codec.Codec()
	if codec == nil {
		return nil, fmt.Sprintf("its compression is %d, which is not known", b.codec)
	}
	r, tooLarge := unpacker(b.codec, packed)
	if tooLarge {
		return nil, tooMuchUnpacked
	}
	defer r.Close()
	from := len(s.bytes)
	for {
		if len(s.bytes) == cap(s.bytes) {
			// Earlier records keep pointing into the old block.
			block := make([]byte, len(s.bytes)-from, max(2*(len(s.bytes)-from), 4*len(packed), 4<<10))
			copy(block, s.bytes[from:])
			s.bytes, from = block, 0
		}
		n, err := r.Read(s.bytes[len(s.bytes):cap(s.bytes)])
		s.bytes = s.bytes[:len(s.bytes)+n]
		s.unpacked += n
		switch {
		case len(s.bytes)-from > maxUnpacked || errors.Is(err, zstd.ErrWindowSizeExceeded):
			s.bytes = s.bytes[:from]
			return nil, tooMuchUnpacked
		case err == io.EOF:
			return s.bytes[from:len(s.bytes):len(s.bytes)], ""
		case err != nil:
			s.bytes = s.bytes[:from]
			return nil, fmt.Sprintf("its records cannot be unpacked: they are not %s, or something follows them", codec.Name())
		}
	}
}

// storedRecord is a record within a batch.
type storedRecord struct {
	offset, time int64
	key, value   []byte
	headers      int
	in           input // at the headers
}

// next reads the next record of the batch.
func (b *storedBatch) next(in *input) (r storedRecord) {
	r.in.b = in.take(in.varint())
	r.in.take(1) // attributes, unused
	r.time = b.first + r.in.varint()
	r.offset = b.base + r.in.varint()
	r.key, r.value = r.in.bytes(), r.in.bytes()
	if n := r.in.varint(); n >= 0 && n <= maxRecordHeaders {
		r.headers = int(n)
	} else {
		r.in.fail()
	}
	in.failed = in.failed || r.in.failed
	return r
}

// header reads the record's next header.
func (r *storedRecord) header() Header {
	key := r.in.bytes()
	return Header{Key: string(key), Value: r.in.bytes()}
}

// check goes through the unpacked records once before any of them is believed, and says
// why they cannot be read.
func (b *storedBatch) check(records []byte) (why string) {
	if b.records < 0 {
		return fmt.Sprintf("it claims to have %d records", b.records)
	}
	in := input{b: records}
	before := b.base - 1
	for range b.records {
		r := b.next(&in)
		for range r.headers {
			r.header()
		}
		switch {
		case in.failed || r.in.failed:
			return "its records cannot be decoded"
		case r.offset <= before || r.offset > b.last:
			return "its offsets are out of order"
		}
		before = r.offset
	}
	if len(in.b) > 0 {
		return fmt.Sprintf("bytes follow the %d records that it claims to have", b.records)
	}
	return ""
}

// record returns a record of the partition as a Reader's caller gets it.
func (r *storedRecord) record(at TopicPartition) Record {
	out := Record{Topic: at.Topic, Partition: at.Partition, Offset: r.offset, Time: time.UnixMilli(r.time), Key: r.key, Value: r.value}
	for range r.headers {
		out.Headers = append(out.Headers, r.header())
	}
	return out
}

// refusal returns the record that stands for a batch that cannot be read. It has the
// batch's last offset, so that a reader that starts anywhere in the batch gets it, and
// one that starts behind does not.
func (b *storedBatch) refusal(at TopicPartition, why string) Record {
	return Record{
		Topic: at.Topic, Partition: at.Partition, Offset: b.last, Time: time.UnixMilli(b.latest), Value: b.raw,
		Unreadable: fmt.Sprintf("the batch at offset %d cannot be read: %s", b.base, why),
	}
}
