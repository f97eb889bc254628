package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
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
		{"another format", altered(plain, func(b []byte) []byte { b[formatAt] = 1; return b }), "its format is 1", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := answerOf(10, nil, packedAt(t, 0, compress.None, value("before")), test.batch, packedAt(t, 3, compress.None, value("behind")))
			for from := range test.last + 1 {
				p := partitionAt(from)
				var got []Record
				for p.position.Load() < 4 { // after a bomb, the rest of the answer is left for the next one
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
			var s share
			if err := p.consume(&s, a, true); err != nil || len(s.records) != 1 {
				t.Errorf("behind the batch: %d records, error %v, want one and none", len(s.records), err)
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
		var s share
		if err := p.consume(&s, answerOf(1<<20, nil, b), true); err != nil || len(s.records) != want {
			t.Fatalf("%d records, error %v, want %d and none", len(s.records), err, want)
		}
	}
}

// FuzzConsume: whatever bytes a broker stores, consume ends without a panic, its records are
// committed ones in ascending order, and the position does not go back.
func FuzzConsume(f *testing.F) {
	records := []Record{{Key: []byte("k"), Value: []byte("v"), Headers: []Header{{"h", []byte("x")}}}, {Value: make([]byte, 300)}}
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
	known, err := c.ask(t.Context(), name, "absent")
	if err != nil || known[name].partitions != 1 || known["absent"].code != kafkago.UnknownTopicOrPartition {
		t.Errorf("brokers say %+v, error %v, want one partition, and an absent topic", known, err)
	}
}
