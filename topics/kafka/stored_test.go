package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// packedAt returns a batch of records as it is in a log, compressed, with its first record
// at the offset.
func packedAt(tb testing.TB, offset int64, codec compress.Compression, records ...Record) []byte {
	tb.Helper()
	b, err := appendBatch(nil, records, none, -1, false, codec)
	if err != nil {
		tb.Fatal(err)
	}
	binary.BigEndian.PutUint64(b[4:], uint64(offset))
	return b[4:]
}

// altered returns the batch after a change, with the length and CRC that fit it.
func altered(b []byte, change func(b []byte) []byte) []byte {
	b = change(bytes.Clone(b))
	binary.BigEndian.PutUint32(b[batchLengthAt:], uint32(len(b)-batchLengthAt-4))
	binary.BigEndian.PutUint32(b[crcAt:], crc32.Checksum(b[attributesAt:], castagnoli))
	return b
}

func withJunk(b []byte) []byte { return append(b, "junk"...) }

// TestUnreadableBatch: a batch that cannot be read gives one record, which has its bytes, its
// last offset and the reason, and the batches around it are read. A reader that starts within
// the batch gets it too, and one that starts behind does not.
func TestUnreadableBatch(t *testing.T) {
	value := func(s string) Record { return Record{Value: []byte(s)} }
	batch := func(codec compress.Compression) []byte { return packedAt(t, 1, codec, value("a"), value("b")) }
	plain := batch(compress.None)
	bomb := packedAt(t, 1, compress.Zstd, Record{Value: make([]byte, maxUnpacked)}, value("b"))
	oldFormat := bytes.Clone(plain)
	oldFormat[formatAt] = 1
	binary.BigEndian.PutUint32(oldFormat[batchLengthAt+4:], crc32.ChecksumIEEE(oldFormat[formatAt:]))
	tooMany := Record{Headers: make([]Header, maxRecordHeaders+1)}
	for _, test := range []struct {
		name  string
		batch []byte
		why   string
		last  int64
	}{
		{"gzip with junk behind its end", altered(batch(compress.Gzip), withJunk), "not gzip, or something follows", 2},
		{"lz4 with junk behind its end", altered(batch(compress.Lz4), withJunk), "not lz4, or something follows", 2},
		{"zstd with junk behind its end", altered(batch(compress.Zstd), withJunk), "not zstd, or something follows", 2},
		{"snappy that is cut", altered(batch(compress.Snappy), func(b []byte) []byte { return b[:len(b)-1] }), "not snappy, or something follows", 2},
		{"an unknown codec", altered(plain, func(b []byte) []byte { b[attributesAt+1] |= 7; return b }), "compression is 7", 2},
		{"a decompression bomb", bomb, "unpack to more than 64 MB", 2},
		{"records that are cut", altered(plain, func(b []byte) []byte { return b[:len(b)-1] }), "cannot be decoded", 2},
		{"fewer records than it says", altered(plain, func(b []byte) []byte { b[recordsAt-1] = 3; return b }), "cannot be decoded", 2},
		{"two records at one offset", altered(plain, func(b []byte) []byte { b[len(b)-5] = 0; return b }), "out of order", 2},
		{"a record behind the last offset", altered(plain, func(b []byte) []byte { b[attributesAt+5] = 0; return b }), "out of order", 1},
		{"too many headers", packedAt(t, 1, compress.None, value("a"), tooMany), "cannot be decoded", 2},
		{"another format", oldFormat, "its format is 1", 1},
		{"fewer records than are there", altered(plain, func(b []byte) []byte { b[recordsAt-1] = 1; return b }), "bytes follow the 1 records", 2},
		{"a negative number of records", altered(plain, func(b []byte) []byte { binary.BigEndian.PutUint32(b[recordsAt-4:], 1<<32-7); return b }), "claims to have -7 records", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, behind := packedAt(t, 0, compress.None, value("before")), packedAt(t, 3, compress.None, value("behind"))
			for from := range test.last + 1 {
				p := partitionAt(from)
				var got []Record
				for p.position.Load() < 4 { // after a bomb, the rest of the answer is left for the next one
					a := answerOf(10, nil, before, test.batch, behind)
					if p.position.Load() > 0 {
						a = answerOf(10, nil, test.batch, behind)
					}
					if p.position.Load() > test.last {
						a = answerOf(10, nil, behind)
					}
					var s share
					if err := p.consume(&s, a, true); err != nil {
						t.Fatal(err)
					}
					got = append(got, s.records...)
					if cap(s.bytes) > 4*maxUnpacked {
						t.Errorf("%d bytes were allocated to unpack the batch, want at most %d", cap(s.bytes), 4*maxUnpacked)
					}
				}
				if from == 0 {
					got = got[1:]
				}
				if len(got) != 2 || p.position.Load() != 4 || string(got[1].Value) != "behind" {
					t.Fatalf("from %d: %d records, position %d, want the refusal and the record behind it, and 4", from, len(got), p.position.Load())
				}
				if r := got[0]; r.Offset != test.last || !bytes.Equal(r.Value, test.batch) || !strings.Contains(r.Unreadable, test.why) || !strings.Contains(r.Unreadable, "at offset 1 ") {
					t.Errorf("from %d: %d bytes at offset %d, %q, want the batch of %d bytes at %d, and %q", from, len(r.Value), r.Offset, r.Unreadable, len(test.batch), test.last, test.why)
				}
			}
			p := partitionAt(test.last + 1)
			if got := consumed(t, p, answerOf(10, nil, behind), true); len(got) != 1 {
				t.Errorf("behind the batch: %d records, want one", len(got))
			}
		})
	}
}

// TestWrongCRC: a batch with a wrong CRC may be whole on the broker, so it is asked for again
// and again for a while before it is refused, and taken if it is right then. Its length is
// believed, not its number of records: what follows it in the answer is read.
func TestWrongCRC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		right := packedAt(t, 0, compress.None, Record{Value: []byte("a")}, Record{Value: []byte("b")})
		wrong := bytes.Clone(right)
		wrong[len(wrong)-2] ^= 1
		behind := packedAt(t, 2, compress.None, Record{Value: []byte("behind")})
		var s share
		refused := func(p *partition, tries int, every time.Duration) {
			t.Helper()
			for i := range tries {
				if err := p.consume(&s, answerOf(9, nil, wrong, behind), true); err == nil || !strings.Contains(err.Error(), "offset 0: its CRC is wrong") || len(s.records) > 0 {
					t.Fatalf("try %d: %d records, error %v, want none and an error that names the offset", i, len(s.records), err)
				}
				time.Sleep(every)
			}
		}
		p := partitionAt(0)
		refused(p, 1000, damagedFor/1000) // it does not depend on how quick the tries are
		if err := p.consume(&s, answerOf(9, nil, wrong, behind), true); err != nil {
			t.Fatal(err)
		}
		if len(s.records) != 2 || s.records[0].Offset != 0 || s.records[0].Unreadable == "" || p.position.Load() != 3 {
			t.Errorf("after %v: %+v, position %d, want a refusal at 0, the record behind it, and 3", damagedFor, s.records, p.position.Load())
		}
		s.reset()
		p = partitionAt(0)
		refused(p, damagedTries, damagedFor) // nor on how slow they are
		if err := p.consume(&s, answerOf(9, nil, right, behind), true); err != nil || len(s.records) != 3 {
			t.Errorf("the right batch after wrong ones: %d records, error %v, want 3 and none", len(s.records), err)
		}
	})
}

// TestAbortedUnreadable: batches of aborted transactions are skipped unread.
func TestAbortedUnreadable(t *testing.T) {
	b := batchAt(t, 3, 1, Record{Value: []byte("a")})
	b = altered(b, func(b []byte) []byte { b[attributesAt+1] |= 7; return b })
	p := partitionAt(3)
	var s share
	err := p.consume(&s, answerOf(9, []abortedFrom{{ProducerID: 1, FirstOffset: 3}}, b), true)
	if err != nil || len(s.records) > 0 || p.position.Load() != 4 {
		t.Errorf("%d records, position %d, error %v, want none, 4 and none", len(s.records), p.position.Load(), err)
	}
}

// TestAnswerIsBounded: an answer holds at most maxRecords records; the next one goes on within
// the batch.
func TestAnswerIsBounded(t *testing.T) {
	b := packedAt(t, 0, compress.Zstd, make([]Record, maxRecords+7)...)
	p := partitionAt(0)
	for _, want := range []int{maxRecords, 7} {
		if got := consumed(t, p, answerOf(1<<20, nil, b), true); len(got) != want {
			t.Fatalf("%d records, want %d", len(got), want)
		}
	}
}

// FuzzConsume: whatever bytes a broker stores, consume ends without a panic, its records are
// committed ones in ascending order, and the position does not go back.
func FuzzConsume(f *testing.F) {
	records := []Record{{Key: []byte("k"), Value: []byte("v"), Headers: []Header{{Key: "h", Value: []byte("x")}}}, {Value: make([]byte, 300)}}
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		f.Add(packedAt(f, 1, codec, records...), int64(0), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, from int64, fix bool) {
		from &= 1<<40 - 1
		if fix && len(b) >= recordsAt {
			b = altered(b, func(b []byte) []byte { b[formatAt] = batchFormat; return b })
		}
		p := partitionAt(from)
		var s share
		_ = p.consume(&s, answerOf(1<<50, nil, b), true)
		before := from - 1
		for _, r := range s.records {
			if r.Offset <= before {
				t.Fatalf("offset %d follows %d", r.Offset, before)
			}
			before = r.Offset
		}
		if p.position.Load() <= before || p.position.Load() < from {
			t.Fatalf("position %d after offset %d, from %d", p.position.Load(), before, from)
		}
	})
}

// lastDeltaAt is where a batch has its last offset, counted from its base.
const lastDeltaAt = attributesAt + 2

// storedLog is a log for tests: batches as a broker stores them, in order.
type storedLog struct {
	batches [][]byte
	aborted []abortedFrom
	end     int64
}

// someLog is a log of nine offsets: two transactions, one of them aborted, their markers, a batch without a
// transaction, and holes that compaction has left within and between its batches. Records 0, 1, 5 and 8 are committed.
func someLog(tb testing.TB) storedLog {
	value := func(s string) Record { return Record{Value: []byte("the record at " + s)} }
	one := func(b []byte, err error) []byte {
		if err != nil {
			tb.Fatal(err)
		}
		return b[4:]
	}
	at := func(offset uint64, b []byte) []byte { binary.BigEndian.PutUint64(b, offset); return b }
	transactional := func(offset uint64, records ...Record) []byte {
		return at(offset, one(appendBatch(nil, records, session{id: 1}, 0, true, 0)))
	}
	marker := func(offset uint64, kind byte) []byte {
		return altered(transactional(offset, Record{Key: []byte{0, 0, 0, kind}}), func(b []byte) []byte { b[attributesAt+1] |= controlBit; return b })
	}
	return storedLog{
		batches: [][]byte{
			transactional(0, value("0"), value("1")), marker(2, 1), transactional(3, value("3")), marker(4, 0),
			altered(packedAt(tb, 5, compress.None, value("5")), func(b []byte) []byte { b[lastDeltaAt+3] = 1; return b }),
			packedAt(tb, 8, compress.None, value("8")),
		},
		aborted: []abortedFrom{{ProducerID: 1, FirstOffset: 3}}, end: 9,
	}
}

// answer returns what an honest broker answers from the position on: n batches at most.
func (l storedLog) answer(position int64, n int) *kmsg.FetchResponseTopicPartition {
	var batches [][]byte
	for _, b := range l.batches {
		if stored, _ := nextBatch(&b); stored.last >= position && len(batches) < n {
			batches = append(batches, stored.raw)
		}
	}
	return answerOf(l.end, l.aborted, batches...)
}

// read reads the log from a position on, of which lie alters the answers that it likes, until the
// end or until n answers have moved nothing.
func (l storedLog) read(p *partition, n int, lie func(i int, a *kmsg.FetchResponseTopicPartition)) (records []Record, err error) {
	for i, still := 0, 0; p.position.Load() < l.end && still < n; i++ {
		a := l.answer(p.position.Load(), 3)
		lie(i, a)
		var s share
		if err = p.consume(&s, a, true); err != nil && p.advanced > 0 {
			return records, fmt.Errorf("an error that moves the position: %w", err)
		}
		if still++; p.advanced > 0 {
			still = 0
		}
		records = append(records, s.records...)
	}
	return records, err
}

// skipped returns which of the log's committed records from the offset on, up to the position, are
// neither among the records, at their offsets, nor in a refused batch.
func skipped(records []Record, from, to int64) (gone []int64) {
	for _, offset := range []int64{0, 1, 5, 8} {
		value := fmt.Appendf(nil, "the record at %d", offset)
		if offset >= from && offset < to && !slices.ContainsFunc(records, func(r Record) bool {
			return r.Unreadable != "" && bytes.Contains(r.Value, value) || r.Offset == offset && bytes.Equal(r.Value, value)
		}) {
			gone = append(gone, offset)
		}
	}
	return gone
}

// TestLyingBroker: what every answer says falsely of its batches is an error that names it. Nothing
// is read, and the position stands still.
func TestLyingBroker(t *testing.T) {
	put := func(at int, v uint64) func(a *kmsg.FetchResponseTopicPartition) {
		return func(a *kmsg.FetchResponseTopicPartition) {
			a.RecordBatches = bytes.Clone(a.RecordBatches)
			if at < batchLengthAt {
				binary.BigEndian.PutUint64(a.RecordBatches, v)
				return
			}
			binary.BigEndian.PutUint32(a.RecordBatches[at:], uint32(v))
			raw := a.RecordBatches
			if b, ok := nextBatch(&raw); ok && at > crcAt {
				binary.BigEndian.PutUint32(b.raw[crcAt:], crc32.Checksum(b.raw[attributesAt:], castagnoli))
			}
		}
	}
	for _, test := range []struct {
		name string
		from int64
		lie  func(*kmsg.FetchResponseTopicPartition)
		want string
	}{
		{"a negative base offset", 0, put(0, 1<<64-5), "batch at offset -5"},
		{"a base offset of 0", 3, put(0, 0), "ends at 0, before the offset 3"},
		{"a base offset that overlaps the next batch", 0, put(0, 1), "batch at offset 2: its offsets, 2 to 2, are not behind 2"},
		{"a base offset a million on", 0, put(0, 1_000_000), "batch at offset 1000000: it reaches offset 1000001, behind the last stable offset, 9"},
		{"the largest base offset", 0, put(0, 1<<63-1), "batch at offset 9223372036854775807"},
		{"a last offset before the first", 0, put(lastDeltaAt, 1<<32-3), "its offsets, 0 to -3"},
		{"a last offset behind the next batch", 0, put(lastDeltaAt, 5), "batch at offset 2: its offsets"},
		{"a last offset behind the end", 0, put(lastDeltaAt, 1<<31-1), "reaches offset 2147483647"},
		{"a batch of 2 GiB", 0, put(batchLengthAt, 1<<31-1), "of a batch that claims 2147483659"},
		{"a batch of -1 bytes", 0, put(batchLengthAt, 1<<32-1), "of a batch that claims 11"},
		{"a batch that ends in its header", 0, put(batchLengthAt, 10), "its header is not whole"},
		{"a batch that ends in its records", 0, put(batchLengthAt, 60), "its CRC is wrong"},
		{"a stable offset behind the end", 0, func(a *kmsg.FetchResponseTopicPartition) { a.LastStableOffset = 1 << 40 }, "the last stable offset, 1099511627776, is behind the end, 9"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, p := someLog(t), partitionAt(test.from)
			records, err := l.read(p, 5, func(_ int, a *kmsg.FetchResponseTopicPartition) { test.lie(a) })
			if err == nil || !strings.Contains(err.Error(), test.want) || len(records) > 0 || p.position.Load() != test.from {
				t.Errorf("%d records, position %d, error %v; want none, %d and %q", len(records), p.position.Load(), err, test.from, test.want)
			}
			records, err = l.read(p, 5, func(int, *kmsg.FetchResponseTopicPartition) {})
			if gone := skipped(records, test.from, l.end); err != nil || p.position.Load() != l.end || len(gone) > 0 {
				t.Errorf("after it, with true answers: position %d, error %v, without the records at %d", p.position.Load(), err, gone)
			}
		})
	}
}

// FuzzLyingBroker: one answer of several says anything of itself. No record of the log is skipped
// without a refusal that has its bytes.
func FuzzLyingBroker(f *testing.F) {
	f.Add(uint8(0), uint8(0), uint16(7), []byte{9}, false, int64(0))
	f.Add(uint8(1), uint8(1), uint16(recordsAt-1), []byte{3}, true, int64(0))
	f.Add(uint8(0), uint8(4), uint16(0), []byte{0, 0, 0, 0, 0, 0, 0, 2}, false, int64(3))
	f.Add(uint8(0), uint8(4), uint16(lastDeltaAt), []byte{0, 0, 0, 4}, true, int64(5))
	f.Fuzz(func(t *testing.T, when, which uint8, at uint16, lie []byte, fix bool, stable int64) {
		l := someLog(t)
		from := int64(which>>4) % l.end
		p := partitionAt(from)
		records, err := l.read(p, 20, func(i int, a *kmsg.FetchResponseTopicPartition) {
			if i != int(when%8) {
				return
			}
			a.RecordBatches = bytes.Clone(a.RecordBatches)
			if stable != 0 {
				a.LastStableOffset, a.HighWatermark = stable, max(stable, a.HighWatermark)
			}
			rest := a.RecordBatches
			b, ok := nextBatch(&rest)
			for range which & 3 {
				if next, more := nextBatch(&rest); more {
					b = next
				}
			}
			// With a right CRC it may claim another end or number, but not forge the records or their producer.
			if fixed := int(at) + len(lie); ok && int(at) < len(b.raw) && (!fix || fixed <= crcAt || int(at) >= lastDeltaAt && fixed <= lastDeltaAt+4 || int(at) >= recordsAt-4 && fixed <= recordsAt) {
				copy(b.raw[at:], lie)
				if fix {
					binary.BigEndian.PutUint32(b.raw[crcAt:], crc32.Checksum(b.raw[attributesAt:], castagnoli))
				}
			}
		})
		if gone := skipped(records, from, p.position.Load()); len(gone) > 0 {
			t.Errorf("position %d without the records at %d", p.position.Load(), gone)
		}
		if p.position.Load() != l.end {
			t.Errorf("after one false answer the position stays at %d of %d: %v", p.position.Load(), l.end, err)
		}
	})
}

// FuzzAnswers: no bytes of a broker make the decoders panic or allocate much.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1})
	f.Fuzz(func(_ *testing.T, b []byte) {
		answered := append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
		for version := int16(4); version < 12; version++ {
			_, _ = (&raw{Request: &kmsg.FetchRequest{Version: version}}).RawExchange(bytes.NewBuffer(answered))
		}
		_, _ = (&raw{Request: &kmsg.MetadataRequest{Version: metadataVersion}}).RawExchange(bytes.NewBuffer(answered))
	})
}

// testUnreadable: a broker accepts a batch with junk behind the compressed records, as some
// producers send it. It is refused, and every record before and behind it is read.
func testUnreadable(t *testing.T, c *Client) {
	name := topic(t, c, 2)
	send := func(batch []byte) {
		err := c.retry(t.Context(), time.Minute, func(ctx context.Context) error {
			req := &rawproduce.Request{Acks: -1, Timeout: 5000, Topics: []rawproduce.RequestTopic{{Topic: name, Partitions: []rawproduce.RequestPartition{{
				RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(len(batch))), batch...))},
			}}}}}
			m, err := c.transport.RoundTrip(ctx, c.client.Addr, req)
			if err == nil {
				if code := m.(*produce.Response).Topics[0].Partitions[0].ErrorCode; code != 0 {
					return kafkago.Error(code)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, codec := range []compress.Compression{compress.None, compress.Gzip, compress.Lz4, compress.None} {
		batch := packedAt(t, 0, codec, Record{Value: fmt.Append(nil, i)}, Record{Value: []byte("and another")})
		if codec != compress.None {
			batch = altered(batch, withJunk)
		}
		send(batch)
	}
	if err := producer(t, c, ProducerConfig{}).Send(t.Context(), []Record{{Topic: name, Partition: 1, Value: []byte("beside")}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range committed(t, c, ReaderConfig{}, name, nil) {
		if r.Unreadable != "" {
			r.Value = fmt.Appendf(nil, "refused at %d", r.Offset)
		}
		got = append(got, string(r.Value))
	}
	same(t, []string{"0", "and another", "refused at 3", "refused at 5", "3", "and another", "beside"}, got)
}

// testTopicIDs: a topic has an id, and another one after it was created anew.
func testTopicIDs(t *testing.T, c *Client) {
	name := topic(t, c, 1)
	ids := func() string {
		ids, err := c.TopicIDs(t.Context(), name, unique("absent"))
		if err != nil || len(ids) != 1 {
			t.Fatalf("ids %v, error %v, want one and none", ids, err)
		}
		return ids[name]
	}
	first := ids()
	same(t, first, ids())
	drop(t, c, name)
	if _, err := c.CreateTopics(t.Context(), TopicSpec{Name: name, Partitions: 1, Replication: -1}); err != nil {
		t.Fatal(err)
	}
	if second := ids(); second == first || second == "" {
		t.Errorf("the topic has the id %q before and %q after it was created anew, want two", first, second)
	}
	known, err := c.transport.ask(t.Context(), name, "absent")
	if err != nil || known[name].partitions != 1 || known["absent"].code != kafkago.UnknownTopicOrPartition {
		t.Errorf("brokers say %+v, error %v, want one partition, and an absent topic", known, err)
	}
}
