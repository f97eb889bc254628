package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// Bounds on what one topic holds in front of the windows; beyond either its
// fetching waits.
const (
	maxBuffered      = 1 << 16 // records
	maxBufferedBytes = 256 << 20
)

// An answer's size: small, because what was just decoded is still in the
// processor's caches when it is stepped, yet not a few records a partition.
const (
	fetchBytes = 1 << 20
	laneBytes  = 64 << 10
)

// spareBlocks is how many blocks are kept for the next fetches.
const spareBlocks = 8

// input is one topic's committed events on their way into windows. One
// goroutine fetches, one decodes, each one answer ahead of the next; all else
// belongs to the worker's loop.
type input[E any] struct {
	topic   string
	decode  func(*wire.Decoder, *event.Origin, *E) (event.Reason, string)
	reader  *kafka.Reader
	decoded chan fetched[E]
	spare   chan *block[E]
	parts   []*lane[E] // by partition, ascending
	fetches int        // runs fetched so far
	held    int        // records fetched and in no window yet
	bytes   int        // of their values
	picked  []run[E]   // what the last take or replay chose, in canonical order
}

// block is what one fetch brought, decoded. It is used again once all of its
// records are released.
type block[E any] struct {
	answer  kafka.Answer
	origins []event.Origin
	events  []E
	refused []verdict
	memory  wire.Memory
	left    int // records not yet released
}

// verdict says why a record is no event; the reason is empty where it is one.
type verdict struct {
	reason event.Reason
	detail string
}

// run is a part of a block: records that follow each other in one partition.
type run[E any] struct {
	block    *block[E]
	from, to int       // indices into the block
	order    int       // of fetching
	at       time.Time // of fetching
}

// lane is one partition's runs in the order of their offsets.
type lane[E any] struct {
	partition int32
	runs      []run[E]
	got       int64 // the offset behind the last record fetched
	taken     int64 // the offset up to which windows have taken
}

type fetched[E any] struct {
	block *block[E]
	err   error
}

// openInput starts fetching every partition of the topic from its beginning.
func openInput[E any](ctx context.Context, c *kafka.Client, topic string, limits wire.Limits, decode func(*wire.Decoder, *event.Origin, *E) (event.Reason, string)) (*input[E], error) {
	bounds, err := c.Offsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	in := &input[E]{topic: topic, decode: decode, decoded: make(chan fetched[E]), spare: make(chan *block[E], spareBlocks)}
	start := make(map[kafka.TopicPartition]int64)
	for at, b := range bounds {
		start[at] = b.First
		in.parts = append(in.parts, &lane[E]{partition: at.Partition, taken: b.First})
	}
	if len(start) == 0 {
		return nil, fmt.Errorf("topic %s does not exist: run 'gvbll topics', or start with --create-topics", topic)
	}
	slices.SortFunc(in.parts, func(a, b *lane[E]) int { return cmp.Compare(a.partition, b.partition) })
	in.reader = c.NewReader(start, kafka.ReaderConfig{MaxBytes: max(fetchBytes, len(start)*laneBytes)})
	raw := make(chan fetched[E])
	go in.fetch(ctx, raw)
	go in.decodeAll(ctx, raw, limits)
	return in, nil
}

func (in *input[E]) fetch(ctx context.Context, raw chan<- fetched[E]) {
	defer in.reader.Close()
	var b *block[E]
	for {
		if b == nil {
			select {
			case b = <-in.spare:
			default:
				b = &block[E]{}
			}
		}
		err := in.reader.Fill(ctx, &b.answer)
		if len(b.answer.Records) == 0 && err == nil {
			continue
		}
		select {
		case raw <- fetched[E]{b, err}:
			b = nil
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (in *input[E]) decodeAll(ctx context.Context, raw <-chan fetched[E], limits wire.Limits) {
	decoder := wire.Decoder{Limits: limits}
	for {
		var f fetched[E]
		select {
		case f = <-raw:
		case <-ctx.Done():
			return
		}
		f.block.decode(&decoder, in.decode)
		select {
		case in.decoded <- f:
		case <-ctx.Done():
			return
		}
	}
}

// decode makes events of a block's records, each for itself: in which window
// they will be does not matter.
func (b *block[E]) decode(d *wire.Decoder, decode func(*wire.Decoder, *event.Origin, *E) (event.Reason, string)) {
	records := b.answer.Records
	n := len(records)
	b.left = n
	b.origins, b.events, b.refused = resize(b.origins, n), resize(b.events, n), resize(b.refused, n)
	b.memory.Reset()
	d.Memory = &b.memory
	for i := range records {
		r, o := &records[i], &b.origins[i]
		*o = event.Origin{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Time.UnixMilli(), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			o.Headers = append(o.Headers, event.Header(h))
		}
		b.refused[i].reason, b.refused[i].detail = decode(d, o, &b.events[i])
	}
}

// resize returns a slice of length n, whose content is arbitrary.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, max(n, 2*cap(s)))
	}
	return s[:n]
}

// ready is the channel of the next block, nil while enough is held.
func (in *input[E]) ready() <-chan fetched[E] {
	if in.held >= maxBuffered || in.bytes >= maxBufferedBytes {
		return nil
	}
	return in.decoded
}

func (in *input[E]) add(f fetched[E], now time.Time) error {
	if f.err != nil {
		return f.err
	}
	records := f.block.answer.Records
	for i := 0; i < len(records); {
		j := i
		for j < len(records) && records[j].Partition == records[i].Partition {
			in.bytes += len(records[j].Value)
			j++
		}
		p := in.lane(records[i].Partition)
		p.runs = append(p.runs, run[E]{f.block, i, j, in.fetches, now})
		p.got = records[j-1].Offset + 1
		in.fetches++
		i = j
	}
	in.held += len(records)
	return nil
}

// lane returns a partition's lane, nil where there is none.
func (in *input[E]) lane(partition int32) *lane[E] {
	i, ok := slices.BinarySearchFunc(in.parts, partition, func(p *lane[E], n int32) int { return cmp.Compare(p.partition, n) })
	if !ok {
		return nil
	}
	return in.parts[i]
}

// oldest returns the lane whose first run was fetched first, nil when nothing
// is held.
func (in *input[E]) oldest() (first *lane[E]) {
	for _, p := range in.parts {
		if len(p.runs) > 0 && (first == nil || p.runs[0].order < first.runs[0].order) {
			first = p
		}
	}
	return first
}

// take picks the n oldest records for a window, and appends the ranges that
// they end.
func (in *input[E]) take(n int, ranges []ledger.Range) []ledger.Range {
	in.picked = in.picked[:0]
	for n > 0 {
		p := in.oldest()
		r := p.runs[0]
		n -= in.pick(p, min(r.from+n, r.to))
	}
	// Runs of one partition are picked in the order of their offsets.
	slices.SortStableFunc(in.picked, func(a, b run[E]) int { return cmp.Compare(a.partition(), b.partition()) })
	for i, r := range in.picked {
		if i+1 < len(in.picked) && in.picked[i+1].partition() == r.partition() {
			continue
		}
		p := in.lane(r.partition())
		to := r.block.answer.Records[r.to-1].Offset + 1
		ranges = append(ranges, ledger.Range{Topic: in.topic, Partition: p.partition, From: p.taken, To: to})
		p.taken = to
	}
	return ranges
}

// pick picks the records of a lane's first run that stand before index to, and
// returns how many they are.
func (in *input[E]) pick(p *lane[E], to int) int {
	r := &p.runs[0]
	some := *r
	some.to, r.from = to, to
	in.picked = append(in.picked, some)
	if r.from == r.to {
		*r = run[E]{}
		p.runs = p.runs[1:]
	}
	for _, rec := range some.records() {
		in.bytes -= len(rec.Value)
	}
	in.held -= some.to - some.from
	return some.to - some.from
}

func (r *run[E]) records() []kafka.Record { return r.block.answer.Records[r.from:r.to] }
func (r *run[E]) partition() int32        { return r.block.answer.Records[r.from].Partition }

// replay waits until all of the ranges is fetched, and picks it.
func (in *input[E]) replay(ctx context.Context, ranges []ledger.Range) error {
	in.picked = in.picked[:0]
	for _, g := range ranges {
		p := in.lane(g.Partition)
		if p == nil || p.taken > g.From {
			return fmt.Errorf("the ledger names offsets %d to %d of %s partition %d, and the topic holds them no longer: recovery needs its inputs kept (retention.ms=-1)", g.From, g.To, in.topic, g.Partition)
		}
		for p.got < g.To {
			select {
			case f := <-in.decoded:
				if err := in.add(f, time.Now()); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for len(p.runs) > 0 {
			r := &p.runs[0]
			n := sort.Search(r.to-r.from, func(i int) bool { return r.records()[i].Offset >= g.To })
			if n == 0 {
				break
			}
			in.pick(p, r.from+n)
		}
		p.taken = g.To
	}
	slices.SortStableFunc(in.picked, func(a, b run[E]) int { return cmp.Compare(a.partition(), b.partition()) })
	return nil
}

// gather appends the picked events to events, and what cannot be decoded to
// refused, in canonical order: by partition, then offset.
func (in *input[E]) gather(events []E, refused []event.Refusal) ([]E, []event.Refusal) {
	for _, r := range in.picked {
		b := r.block
		for i := r.from; i < r.to; i++ {
			if v := &b.refused[i]; v.reason != "" {
				refused = append(refused, event.Refusal{Origin: &b.origins[i], Reason: v.reason, Detail: v.detail})
				continue
			}
			events = append(events, b.events[i])
		}
	}
	return events, refused
}

// release gives the picked records' memory back.
func (in *input[E]) release() {
	for _, r := range in.picked {
		if r.block.left -= r.to - r.from; r.block.left == 0 {
			select {
			case in.spare <- r.block:
			default:
			}
		}
	}
	clear(in.picked)
	in.picked = in.picked[:0]
}

// lag returns how many records lie between the windows and the end of the
// topic's committed records.
func (in *input[E]) lag() int64 {
	var lag int64
	for _, p := range in.parts {
		if end := in.reader.End(kafka.TopicPartition{Topic: in.topic, Partition: p.partition}); end > p.taken {
			lag += end - p.taken
		}
	}
	return lag
}
