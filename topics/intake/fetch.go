package intake

import (
	"context"
	"slices"
	"time"
	"unsafe"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// Bytes of one fetch: in all, and at least and at most for each partition. A broker cuts
// off a partition's part of the answer at its limit, within a batch, and sends that batch
// again with the next. So the limit is to be several times a producer's batch, of which one
// that sends ahead fills hundreds of kilobytes. But the decoded records should still be in
// the processor's caches when they are stepped.
const (
	fetchBytes          = 4 << 20
	leastPartitionBytes = 64 << 10
	mostPartitionBytes  = 1 << 20
)

func bytesOf(partitions int) int {
	return max(min(fetchBytes, partitions*mostPartitionBytes), partitions*leastPartitionBytes)
}

// blockBytes is what a block should have at most once it is decoded. Of small records a fetch of fetchBytes has several times
// as much, and the next one is for fewer bytes then: what is held of records is as coarse as the blocks.
const blockBytes = 16 << 20

// askFor returns the bytes of the next fetch of so many partitions, behind one that asked for some bytes, and whose block has
// so many.
func askFor(partitions, asked, block int) int {
	most := bytesOf(partitions)
	return max(int(min(float64(most), float64(asked)*blockBytes/float64(max(block, 1)))), min(most, partitions*leastPartitionBytes))
}

// spareBlocks is how many blocks are kept for the next fetches. A flood makes each as large as its records are many.
const spareBlocks = 2

// headerBytes is the memory of a header, which is stored twice.
const headerBytes = 2 * 48

// recordBytes returns the memory of one record in a block besides its key, its value and its decoded lists: the record, which
// its leader's share has too, the event, its origin, its verdict and its time.
func recordBytes[E any]() int {
	return int(2*unsafe.Sizeof(kafka.Record{}) + unsafe.Sizeof(*new(E)) + unsafe.Sizeof(event.Origin{}) + unsafe.Sizeof(verdict{}) + 8)
}

// lookEvery is the interval at which a topic is checked for new partitions.
const lookEvery = time.Second

// block holds the decoded records of one fetch. The slices are parallel to the
// answer's records. A block is reused once all of its records are released.
type block[E any] struct {
	answer  kafka.Answer
	origins []event.Origin
	events  []E
	refused []verdict
	times   []int64 // usable event times, noTime for none; set for chunks that are timed
	// By partition, when the block was fetched: how long it had been quiet, and up to which
	// offset it was read.
	quiet   []time.Duration
	read    []int64
	memory  wire.Memory
	unknown unknownFields
	framed  []framed // by record, empty if a registry's serializers have framed none
	bytes   int      // held by it
	left    int      // records not yet released
}

// oversized reports whether a block has room for many more records than its fetch had, as after a flood of small ones. It is not
// reused then.
func (b *block[E]) oversized() bool {
	const few, times = 4096, 8
	return cap(b.answer.Records) > max(few, times*len(b.answer.Records))
}

// verdict says why a record was refused. The reason is empty if it was not.
type verdict struct {
	reason event.Reason
	detail string
}

// fetch fetches and decodes blocks and sends them to in.decoded, until an error or the end of the context.
// The reader has the topic's first known partitions; those that are added to the topic
// later are found every lookEvery.
func (r *fetcher[E]) fetch(ctx context.Context, known int) {
	looked, ask, decoder := time.Now(), bytesOf(known), wire.Decoder{Limits: r.source.limits, Map: r.source.mapped, First: r.source.first}
	var b *block[E]
	for {
		select {
		case <-r.look:
			looked = time.Time{}
		default:
		}
		if time.Since(looked) >= lookEvery {
			known = r.discover(ctx, known)
			looked = time.Now()
		}
		if b == nil {
			select {
			case b = <-r.spare:
			default:
				b = &block[E]{}
			}
		}
		r.reader.Limit(ask)
		err := r.reader.Fill(ctx, &b.answer)
		if !r.noteRead(b, known) && len(b.answer.Records) == 0 && err == nil {
			if b.oversized() {
				b = nil
			}
			select {
			case <-r.spare: // it is quiet
			default:
			}
			continue
		}
		r.inFlight.Add(1)
		b.decode(&decoder, &r.source)
		ask = askFor(known, ask, b.bytes)
		if ctx.Err() != nil { // a schema may not have come
			return
		}
		select {
		case r.decoded <- fetched[E]{b, err}:
			b = nil
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// noteRead notes in the block how far each partition was read, and reports whether any was
// read further than before: also past markers alone, which count as consumed then.
func (r *fetcher[E]) noteRead(b *block[E], known int) (further bool) {
	b.quiet, b.read = resize(b.quiet, known), resize(b.read, known)
	r.read = append(r.read, make([]int64, max(known-len(r.read), 0))...)
	for i := range known {
		at := kafka.TopicPartition{Topic: r.source.topic, Partition: r.source.cell + int32(i)}
		b.quiet[i], b.read[i] = r.reader.Quiet(at), r.reader.Position(at)
		further = further || b.read[i] > r.read[i]
	}
	copy(r.read, b.read)
	return further
}

// discover adds the topic's partitions from known on to the reader, and returns the
// number of partitions. A new partition is read from offset 0, so that the reader
// fails if its beginning is deleted already. Errors are ignored, because the next fetch
// fails too.
func (r *fetcher[E]) discover(ctx context.Context, known int) int {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	counts, err := r.client.Partitions(ctx, r.source.topic)
	if err != nil {
		return known
	}
	for ; known < counts[r.source.topic]; known++ {
		at := kafka.TopicPartition{Topic: r.source.topic, Partition: r.source.cell + int32(known)}
		r.reader.Add(at, 0)
		r.reader.Believe(at, r.id, kafka.Mark{})
	}
	return known
}

func (b *block[E]) decode(d *wire.Decoder, src *source[E]) {
	records := b.answer.Records
	n := len(records)
	b.left, b.bytes = n, n*recordBytes[E]()
	b.origins, b.events, b.refused = resize(b.origins, n), resize(b.events, n), resize(b.refused, n)
	b.memory.Reset()
	b.unknown.reset()
	b.framed = b.framed[:0]
	at := 0
	d.Memory, d.Unknown = &b.memory, func(name []byte) { b.unknown.note(name, at) }
	if src.schemas != nil {
		d.Frames = func(id uint32, payload []byte) ([]byte, error) {
			by, _ := src.schemas.Find(id)
			return b.unframe(at, by, id, payload)
		}
	}
	for i := range records {
		at = i
		r, o := &records[i], &b.origins[i]
		b.bytes += len(r.Key) + len(r.Value)
		*o = event.Origin{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Time.UnixMilli(), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			o.Headers = append(o.Headers, event.Header(h))
			b.bytes += headerBytes + len(h.Key) + len(h.Value)
		}
		if r.Unreadable != "" {
			b.refused[i] = verdict{event.UnreadableBatch, r.Unreadable}
			continue
		}
		b.refused[i].reason, b.refused[i].detail = src.decode(d, o, &b.events[i])
		if b.refused[i].reason == "" {
			if name := otherUnit(src.time(&b.events[i])); name != "" {
				b.unknown.note([]byte(name), i)
			}
		}
	}
	b.bytes += b.memory.Bytes()
}

// resize returns s with length n and arbitrary contents.
func resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
