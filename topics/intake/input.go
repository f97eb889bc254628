package intake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/registry"
	"github.com/gvbll/gvbll/topics/wire"
)

// Bounds on the records of one topic that are held for later windows. Beyond either,
// the topic is not fetched; a replay then fetches only what its next window misses.
const (
	maxHeld      = 1 << 16 // records
	maxHeldBytes = 256 << 20
)

// input holds one topic's committed events until windows consume them. A goroutine fetches and
// decodes, one block ahead of what was added. Fields belong to the goroutine that calls the methods, unless their
// comment says otherwise.
type input[E any] struct {
	fetcher fetcher[E]
	store   store[E]
	chunks  int        // chunks added so far
	bytes   int        // of the blocks that have a record that is held or claimed
	fronts  []front[E] // of the last cut in order of time, one for each partition
	awaited bool       // a cut waits for a partition: fetch although the bounds are exceeded

	// Numbers of events since the last Cut whose time the policy cannot use: late ones
	// came after their window was closed, early ones are too far ahead of the clock.
	late, early int

	fields map[string]bool // names of unknown fields that were reported
}

// fetcher fetches and decodes a topic's records, in a goroutine of its own.
type fetcher[E any] struct {
	source   source[E]
	client   *kafka.Client
	reader   *kafka.Reader // of the fetching goroutine, except its counters; nil if the topic is missing
	decoded  chan fetched[E]
	spare    chan *block[E] // blocks to reuse
	look     chan struct{}  // makes the fetching goroutine look for new partitions now
	inFlight atomic.Int32   // blocks fetched and not yet given to Add
	id       string         // the topic's, "" if brokers have none
	read     []int64        // of the fetching goroutine: up to where each partition was read
}

// store has the records of a topic that are held or claimed, and knows which are consumed.
type store[E any] struct {
	topic, id  string
	cell       int32        // the number of the first partition
	buffers    []*buffer[E] // one for each partition, ascending by partition
	held       int          // records added and not claimed
	claimed    []chunk[E]   // for the current window, in canonical order
	rest       []chunk[E]   // memory of claimWhere
	incomplete bool         // records of a replayed window were gone
}

type source[E any] struct {
	topic   string
	cell    int32 // the number of the first partition, or of a cell's only one
	decode  func(*wire.Decoder, *event.Origin, *E) (event.Reason, string)
	time    func(*E) int64 // event time in milliseconds since 1970, 0 for none
	limits  wire.Limits
	first   bool               // see Config
	schemas *registry.Schemas  // nil where records are not framed
	mapped  *wire.Map          // nil where records are in our own format
	ahead   time.Duration      // how far ahead of the clock an event time may be
	unknown func(UnknownField) // nil for none
	// acceptGap says that records may be gone which the position or the ledger needs.
	acceptGap bool
}

// fetched is a block of decoded records, or the error that ended the fetching.
type fetched[E any] struct {
	block *block[E]
	err   error
}

// open starts to fetch every partition of the topic behind the position, or from its
// beginning.
func (in *input[E]) open(ctx context.Context, c *kafka.Client, src source[E], p Position) error {
	in.fetcher.source, in.fetcher.client, in.store.topic, in.store.cell = src, c, src.topic, src.cell
	bounds, err := c.Offsets(ctx, src.topic)
	if err != nil {
		return err
	}
	if len(bounds) == 0 {
		return fmt.Errorf("topic %s does not exist: run 'gvbll topics', or start with --create-topics 1", src.topic)
	}
	in.fetcher.decoded, in.fetcher.spare, in.fetcher.look = make(chan fetched[E]), make(chan *block[E], spareBlocks), make(chan struct{}, 1)
	ids, err := c.TopicIDs(ctx, src.topic)
	if err != nil {
		return err
	}
	in.fetcher.id = ids[src.topic]
	in.store.id = in.fetcher.id
	start := make(map[kafka.TopicPartition]int64)
	for at, bound := range bounds {
		tail := span{bound.End, bound.End}
		if in.fetcher.source.acceptGap {
			if tail, err = p.accept(ctx, c, at, bound); err != nil {
				return err
			}
		}
		b, from, err := begin[E](at, bound, &p, in.store.id, in.fetcher.source.acceptGap)
		if err != nil {
			return err
		}
		b.tail, b.opened = tail, bound.End
		start[at] = from
		in.store.buffers = append(in.store.buffers, b)
	}
	in.store.sortBuffers()
	in.fetcher.reader = c.NewReader(start, kafka.ReaderConfig{MaxBytes: bytesOf(len(start)), Patient: true})
	for _, b := range in.store.buffers {
		in.fetcher.reader.Believe(kafka.TopicPartition{Topic: in.store.topic, Partition: b.partition}, in.store.id, b.last)
	}
	go in.fetcher.fetch(ctx, len(bounds))
	return nil
}

func (st *store[E]) sortBuffers() {
	slices.SortFunc(st.buffers, func(a, b *buffer[E]) int { return cmp.Compare(a.partition, b.partition) })
}

func ofPartition(ranges []ledger.Range, at kafka.TopicPartition) (of []ledger.Range) {
	for _, g := range ranges {
		if g.Topic == at.Topic && g.Partition == at.Partition {
			of = append(of, g)
		}
	}
	return of
}

// Ready returns the channel of the next block, nil while the bounds are exceeded and no cut
// waits for it.
func (in *input[E]) Ready() <-chan fetched[E] {
	if in.full() && !in.awaited {
		return nil
	}
	return in.fetcher.decoded
}

func (in *input[E]) full() bool { return in.store.held >= maxHeld || in.bytes >= maxHeldBytes }

func (in *input[E]) addReady(now time.Time) (ready bool, err error) {
	select {
	case f := <-in.Ready():
		return true, in.Add(f, now)
	default:
		return false, nil
	}
}

// Add holds the records of a block received at the given time, except those that were
// consumed before the input was opened.
func (in *input[E]) Add(f fetched[E], now time.Time) error {
	if f.err != nil {
		return f.err
	}
	block := f.block
	in.fetcher.inFlight.Add(-1)
	in.bytes += block.bytes
	in.reportUnknown(block)
	records := block.answer.Records
	for i := 0; i < len(records); {
		j := i
		for j < len(records) && records[j].Partition == records[i].Partition {
			j++
		}
		b := in.store.buffer(records[i].Partition)
		if b == nil {
			b = newBuffer[E](records[i].Partition, 0)
			in.store.buffers = append(in.store.buffers, b)
			in.store.sortBuffers()
		}
		c := chunk[E]{block: block, from: i, to: j, order: in.chunks, at: now}
		in.chunks++
		b.fetched = c.end()
		if b.reach() > c.first() {
			in.addUnconsumed(b, c)
		} else {
			b.chunks = append(b.chunks, c)
			in.store.held += j - i
		}
		i = j
	}
	for _, b := range in.store.buffers {
		if i := int(b.partition - in.store.cell); i < len(block.quiet) {
			b.quiet, b.read = block.quiet[i], block.read[i]
		}
	}
	if len(records) == 0 {
		in.free(block, 0)
	}
	return nil
}

// addUnconsumed adds the records of a chunk that lie in no consumed range.
func (in *input[E]) addUnconsumed(b *buffer[E], c chunk[E]) {
	records := c.block.answer.Records
	for i := c.from; i < c.to; {
		consumed := b.isConsumed(records[i].Offset)
		j := i + 1
		for j < c.to && b.isConsumed(records[j].Offset) == consumed {
			j++
		}
		if consumed {
			in.free(c.block, j-i)
		} else {
			piece := c
			piece.from, piece.to = i, j
			b.chunks = append(b.chunks, piece)
			in.store.held += j - i
		}
		i = j
	}
	b.mergeConsumed()
}

func (st *store[E]) buffer(partition int32) *buffer[E] {
	i, ok := slices.BinarySearchFunc(st.buffers, partition, func(b *buffer[E], n int32) int { return cmp.Compare(b.partition, n) })
	if !ok {
		return nil
	}
	return st.buffers[i]
}

// oldest returns the buffer with the chunk that was added first, or nil if no record is
// held.
func (st *store[E]) oldest() (oldest *buffer[E]) {
	for _, b := range st.buffers {
		if len(b.chunks) > 0 && (oldest == nil || b.chunks[0].order < oldest.chunks[0].order) {
			oldest = b
		}
	}
	return oldest
}

// AnyHeld reports whether f holds for an event that is held.
func (in *input[E]) AnyHeld(f func(*E) bool) bool {
	for _, b := range in.store.buffers {
		for _, c := range b.chunks {
			for i := c.from; i < c.to; i++ {
				if c.block.refused[i].reason == "" && f(&c.block.events[i]) {
					return true
				}
			}
		}
	}
	return false
}

// Gather appends the claimed events to events, and the records that cannot be decoded
// to refused, in canonical order.
func (in *input[E]) Gather(events []E, refused []event.Refusal) ([]E, []event.Refusal) {
	for _, c := range in.store.claimed {
		b := c.block
		for i := c.from; i < c.to; i++ {
			in.settle(b, i)
			if v := &b.refused[i]; v.reason != "" {
				refused = append(refused, event.Refusal{Origin: &b.origins[i], Reason: v.reason, Detail: v.detail})
				continue
			}
			events = append(events, b.events[i])
		}
	}
	return events, refused
}

// Release releases the memory of the claimed records.
func (in *input[E]) Release() {
	in.store.noteLast()
	for _, c := range in.store.claimed {
		in.free(c.block, c.to-c.from)
	}
	clear(in.store.claimed)
	in.store.claimed = in.store.claimed[:0]
}

// free releases n of a block's records. The block is reused once all of them are
// released, unless it is oversized.
func (in *input[E]) free(b *block[E], n int) {
	if b.left -= n; b.left > 0 {
		return
	}
	in.bytes -= b.bytes
	if b.oversized() {
		return
	}
	select {
	case in.fetcher.spare <- b:
	default:
	}
}

// offsets is [Inputs.Offsets] of one topic.
func (in *input[E]) offsets(offsets map[kafka.TopicPartition]int64, all bool) {
	add := func(b *buffer[E]) {
		offsets[kafka.TopicPartition{Topic: in.store.topic, Partition: b.partition}] = b.consumed
	}
	for i, c := range in.store.claimed {
		if i == 0 || c.partition() != in.store.claimed[i-1].partition() {
			add(in.store.buffer(c.partition()))
		}
	}
	for _, b := range in.store.buffers {
		if all {
			add(b)
		}
	}
}

// lag returns the number of committed records that no window has consumed. Offsets
// without a record count too, until they have been read.
func (in *input[E]) lag() int64 {
	var lag int64
	for _, b := range in.store.buffers {
		reached := b.reached()
		lag += max(in.fetcher.reader.End(kafka.TopicPartition{Topic: in.store.topic, Partition: b.partition})-reached, 0)
		for _, s := range b.beyond {
			lag -= max(s.to-max(s.from, reached), 0)
		}
	}
	return max(lag, 0)
}

// withheld returns the number of offsets behind a transaction that a producer has not ended.
func (in *input[E]) withheld() (n int64) {
	for _, b := range in.store.buffers {
		n += in.fetcher.reader.Withheld(kafka.TopicPartition{Topic: in.store.topic, Partition: b.partition})
	}
	return n
}
