package worker

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync/atomic"
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

// recordBytes is what a record takes while its block is held, beside its key,
// its value and what they are decoded to: the event, its origin, its verdict. A
// header takes headerBytes twice.
const (
	recordBytes = 400
	headerBytes = 2 * 48
)

// lookEvery is how often partitions are looked for that were added to a topic.
const lookEvery = time.Second

// maxRanges bounds the ranges of one topic in one window: with the longest of
// names, a ledger record stays below the 1 MiB that brokers take.
const maxRanges = 1500

// input is one topic's committed events on their way into windows. One
// goroutine fetches, one decodes, each one answer ahead of the next; all else
// belongs to the worker's loop.
type input[E any] struct {
	source[E]
	client  *kafka.Client
	reader  *kafka.Reader
	decoded chan fetched[E]
	spare   chan *block[E]
	look    chan struct{} // wakes the search for new partitions
	flying  atomic.Int32  // blocks fetched and not added
	parts   []*lane[E]    // by partition, ascending
	fetches int           // runs fetched so far
	held    int           // records fetched and in no window yet
	bytes   int           // of the blocks that are held for any of their records
	picked  []run[E]      // what the last take or replay chose, in canonical order
	kept    []run[E]      // memory for what a lane keeps

	// Told of and set to 0 by the loop: events that came after their window was
	// closed, and with a time too far ahead to go by.
	late, early int
}

// source is what tells one input from another.
type source[E any] struct {
	topic  string
	spared bool // the topic may be missing: then nothing comes
	decode func(*wire.Decoder, *event.Origin, *E) (event.Reason, string)
	when   func(*E) int64 // event time in milliseconds, 0 when not told
	limits wire.Limits
	ahead  time.Duration // of the clock, that an event time is believed
}

// block is what one fetch brought, decoded. It is used again once all of its
// records are released.
type block[E any] struct {
	answer  kafka.Answer
	origins []event.Origin
	events  []E
	refused []verdict
	times   []int64         // of the runs that were judged: event time, or NoTime
	quiet   []time.Duration // by partition: for how long nothing had come when it was fetched
	memory  wire.Memory
	bytes   int // held by it
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
	times    extent    // valid when judged
	judged   bool
}

// lane is one partition's runs in the order of their offsets. Windows have taken
// all before taken, and the islands behind it, which are in order and apart.
type lane[E any] struct {
	partition int32
	runs      []run[E]
	first     int64 // the offset that the partition begins with
	got       int64 // the offset behind the last record fetched
	taken     int64
	islands   []span
	latest    int64         // largest event time that came, NoTime before the first
	quiet     time.Duration // as of the last block
}

// span is the offsets from ≤ offset < to.
type span struct{ from, to int64 }

type fetched[E any] struct {
	block *block[E]
	err   error
}

// openInput starts fetching every partition of the topic, from its beginning or
// behind what is taken: the ranges that an input's consumed has told of.
func openInput[E any](ctx context.Context, c *kafka.Client, from source[E], taken []ledger.Range) (*input[E], error) {
	bounds, err := c.Offsets(ctx, from.topic)
	if err != nil {
		return nil, err
	}
	if len(bounds) == 0 && from.spared {
		return &input[E]{source: from, client: c}, nil
	}
	if len(bounds) == 0 {
		return nil, fmt.Errorf("topic %s does not exist: run 'gvbll topics', or start with --create-topics", from.topic)
	}
	in := &input[E]{
		source: from, client: c,
		decoded: make(chan fetched[E]), spare: make(chan *block[E], spareBlocks), look: make(chan struct{}, 1),
	}
	start := make(map[kafka.TopicPartition]int64)
	for at, b := range bounds {
		p := newLane[E](at.Partition, b.First)
		p.behind(ofPartition(taken, at))
		switch {
		case p.taken < b.First:
			return nil, &kafka.OutOfRangeError{At: at, Position: p.taken, Bounds: b}
		case p.reach() > b.End:
			return nil, &kafka.OutOfRangeError{At: at, Position: p.reach() - 1, Bounds: b}
		}
		start[at] = p.taken
		in.parts = append(in.parts, p)
	}
	slices.SortFunc(in.parts, func(a, b *lane[E]) int { return cmp.Compare(a.partition, b.partition) })
	in.reader = c.NewReader(start, kafka.ReaderConfig{MaxBytes: max(fetchBytes, len(start)*laneBytes)})
	raw := make(chan fetched[E])
	go in.fetch(ctx, raw, len(bounds))
	go in.decodeAll(ctx, raw)
	return in, nil
}

func newLane[E any](partition int32, first int64) *lane[E] {
	return &lane[E]{partition: partition, first: first, got: first, taken: first, latest: NoTime}
}

// behind puts a lane that is empty behind what was consumed of it.
func (p *lane[E]) behind(consumed []ledger.Range) {
	for i, g := range consumed {
		if i == 0 {
			p.taken, p.got = g.To, g.To
			continue
		}
		p.islands = append(p.islands, span{g.From, g.To})
	}
}

// ofPartition returns the ranges of one partition.
func ofPartition(ranges []ledger.Range, at kafka.TopicPartition) (of []ledger.Range) {
	for _, g := range ranges {
		if g.Topic == at.Topic && g.Partition == at.Partition {
			of = append(of, g)
		}
	}
	return of
}

// reach returns the offset behind the last one taken.
func (p *lane[E]) reach() int64 {
	if n := len(p.islands); n > 0 {
		return p.islands[n-1].to
	}
	return p.taken
}

// consumed appends what windows have taken of every partition: first what it
// was from the beginning on, which may be nothing, then the islands behind that.
func (in *input[E]) consumed(ranges []ledger.Range) []ledger.Range {
	for _, p := range in.parts {
		ranges = append(ranges, ledger.Range{Topic: in.topic, Partition: p.partition, From: p.first, To: p.taken})
		for _, s := range p.islands {
			ranges = append(ranges, ledger.Range{Topic: in.topic, Partition: p.partition, From: s.from, To: s.to})
		}
	}
	return ranges
}

// fetch fetches the partitions below known, and those that are added.
func (in *input[E]) fetch(ctx context.Context, raw chan<- fetched[E], known int) {
	defer in.reader.Close()
	looked := time.Now()
	var b *block[E]
	for {
		select {
		case <-in.look:
			looked = time.Time{}
		default:
		}
		if time.Since(looked) >= lookEvery {
			known = in.discover(ctx, known)
			looked = time.Now()
		}
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
		in.flying.Add(1)
		b.quiet = resize(b.quiet, known)
		for i := range b.quiet {
			b.quiet[i] = in.reader.Quiet(kafka.TopicPartition{Topic: in.topic, Partition: int32(i)})
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

// discover gives the reader the partitions that the topic has beyond the known
// ones, and returns how many it has. They are read from offset 0: were anything
// of them gone already, that must be heard. A failure is the next fetch's to
// tell.
func (in *input[E]) discover(ctx context.Context, known int) int {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	counts, err := in.client.Partitions(ctx, in.topic)
	if err != nil {
		return known
	}
	for ; known < counts[in.topic]; known++ {
		in.reader.Add(kafka.TopicPartition{Topic: in.topic, Partition: int32(known)}, 0)
	}
	return known
}

func (in *input[E]) decodeAll(ctx context.Context, raw <-chan fetched[E]) {
	decoder := wire.Decoder{Limits: in.limits}
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
	b.left, b.bytes = n, n*recordBytes
	b.origins, b.events, b.refused = resize(b.origins, n), resize(b.events, n), resize(b.refused, n)
	b.memory.Reset()
	d.Memory = &b.memory
	for i := range records {
		r, o := &records[i], &b.origins[i]
		b.bytes += len(r.Key) + len(r.Value)
		*o = event.Origin{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Time.UnixMilli(), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			o.Headers = append(o.Headers, event.Header(h))
			b.bytes += headerBytes + len(h.Key) + len(h.Value)
		}
		b.refused[i].reason, b.refused[i].detail = decode(d, o, &b.events[i])
	}
	b.bytes += b.memory.Bytes()
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
	if in.full() {
		return nil
	}
	return in.decoded
}

func (in *input[E]) full() bool { return in.held >= maxBuffered || in.bytes >= maxBufferedBytes }

func (in *input[E]) add(f fetched[E], now time.Time) error {
	if f.err != nil {
		return f.err
	}
	b := f.block
	in.flying.Add(-1)
	in.bytes += b.bytes
	records := b.answer.Records
	for i := 0; i < len(records); {
		j := i
		for j < len(records) && records[j].Partition == records[i].Partition {
			j++
		}
		p := in.lane(records[i].Partition)
		if p == nil {
			p = newLane[E](records[i].Partition, 0)
			in.parts = append(in.parts, p)
			slices.SortFunc(in.parts, func(a, b *lane[E]) int { return cmp.Compare(a.partition, b.partition) })
		}
		r := run[E]{block: b, from: i, to: j, order: in.fetches, at: now}
		in.fetches++
		p.got = r.end()
		if p.reach() > r.first() {
			in.addSome(p, r)
		} else {
			p.runs = append(p.runs, r)
			in.held += j - i
		}
		i = j
	}
	for _, p := range in.parts {
		if int(p.partition) < len(b.quiet) {
			p.quiet = b.quiet[p.partition]
		}
	}
	return nil
}

// addSome adds what is not in the lane's islands, which were taken before this
// worker began.
func (in *input[E]) addSome(p *lane[E], r run[E]) {
	records := r.block.answer.Records
	for i := r.from; i < r.to; {
		taken := p.wasTaken(records[i].Offset)
		j := i + 1
		for j < r.to && p.wasTaken(records[j].Offset) == taken {
			j++
		}
		if taken {
			in.free(r.block, j-i)
		} else {
			piece := r
			piece.from, piece.to = i, j
			p.runs = append(p.runs, piece)
			in.held += j - i
		}
		i = j
	}
	p.settle()
}

// wasTaken tells whether an offset lies in an island.
func (p *lane[E]) wasTaken(offset int64) bool {
	i := sort.Search(len(p.islands), func(i int) bool { return p.islands[i].to > offset })
	return i < len(p.islands) && p.islands[i].from <= offset
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
	for i := 0; i < len(in.picked); {
		j := i + 1
		for j < len(in.picked) && in.picked[j].partition() == in.picked[i].partition() {
			j++
		}
		p := in.lane(in.picked[i].partition())
		ranges = in.cover(p, in.picked[i:j], ranges)
		i = j
	}
	return ranges
}

// cover appends the ranges of runs that were picked from the front of a lane.
func (in *input[E]) cover(p *lane[E], picked []run[E], ranges []ledger.Range) []ledger.Range {
	if len(p.islands) == 0 {
		to := picked[len(picked)-1].end()
		ranges = append(ranges, ledger.Range{Topic: in.topic, Partition: p.partition, From: p.taken, To: to})
		p.taken = to
		return ranges
	}
	c := newCutter(in.topic, p, ranges)
	for i := range picked {
		c.take(&picked[i])
	}
	return c.done()
}

// pick picks the records of a lane's first run that stand before index to, and
// returns how many they are.
func (in *input[E]) pick(p *lane[E], to int) int {
	r := &p.runs[0]
	first := *r
	first.to, r.from = to, to
	in.picked = append(in.picked, first)
	if r.from == r.to {
		*r = run[E]{}
		p.runs = p.runs[1:]
	} else if r.judged {
		r.measure()
	}
	in.held -= first.to - first.from
	return first.to - first.from
}

func (r *run[E]) records() []kafka.Record { return r.block.answer.Records[r.from:r.to] }
func (r *run[E]) partition() int32        { return r.block.answer.Records[r.from].Partition }
func (r *run[E]) first() int64            { return r.block.answer.Records[r.from].Offset }
func (r *run[E]) end() int64              { return r.block.answer.Records[r.to-1].Offset + 1 }

// cutter notes what is taken of a lane that is not taken from its front alone.
type cutter[E any] struct {
	topic   string
	lane    *lane[E]
	islands []span
	ranges  []ledger.Range
	before  int  // ranges of other lanes
	apart   bool // something that was not taken now stands behind the last range
}

func newCutter[E any](topic string, p *lane[E], ranges []ledger.Range) *cutter[E] {
	return &cutter[E]{topic: topic, lane: p, islands: p.islands, ranges: ranges, before: len(ranges), apart: true}
}

// next tells whether a run that is taken would begin another range.
func (c *cutter[E]) next(r *run[E]) bool {
	for len(c.islands) > 0 && c.islands[0].from < r.first() {
		c.islands, c.apart = c.islands[1:], true
	}
	return c.apart
}

func (c *cutter[E]) take(r *run[E]) {
	if c.next(r) {
		c.ranges = append(c.ranges, ledger.Range{Topic: c.topic, Partition: c.lane.partition, From: r.first(), To: r.end()})
		c.apart = false
		return
	}
	c.ranges[len(c.ranges)-1].To = r.end()
}

// done enters the ranges into the lane, which holds what is left already.
func (c *cutter[E]) done() []ledger.Range {
	for _, g := range c.ranges[c.before:] {
		c.lane.islands = append(c.lane.islands, span{g.From, g.To})
	}
	c.lane.settle()
	return c.ranges
}

// settle brings the islands into order and joins those between which nothing is
// held, with each other and with what is taken from the beginning on.
func (p *lane[E]) settle() {
	slices.SortFunc(p.islands, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	all, held := p.islands, p.runs
	p.islands = p.islands[:0]
	front := true
	for _, s := range all {
		joined := s.from <= p.got // of what was not fetched nothing is known
		for len(held) > 0 && held[0].first() < s.from {
			held, front, joined = held[1:], false, false
		}
		switch n := len(p.islands); {
		case front && joined:
			p.taken = s.to
		case n > 0 && (joined || p.islands[n-1].to == s.from):
			p.islands[n-1].to = s.to
		default:
			p.islands = append(p.islands, s)
			front = false
		}
	}
}

// sift picks of a lane what the two functions want: of tells how much of a run,
// wanted decides about a record by its index. It appends the ranges, limit in all
// at most; what would need more of them is left.
func (in *input[E]) sift(p *lane[E], of func(*run[E]) portion, wanted func(*run[E], int) bool, ranges []ledger.Range, limit int) []ledger.Range {
	c := newCutter(in.topic, p, ranges)
	keep := func(r run[E]) {
		c.apart = true
		in.kept = append(in.kept, r)
	}
	pick := func(r run[E]) {
		if c.next(&r) && len(c.ranges) >= limit {
			keep(r)
			return
		}
		c.take(&r)
		in.picked = append(in.picked, r)
		in.held -= r.to - r.from
	}
	for i := range p.runs {
		r := p.runs[i]
		switch of(&r) {
		case whole:
			pick(r)
		case nothing:
			keep(r)
		case part:
			for from := r.from; from < r.to; {
				piece := r
				piece.from, piece.to = from, from+1
				want := wanted(&r, from)
				for piece.to < r.to && wanted(&r, piece.to) == want {
					piece.to++
				}
				from = piece.to
				if want {
					pick(piece)
					continue
				}
				if piece.judged {
					piece.measure()
				}
				keep(piece)
			}
		}
	}
	clear(p.runs)
	p.runs, in.kept = in.kept, p.runs[:0]
	return c.done()
}

// portion is how much of a run is wanted.
type portion int

const (
	nothing portion = iota
	part
	whole
)

// replay waits until all of the ranges is fetched, and picks it.
func (in *input[E]) replay(ctx context.Context, ranges []ledger.Range) error {
	in.picked = in.picked[:0]
	for len(ranges) > 0 {
		n := 1
		for n < len(ranges) && ranges[n].Partition == ranges[0].Partition {
			n++
		}
		p, err := in.await(ctx, ranges[:n])
		if err != nil {
			return err
		}
		if to := ranges[0].To; n == 1 && (len(p.runs) == 0 || p.runs[0].first() >= ranges[0].From) && len(p.islands) == 0 {
			for len(p.runs) > 0 {
				r := &p.runs[0]
				n := sort.Search(r.to-r.from, func(i int) bool { return r.records()[i].Offset >= to })
				if n == 0 {
					break
				}
				in.pick(p, r.from+n)
			}
			p.taken = to
		} else {
			in.pickRanges(p, ranges[:n])
		}
		ranges = ranges[n:]
	}
	slices.SortStableFunc(in.picked, func(a, b run[E]) int { return cmp.Compare(a.partition(), b.partition()) })
	in.remember()
	return nil
}

// await waits until all of one partition's ranges is fetched.
func (in *input[E]) await(ctx context.Context, ranges []ledger.Range) (*lane[E], error) {
	at := kafka.TopicPartition{Topic: in.topic, Partition: ranges[0].Partition}
	p := in.lane(at.Partition)
	if p == nil {
		if in.reader == nil {
			return nil, fmt.Errorf("the ledger names %s, and there is no such topic: restore it", in.topic)
		}
		if err := in.find(ctx, at); err != nil {
			return nil, err
		}
		p = newLane[E](at.Partition, 0) // add will have it
	}
	before := int64(0)
	for _, g := range ranges {
		switch {
		case g.From < p.first:
			return nil, fmt.Errorf("the ledger names offsets %d to %d of %s partition %d, and the topic holds them no longer: recovery needs its inputs kept (retention.ms=-1)", g.From, g.To, in.topic, g.Partition)
		case g.From < before || g.From < p.taken || slices.ContainsFunc(p.islands, func(s span) bool { return s.from < g.To && g.From < s.to }):
			return nil, fmt.Errorf("the ledger names offsets %d to %d of %s partition %d twice: it is not what a worker wrote", g.From, g.To, in.topic, g.Partition)
		}
		before = g.To
	}
	for asked := false; p.got < before; {
		if !asked && in.lane(at.Partition) != nil {
			in.reader.Expect(at, before)
			asked = true
		}
		select {
		case f := <-in.decoded:
			if err := in.add(f, time.Now()); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if found := in.lane(at.Partition); found != nil {
			p = found
		}
	}
	return p, nil
}

// find waits a little for a partition that the ledger names and that was not
// there yet, and lets it be fetched.
func (in *input[E]) find(ctx context.Context, at kafka.TopicPartition) error {
	const tries, pause = 30, 100 * time.Millisecond
	for range tries {
		counts, err := in.client.Partitions(ctx, at.Topic)
		if err != nil {
			return err
		}
		if int(at.Partition) < counts[at.Topic] {
			select {
			case in.look <- struct{}{}:
			default:
			}
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("the ledger names %s partition %d, and there is none: the topic was created anew; restore it, or start under a new prefix", at.Topic, at.Partition)
}

// pickRanges picks exactly the records in the ranges, which are one partition's
// and in order.
func (in *input[E]) pickRanges(p *lane[E], ranges []ledger.Range) {
	in.sift(p, func(r *run[E]) portion {
		first, end := r.first(), r.end()
		for len(ranges) > 0 && ranges[0].To <= first {
			ranges = ranges[1:]
		}
		switch {
		case len(ranges) == 0 || ranges[0].From >= end:
			return nothing
		case ranges[0].From <= first && ranges[0].To >= end:
			return whole
		}
		return part
	}, func(r *run[E], i int) bool {
		offset := r.block.answer.Records[i].Offset
		for len(ranges) > 0 && ranges[0].To <= offset {
			ranges = ranges[1:]
		}
		return len(ranges) > 0 && ranges[0].From <= offset
	}, nil, math.MaxInt)
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
		in.free(r.block, r.to-r.from)
	}
	clear(in.picked)
	in.picked = in.picked[:0]
}

// free gives n of a block's records back, and with the last ones the block.
func (in *input[E]) free(b *block[E], n int) {
	if b.left -= n; b.left > 0 {
		return
	}
	in.bytes -= b.bytes
	select {
	case in.spare <- b:
	default:
	}
}

// positions notes, of every partition that was picked from, the lowest offset
// that no window has taken.
func (in *input[E]) positions(offsets map[kafka.TopicPartition]int64) {
	for i, r := range in.picked {
		if i == 0 || r.partition() != in.picked[i-1].partition() {
			offsets[kafka.TopicPartition{Topic: in.topic, Partition: r.partition()}] = in.lane(r.partition()).taken
		}
	}
}

// lag returns how many records lie between the windows and the end of the
// topic's committed records.
func (in *input[E]) lag() int64 {
	var lag int64
	for _, p := range in.parts {
		if end := in.reader.End(kafka.TopicPartition{Topic: in.topic, Partition: p.partition}); end > p.taken {
			lag += end - p.taken
		}
		for _, s := range p.islands {
			lag -= s.to - s.from
		}
	}
	return max(lag, 0)
}
