package kafka

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// The values are those of Kafka's own UtilsTest.testMurmur2.
func TestMurmur2(t *testing.T) {
	for _, test := range []struct {
		key  string
		want int32
	}{
		{"21", -973932308},
		{"foobar", -790332482},
		{"a-little-bit-long-string", -985981536},
		{"a-little-bit-longer-string", -1486304829},
		{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
		{"abc", 479470107},
	} {
		if got := int32(murmur2([]byte(test.key))); got != test.want {
			t.Errorf("murmur2(%q) is %d, not %d", test.key, got, test.want)
		}
	}
}

func FuzzPartitionFor(f *testing.F) {
	f.Add([]byte("key"), uint8(3))
	f.Add([]byte{}, uint8(7))
	f.Fuzz(func(t *testing.T, key []byte, n uint8) {
		if n == 0 {
			n = 1
		}
		parts := make([]int, n)
		for i := range parts {
			parts[i] = i
		}
		want := kafkago.Murmur2Balancer{Consistent: true}.Balance(kafkago.Message{Key: key}, parts...)
		if got := PartitionFor(key, int(n)); key != nil && got != int32(want) {
			t.Errorf("%q of %d: %d, kafka-go has %d", key, n, got, want)
		}
	})
}

func TestPartitionForNil(t *testing.T) {
	if got := PartitionFor(nil, 9); got != 0 {
		t.Errorf("nil goes to %d", got)
	}
}

func TestSequenceWraps(t *testing.T) {
	for _, test := range []struct {
		from int32
		n    int
		want int32
	}{
		{0, 3, 3}, {math.MaxInt32 - 1, 1, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 2, 10, 7},
	} {
		if got := after(test.from, test.n); got != test.want {
			t.Errorf("%d records after %d comes %d, not %d", test.n, test.from, got, test.want)
		}
	}
}

// FuzzSizeOf checks that no batch is larger than what its records were counted
// at: it is what keeps batches below the broker's limit.
func FuzzSizeOf(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), "header", int64(1), int64(math.MaxInt64/2))
	f.Add([]byte(nil), make([]byte, 1<<15), "", int64(-1), int64(0))
	f.Fuzz(func(t *testing.T, key, value []byte, header string, t1, t2 int64) {
		records := []Record{
			{Key: key, Value: value, Time: time.UnixMilli(t1)},
			{Time: time.UnixMilli(t2), Headers: []Header{{header, value}, {header, nil}}},
		}
		b, err := appendBatch(nil, records, session{}, 0, true, 0)
		if err != nil {
			t.Fatal(err)
		}
		if limit := 4 + recordsAt + sizeOf(&records[0]) + sizeOf(&records[1]); len(b) > limit {
			t.Errorf("%d bytes, counted at %d", len(b), limit)
		}
	})
}

// appendBatch appends a record batch, with the 4 bytes of its size in front.
func appendBatch(dst []byte, records []Record, s session, sequence int32, transactional bool, codec compress.Compression) ([]byte, error) {
	var b set
	b.reset()
	for i := range records {
		b.add(&records[i], records[i].Time.UnixMilli())
	}
	sealed, err := b.seal(s, sequence, transactional, codec)
	return append(dst, sealed...), err
}

// answer is a fetch response with the given batches, as kafka-go decodes it.
func answer(t *testing.T, stable int64, aborted []fetch.ResponseTransaction, batches ...[]byte) *fetch.ResponsePartition {
	t.Helper()
	all := bytes.Join(batches, nil)
	a := &fetch.ResponsePartition{LastStableOffset: stable, AbortedTransactions: aborted}
	if _, err := a.RecordSet.ReadFrom(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(len(all))), all...))); err != nil {
		t.Fatal(err)
	}
	return a
}

// at is a batch of a producer as it stands in a log.
func at(t *testing.T, offset, producer int64, control bool, records ...Record) []byte {
	t.Helper()
	empty := len(records) == 0
	if empty {
		records = []Record{{}}
	}
	b, err := appendBatch(nil, records, session{id: producer}, 0, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	b = b[4:]
	be := binary.BigEndian
	be.PutUint64(b, uint64(offset))
	if control {
		b[attributesAt+1] |= 1 << 5
	}
	if empty {
		// What compaction leaves of the last batch of a producer.
		b = b[:recordsAt]
		be.PutUint32(b[recordsAt-4:], 0)
		be.PutUint32(b[batchLengthAt:], uint32(len(b)-batchLengthAt-4))
	}
	be.PutUint32(b[crcAt:], crc32.Checksum(b[attributesAt:], castagnoli))
	return b
}

func standing(position int64) *partition {
	p := &partition{}
	p.position.Store(position)
	return p
}

func TestWalk(t *testing.T) {
	v := func(s string) Record { return Record{Value: []byte(s)} }
	commit, abort := Record{Key: []byte{0, 0, 0, 1}}, Record{Key: []byte{0, 0, 0, 0}}
	one := []fetch.ResponseTransaction{{ProducerID: 1, FirstOffset: 3}}
	for _, test := range []struct {
		name    string
		from    int64
		stable  int64
		aborted []fetch.ResponseTransaction
		batches [][]byte
		first   bool
		want    []string
		to      int64
	}{
		{
			"an aborted transaction among others", 0, 9, one,
			[][]byte{at(t, 0, 1, false, v("a"), v("b")), at(t, 2, 1, true, commit), at(t, 3, 1, false, v("c")), at(t, 4, 2, false, v("d")), at(t, 5, 1, true, abort), at(t, 6, 1, false, v("e")), at(t, 7, 1, true, commit), at(t, 8, 2, true, commit)},
			true,
			[]string{"a", "b", "d", "e"},
			9,
		},
		{
			"a start at the abort marker", 5, 9, one,
			[][]byte{at(t, 5, 1, true, abort), at(t, 6, 1, false, v("e")), at(t, 7, 1, true, commit)},
			true,
			[]string{"e"},
			8,
		},
		{
			"a start inside a batch", 1, 9, nil,
			[][]byte{at(t, 0, 1, false, v("a"), v("b"))},
			true,
			[]string{"b"},
			2,
		},
		{"an empty batch", 4, 9, nil, [][]byte{at(t, 4, 1, false)}, false, nil, 5},
		{
			"an empty batch before another", 4, 9, nil,
			[][]byte{at(t, 4, 1, false), at(t, 7, 1, false, v("a"))},
			true,
			[]string{"a"},
			8,
		},
		{"a batch without its last records", 4, 9, nil, [][]byte{at(t, 2, 1, false, v("a"), v("b"))}, false, nil, 5},
		{"nothing, once", 4, 9, nil, nil, true, nil, 4},
		{"the end", 9, 9, nil, nil, true, nil, 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := standing(test.from)
			var s share
			if err := p.consume(&s, answer(t, test.stable, test.aborted, test.batches...), test.first); err != nil {
				t.Fatal(err)
			}
			same(t, test.want, values(s.records))
			if got := p.position.Load(); got != test.to {
				t.Errorf("the position is %d, not %d", got, test.to)
			}
		})
	}
}

// A gap is only believed in by the partition that is first in the request, and
// when it lasts.
func TestWalkGap(t *testing.T) {
	p := standing(4)
	for range 10 {
		if err := p.consume(&share{}, answer(t, 9, nil), false); err != nil || p.position.Load() != 4 {
			t.Fatalf("position %d, %v", p.position.Load(), err)
		}
	}
	for range emptyAnswers + 10 {
		if err := p.consume(&share{}, answer(t, 9, nil), true); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.position.Load(); got != 9 {
		t.Errorf("the position is %d, not 9", got)
	}
}

func TestStrangeMarkers(t *testing.T) {
	for _, key := range [][]byte{nil, {}, {0}, {0, 0, 0, 9}, {0, 9, 0, 0, 0, 0}} {
		p := standing(0)
		var s share
		err := p.consume(&s, answer(t, 5, nil, at(t, 0, 1, true, Record{Key: key})), true)
		if err != nil || len(s.records) > 0 || p.position.Load() != 1 {
			t.Errorf("a marker %v: %d records, position %d, %v", key, len(s.records), p.position.Load(), err)
		}
	}
}

func BenchmarkWalk(b *testing.B) {
	var records []Record
	for range 1000 {
		records = append(records, Record{Key: []byte("some key"), Value: make([]byte, 600)})
	}
	batch, err := appendBatch(nil, records, session{}, 0, true, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	var s share
	for b.Loop() {
		s.records, s.bytes = s.records[:0], s.bytes[:0]
		var set protocol.RecordSet
		if _, err := set.ReadFrom(bytes.NewReader(batch)); err != nil {
			b.Fatal(err)
		}
		if err := standing(0).consume(&s, &fetch.ResponsePartition{LastStableOffset: 1000, RecordSet: set}, true); err != nil || len(s.records) != 1000 {
			b.Fatal(len(s.records), err)
		}
	}
}

func BenchmarkBatch(b *testing.B) {
	for _, codec := range []compress.Compression{compress.None, compress.Lz4, compress.Zstd, compress.Snappy, compress.Gzip} {
		b.Run(codec.String(), func(b *testing.B) {
			r := Record{Key: []byte("some key"), Value: make([]byte, 600), Time: time.UnixMilli(1)}
			for i := range r.Value {
				r.Value[i] = byte(i * i >> 3)
			}
			var s set
			b.SetBytes(600_000)
			b.ReportAllocs()
			for b.Loop() {
				s.reset()
				for range 1000 {
					s.add(&r, r.Time.UnixMilli())
				}
				if _, err := s.seal(session{}, 0, true, codec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
