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
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMurmur2 has the keys and values of Kafka's own UtilsTest.testMurmur2.
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
			t.Errorf("murmur2(%q) = %d, want %d", test.key, got, test.want)
		}
	}
}

// FuzzPartitionFor compares partitions with those of kafka-go, whose balancer follows
// Java's default partitioner. Other clients must send the events of a node to the same
// partition as this program.
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
			t.Errorf("PartitionFor(%q, %d) = %d, kafka-go has %d", key, n, got, want)
		}
	})
}

func TestPartitionForNil(t *testing.T) {
	if got := PartitionFor(nil, 9); got != 0 {
		t.Errorf("PartitionFor(nil, 9) = %d, want 0", got)
	}
}

// TestSequenceWraps: sequence numbers continue at 0 after 2³¹-1. A broker refuses any
// other number, so a long-lived producer would fail there.
func TestSequenceWraps(t *testing.T) {
	for _, test := range []struct {
		from int32
		n    int
		want int32
	}{
		{0, 3, 3}, {math.MaxInt32 - 1, 1, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 2, 10, 7},
	} {
		if got := nextSequence(test.from, test.n); got != test.want {
			t.Errorf("nextSequence(%d, %d) = %d, want %d", test.from, test.n, got, test.want)
		}
	}
}

// FuzzSizeOf checks that a batch is never larger than sizeOf of its records. Batches
// stay below the broker's limit only because of this bound.
func FuzzSizeOf(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), "header", int64(1), int64(math.MaxInt64/2))
	f.Add([]byte(nil), make([]byte, 1<<15), "", int64(-1), int64(0))
	f.Fuzz(func(t *testing.T, key, value []byte, header string, t1, t2 int64) {
		records := []Record{
			{Key: key, Value: value, Time: time.UnixMilli(t1)},
			{Time: time.UnixMilli(t2), Headers: []Header{{Key: header, Value: value}, {Key: header}}},
		}
		b, err := appendBatch(nil, records, session{}, 0, true, 0)
		if err != nil {
			t.Fatal(err)
		}
		if limit := 4 + recordsAt + sizeOf(&records[0]) + sizeOf(&records[1]); len(b) > limit {
			t.Errorf("the batch has %d bytes, want at most %d by sizeOf", len(b), limit)
		}
	})
}

// appendBatch appends a record batch, with the 4 bytes of its size in front.
func appendBatch(dst []byte, records []Record, s session, sequence int32, transactional bool, codec compress.Compression) ([]byte, error) {
	var b recordBatch
	b.reset()
	for i := range records {
		b.add(&records[i], records[i].Time.UnixMilli())
	}
	sealed, err := b.seal(s, sequence, transactional, codec)
	return append(dst, sealed...), err
}

type abortedFrom = kmsg.FetchResponseTopicPartitionAbortedTransaction

// answerOf returns a broker's answer for one partition with the given batches.
func answerOf(stable int64, aborted []abortedFrom, batches ...[]byte) *kmsg.FetchResponseTopicPartition {
	return &kmsg.FetchResponseTopicPartition{HighWatermark: stable, LastStableOffset: stable, AbortedTransactions: aborted, RecordBatches: bytes.Join(batches, nil)}
}

// batchAt returns a transactional batch as it is in a log, with its first record at the
// offset. Without records it is an empty batch.
func batchAt(t *testing.T, offset, producer int64, records ...Record) []byte {
	t.Helper()
	return logged(t, offset, producer, false, records)
}

// markerAt returns the batch of a transaction marker with the given key.
func markerAt(t *testing.T, offset, producer int64, key []byte) []byte {
	t.Helper()
	return logged(t, offset, producer, true, []Record{{Key: key}})
}

func logged(t *testing.T, offset, producer int64, control bool, records []Record) []byte {
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
		// Compaction leaves this of a producer's last batch: the header, in which the
		// number of records is 0 and the last offset is kept.
		b = b[:recordsAt]
		be.PutUint32(b[recordsAt-4:], 0)
		be.PutUint32(b[batchLengthAt:], uint32(len(b)-batchLengthAt-4))
	}
	be.PutUint32(b[crcAt:], crc32.Checksum(b[attributesAt:], castagnoli))
	return b
}

// partitionAt returns a partition that is read from the given offset on.
func partitionAt(position int64) *partition {
	p := &partition{}
	p.position.Store(position)
	return p
}

// consumed gives p the answer, and once more if it was in doubt, and returns its records.
func consumed(t *testing.T, p *partition, a *kmsg.FetchResponseTopicPartition, first bool) []Record {
	t.Helper()
	var s share
	for range 2 {
		if err := p.consume(&s, a, first); err != nil {
			t.Fatal(err)
		}
		if p.advanced > 0 {
			break
		}
	}
	return s.records
}

// TestConsume: of each answer exactly the committed records from the position on are
// returned, and the position moves past everything that was answered.
func TestConsume(t *testing.T) {
	value := func(s string) Record { return Record{Value: []byte(s)} }
	commit, abort := []byte{0, 0, 0, 1}, []byte{0, 0, 0, 0}
	aborted := []abortedFrom{{ProducerID: 1, FirstOffset: 3}}
	const stable = 9
	for _, test := range []struct {
		name     string
		position int64
		aborted  []abortedFrom
		batches  [][]byte
		later    bool // the request listed other partitions first
		want     []string
		wantNext int64 // position
	}{
		{
			name: "an aborted transaction among committed ones", aborted: aborted,
			batches: [][]byte{
				batchAt(t, 0, 1, value("a"), value("b")), markerAt(t, 2, 1, commit),
				batchAt(t, 3, 1, value("c")), batchAt(t, 4, 2, value("d")), markerAt(t, 5, 1, abort),
				batchAt(t, 6, 1, value("e")), markerAt(t, 7, 1, commit), markerAt(t, 8, 2, commit),
			},
			want: []string{"a", "b", "d", "e"}, wantNext: 9,
		},
		{
			name: "the first batch is the abort marker", position: 5, aborted: aborted,
			batches: [][]byte{markerAt(t, 5, 1, abort), batchAt(t, 6, 1, value("e")), markerAt(t, 7, 1, commit)},
			want:    []string{"e"}, wantNext: 8,
		},
		{
			name: "the position is inside a batch", position: 1,
			batches: [][]byte{batchAt(t, 0, 1, value("a"), value("b"))},
			want:    []string{"b"}, wantNext: 2,
		},
		{
			name: "an empty batch", position: 4, later: true,
			batches: [][]byte{batchAt(t, 4, 1)}, wantNext: 5,
		},
		{
			name: "an empty batch before another one", position: 4,
			batches: [][]byte{batchAt(t, 4, 1), batchAt(t, 7, 1, value("a"))},
			want:    []string{"a"}, wantNext: 8,
		},
		{
			name: "compaction has removed the last records of a batch", position: 4, later: true,
			batches: [][]byte{altered(batchAt(t, 2, 1, value("a"), value("b")), func(b []byte) []byte { b[lastDeltaAt+3] = 2; return b })}, wantNext: 5,
		},
		{name: "one answer without a batch", position: 4, wantNext: 4},
		{name: "the end of the log", position: 9, wantNext: 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := partitionAt(test.position)
			same(t, test.want, values(consumed(t, p, answerOf(stable, test.aborted, test.batches...), !test.later)))
			if got := p.position.Load(); got != test.wantNext {
				t.Errorf("position %d, want %d", got, test.wantNext)
			}
		})
	}
}

// TestConsumeGap: answers without a batch move the position only if the request listed
// the partition first, and only after several of them. Otherwise other partitions may
// have filled the answer, and records would be skipped.
func TestConsumeGap(t *testing.T) {
	const position, stable = 4, 9
	p := partitionAt(position)
	for range 10 {
		if err := p.consume(&share{}, answerOf(stable, nil), false); err != nil || p.position.Load() != position {
			t.Fatalf("listed behind other partitions: position %d, error %v, want %d and none", p.position.Load(), err, position)
		}
	}
	for range emptyAnswers + 10 {
		if err := p.consume(&share{}, answerOf(stable, nil), true); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.position.Load(); got != stable {
		t.Errorf("listed first: position %d, want %d", got, stable)
	}
}

// TestUnknownMarkers: control batches of unknown types or versions are skipped, because
// later brokers may write them.
func TestUnknownMarkers(t *testing.T) {
	for _, key := range [][]byte{nil, {}, {0}, {0, 0, 0, 9}, {0, 9, 0, 0, 0, 0}} {
		p := partitionAt(0)
		var s share
		err := p.consume(&s, answerOf(5, nil, markerAt(t, 0, 1, key)), true)
		if err != nil || len(s.records) > 0 || p.position.Load() != 1 {
			t.Errorf("marker with key %v: %d records, position %d, error %v, want 0, 1 and none", key, len(s.records), p.position.Load(), err)
		}
	}
}

func BenchmarkConsume(b *testing.B) {
	var records []Record
	for range 1000 {
		records = append(records, Record{Key: []byte("some key"), Value: make([]byte, 600)})
	}
	batch, err := appendBatch(nil, records, session{}, 0, true, 0)
	if err != nil {
		b.Fatal(err)
	}
	batch = batch[4:]
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	var s share
	for b.Loop() {
		s.reset()
		if err := partitionAt(0).consume(&s, answerOf(1000, nil, batch), true); err != nil || len(s.records) != 1000 {
			b.Fatal(len(s.records), err)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	for _, codec := range []compress.Compression{compress.None, compress.Lz4, compress.Zstd, compress.Snappy, compress.Gzip} {
		b.Run(codec.String(), func(b *testing.B) {
			r := Record{Key: []byte("some key"), Value: make([]byte, 600), Time: time.UnixMilli(1)}
			for i := range r.Value {
				r.Value[i] = byte(i * i >> 3)
			}
			var s recordBatch
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
