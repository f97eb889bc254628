package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// ReaderConfig bounds a reader's fetches. Zero fields have defaults.
type ReaderConfig struct {
	MaxWait  time.Duration // how long Poll waits for something new; 250 ms
	MaxBytes int           // of one broker's answer, which a larger batch may exceed; 4 MiB
}

// Reader reads the committed records of the partitions it was given, by
// offset, outside of any group. It is not safe for concurrent use, but for
// Position, End, Quiet and Expect.
type Reader struct {
	client  *Client
	cfg     ReaderConfig
	parts   []*partition // in the order in which they are asked for
	mu      sync.RWMutex // of index: Add writes it
	index   map[TopicPartition]*partition
	topics  []string
	leaders leaderCache
	failed  error // of the last Poll, which had records to return
}

// partition is where a reader stands in one partition.
type partition struct {
	at       TopicPartition
	position atomic.Int64
	stable   atomic.Int64 // last stable offset seen, -1 before the first answer
	expected atomic.Int64 // the log is known to have reached to here
	quiet    atomic.Int64 // nanoseconds, see Quiet
	served   int          // how far the last answer went
	empty    int          // answers in a row without a batch, though the log goes on
	err      error        // of the last fetch
	since    time.Time    // when it began to fail in this way without a break
	heard    time.Time    // of the last answer
	came     time.Time    // of the last answer with records, or of the first one
	short    time.Time    // since when the log has ended before what is expected
	last     mark         // the record read last
	doubted  bool         // last is to be found again before anything else is read
	missing  bool         // since it was read, a broker has said that there is no such partition
}

// NewReader starts at the given offsets.
func (c *Client) NewReader(start map[TopicPartition]int64, cfg ReaderConfig) *Reader {
	if cfg.MaxWait == 0 {
		cfg.MaxWait = 250 * time.Millisecond
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 4 << 20
	}
	r := &Reader{client: c, cfg: cfg, index: make(map[TopicPartition]*partition)}
	for at, offset := range start {
		r.Add(at, offset)
	}
	slices.SortFunc(r.parts, func(a, b *partition) int {
		return cmp.Or(cmp.Compare(a.at.Topic, b.at.Topic), cmp.Compare(a.at.Partition, b.at.Partition))
	})
	return r
}

// Add gives the reader one more partition, which it does not have yet, from an
// offset on.
func (r *Reader) Add(at TopicPartition, offset int64) {
	p := &partition{at: at}
	p.position.Store(offset)
	p.stable.Store(-1)
	r.parts = append(r.parts, p)
	r.mu.Lock()
	r.index[at] = p
	r.mu.Unlock()
	if !slices.Contains(r.topics, at.Topic) {
		r.topics = append(r.topics, at.Topic)
	}
	r.leaders.forget()
}

func (r *Reader) of(at TopicPartition) *partition {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index[at]
}

// Position returns the offset to be read next, past markers and aborted
// records.
func (r *Reader) Position(at TopicPartition) int64 { return r.of(at).position.Load() }

// End returns the last stable offset that was seen, -1 before the first
// answer: committed records end there.
func (r *Reader) End(at TopicPartition) int64 { return r.of(at).stable.Load() }

// Quiet returns for how long a partition has answered without any committed
// record. While it is not asked, or does not answer, this stands still: a broker
// that is away does not make its partitions quiet.
func (r *Reader) Quiet(at TopicPartition) time.Duration { return time.Duration(r.of(at).quiet.Load()) }

// Expect says that the log of a partition is known to hold records before the
// offset. Once it has been seen to end before that for as long as Config.DialFor
// says, Fill returns an OutOfRangeError.
func (r *Reader) Expect(at TopicPartition, offset int64) { r.of(at).expected.Store(offset) }

// Close is there for symmetry: a reader holds nothing that needs releasing.
func (r *Reader) Close() {}

// OutOfRangeError says that an offset that is wanted is not in the log any more,
// or not yet.
type OutOfRangeError struct {
	At       TopicPartition
	Position int64
	Bounds   Bounds
}

// Error says it in one line.
func (e *OutOfRangeError) Error() string {
	why := "the log was truncated, or the topic was created anew: restore it, or start under a new prefix"
	if e.Position < e.Bounds.First {
		why = "what was not read yet was deleted by retention: start under a new prefix, with retention.ms=-1"
	}
	return fmt.Sprintf("%s partition %d holds offsets %d to %d and %d is wanted: %s", e.At.Topic, e.At.Partition, e.Bounds.First, e.Bounds.End, e.Position, why)
}

// ReplacedError says that a log came back as another: the record that was read
// last is not in it.
type ReplacedError struct {
	At     TopicPartition
	Offset int64 // of the record that was read last
}

// Error says it in one line.
func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s partition %d does not have the record at offset %d any more that was read there: the topic was created anew, or its log was rewritten; restore the topic, or start under a new prefix", e.At.Topic, e.At.Partition, e.Offset)
}

// Answer is what one Fill brought, and the memory it stands in.
type Answer struct {
	Records []Record
	shares  []share // one for each leader that was asked
}

// share is what one leader sent.
type share struct {
	records []Record
	bytes   []byte // of keys and values
}

// Poll does what Fill does, with memory of its own: the records stay valid.
func (r *Reader) Poll(ctx context.Context) ([]Record, error) {
	var a Answer
	err := r.Fill(ctx, &a)
	return a.Records, err
}

// Fill waits until committed records can be had, MaxWait at most, and puts them
// into a, in the order of their offsets within a partition. None is no error: all
// that came may have been markers and aborted records, behind which the
// positions are then.
// Leaders that move, brokers that are away and requests that time out are
// waited out until the context ends; when they are back, the log must still have
// the record that was read last, or the error is a ReplacedError. A topic that
// does not exist, and an offset behind the end, are waited for as long as
// Config.DialFor says. The records are valid until a is filled again, and an
// error leaves the reader where it stands.
func (r *Reader) Fill(ctx context.Context, a *Answer) error {
	a.Records = a.Records[:0]
	if err := r.failed; err != nil {
		r.failed = nil
		return err
	}
	began := time.Now()
	p := pace{client: r.client, began: began}
	for {
		err := r.fetch(ctx, a)
		if ctx.Err() != nil && len(a.Records) == 0 {
			return ctx.Err()
		}
		fatal := r.fatal(ctx)
		switch {
		case len(a.Records) > 0:
			// Of partitions that others outrun it must be heard, too.
			r.failed = fatal
			if err != nil {
				p.tell(err)
			}
			return nil
		case fatal != nil:
			return fatal
		case err != nil:
			p.pause(ctx, err)
		case r.moved() || time.Since(began) >= r.cfg.MaxWait:
			return nil
		}
	}
}

// moved tells whether the last fetch brought anything at all.
func (r *Reader) moved() bool {
	return slices.ContainsFunc(r.parts, func(p *partition) bool { return p.served > 0 })
}

// fatal returns the first partition's error that waiting does not mend.
func (r *Reader) fatal(ctx context.Context) error {
	for _, p := range r.parts {
		if err := r.fatalOf(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) fatalOf(ctx context.Context, p *partition) error {
	patience := r.client.cfg.DialFor
	impatient := time.Since(p.since) >= patience
	var replaced *ReplacedError
	switch {
	case p.err == nil:
		// A new leader may not have heard yet how far its log is committed.
		if end := p.stable.Load(); end < 0 || end >= p.expected.Load() {
			p.short = time.Time{}
			return nil
		}
		if p.short.IsZero() {
			p.short = time.Now()
		}
		if time.Since(p.short) >= patience {
			return r.outOfRange(ctx, p, p.expected.Load()-1, true)
		}
		return nil
	case errors.As(p.err, &replaced):
		return p.err
	case errors.Is(p.err, kafkago.OffsetOutOfRange):
		return r.outOfRange(ctx, p, p.position.Load(), impatient)
	case !transient(p.err):
		return p.err
	case impatient && errors.Is(p.err, kafkago.OffsetNotAvailable) && p.doubted:
		return &ReplacedError{At: p.at, Offset: p.last.offset}
	case impatient && errors.Is(p.err, kafkago.LeaderNotAvailable):
		// Either it has no leader, or there is no such partition any more.
		counts, err := r.client.Partitions(ctx, p.at.Topic)
		if n, ok := counts[p.at.Topic]; err != nil || ok && int(p.at.Partition) < n {
			return nil
		}
		return absent(p.at)
	case impatient && errors.Is(p.err, kafkago.UnknownTopicOrPartition):
		return absent(p.at)
	}
	return nil
}

func absent(at TopicPartition) error {
	return fmt.Errorf("%s partition %d does not exist: restore the topic, or start under a new prefix (%w)", at.Topic, at.Partition, kafkago.UnknownTopicOrPartition)
}

// outOfRange returns an error when the log does not hold what is wanted: what is
// gone at its beginning stays gone; what is behind its end may come for a while.
func (r *Reader) outOfRange(ctx context.Context, p *partition, wanted int64, impatient bool) error {
	bounds, err := r.client.Offsets(ctx, p.at.Topic)
	b, ok := bounds[p.at]
	if err == nil && ok && (wanted < b.First || wanted >= b.End && impatient) {
		return &OutOfRangeError{At: p.at, Position: wanted, Bounds: b}
	}
	return nil
}

// fetch asks every leader once, all at the same time, and puts what came into
// a. The error is that of a partition that failed.
func (r *Reader) fetch(ctx context.Context, a *Answer) error {
	leaders, err := r.leaders.of(ctx, r.client, r.topics)
	groups := make(map[int][]*partition)
	for _, p := range r.parts {
		p.served = 0
		leader, ok := leaders[p.at]
		switch {
		case err != nil:
			p.answered(err)
		case !ok:
			p.answered(leaderless(p.at, leaders))
		default:
			groups[leader] = append(groups[leader], p)
		}
	}
	maxWait := r.cfg.MaxWait
	if len(groups) > 1 {
		// The answer of a leader that has nothing must not hold up the others'
		// for long.
		maxWait = min(maxWait, 5*time.Millisecond)
	}
	ids := slices.Sorted(maps.Keys(groups))
	for len(a.shares) < len(ids) {
		a.shares = append(a.shares, share{})
	}
	var wg sync.WaitGroup
	for i, id := range ids {
		s := &a.shares[i]
		s.records, s.bytes = s.records[:0], s.bytes[:0]
		wg.Go(func() { r.fetchFrom(ctx, groups[id], maxWait, s) })
	}
	wg.Wait()
	a.Records = a.Records[:0]
	for i := range ids {
		a.Records = append(a.Records, a.shares[i].records...)
	}
	// A broker fills its answer in the order in which it is asked: what seems to
	// stand before a gap comes first, what was served now last.
	slices.SortStableFunc(r.parts, func(a, b *partition) int {
		return cmp.Or(cmp.Compare(b.empty, a.empty), cmp.Compare(min(a.served, 1), min(b.served, 1)))
	})
	err = nil
	for _, p := range r.parts {
		err = worse(err, p.err)
	}
	if err != nil {
		r.leaders.forget()
	}
	return err
}

// answered notes how a fetch went. After any failure the log may be another.
func (p *partition) answered(err error) {
	if err == nil {
		p.err = nil
		return
	}
	if p.err == nil || code(err) != code(p.err) {
		p.since = time.Now()
	}
	p.err, p.doubted = err, true
	p.missing = p.missing || errors.Is(err, kafkago.UnknownTopicOrPartition)
}

// code returns the broker's code in an error, 0 where there is none.
func code(err error) (code kafkago.Error) {
	errors.As(err, &code)
	return code
}

// read notes what an answer brought.
func (p *partition) read(records []Record) {
	p.heard = time.Now()
	if len(records) > 0 {
		p.last = markOf(&records[len(records)-1])
	}
	if len(records) > 0 || p.came.IsZero() {
		p.came = p.heard
	}
	p.quiet.Store(int64(p.heard.Sub(p.came)))
}

// mark is a record by its offset and what it was.
type mark struct {
	offset int64
	sum    uint64 // 0 for no record
}

var seed = maphash.MakeSeed()

func markOf(r *Record) mark {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, [3]int64{r.Time.UnixMilli(), int64(len(r.Key)), int64(len(r.Value))})
	h.Write(r.Key)
	h.Write(r.Value)
	return mark{r.Offset, max(h.Sum64(), 1)}
}

const readCommitted = 1 // isolation level of KIP-98

// unaskedFor is how long a partition may go unasked before its log is doubted: in
// between, a topic can have been deleted and created again. While it is asked, a
// broker says so.
const unaskedFor = time.Second

// fetchFrom asks the leader of parts for what follows their positions. They
// share MaxBytes, so that one far behind does not keep the others waiting.
func (r *Reader) fetchFrom(ctx context.Context, parts []*partition, maxWait time.Duration, into *share) {
	sound := parts[:0]
	for _, p := range parts {
		if p.last.sum != 0 && (p.doubted || time.Since(p.heard) >= unaskedFor) {
			if err := r.confirm(ctx, p); err != nil {
				p.answered(err)
				continue
			}
		}
		p.doubted, p.missing = false, false
		sound = append(sound, p)
	}
	if len(sound) == 0 {
		return
	}
	err := r.ask(ctx, sound, maxWait, r.cfg.MaxBytes/len(sound), func(p *partition, answer *fetch.ResponsePartition) {
		err := errorOf(answer)
		if err == nil {
			n := len(into.records)
			if err = p.walk(into, answer, p == sound[0]); err == nil {
				p.read(into.records[n:])
			}
		}
		if err != nil {
			err = fmt.Errorf("reading %s partition %d: %w", p.at.Topic, p.at.Partition, err)
		}
		p.answered(err)
	})
	if err != nil {
		for _, p := range sound {
			p.answered(err)
		}
	}
}

func errorOf(answer *fetch.ResponsePartition) error {
	if answer.ErrorCode != 0 {
		return kafkago.Error(answer.ErrorCode)
	}
	return nil
}

// confirm reads the record again that was read last. A log that does not have it
// is another one. The same log may have lost it to retention or compaction, which
// is believed of one that was there all the time.
func (r *Reader) confirm(ctx context.Context, p *partition) error {
	probe := &partition{at: p.at}
	probe.position.Store(p.last.offset)
	var s share
	var failed error
	err := r.ask(ctx, []*partition{probe}, 0, 1, func(_ *partition, answer *fetch.ResponsePartition) {
		if failed = errorOf(answer); failed == nil {
			failed = probe.walk(&s, answer, true)
		}
	})
	if err = cmp.Or(err, failed); err != nil && !errors.Is(err, kafkago.OffsetOutOfRange) {
		return err
	}
	first := int64(-1) // that is found from there on
	if len(s.records) > 0 {
		first = s.records[0].Offset
	} else if err != nil {
		bounds, err := r.client.Offsets(ctx, p.at.Topic)
		if err != nil {
			return err
		}
		if b := bounds[p.at]; b.First > p.last.offset {
			first = b.First
		}
	}
	switch {
	case first == p.last.offset:
		if markOf(&s.records[0]) == p.last {
			return nil
		}
	case !p.missing && max(first, probe.stable.Load()) > p.last.offset:
		return nil
	case first < 0:
		// The log ends before it, for now.
		return fmt.Errorf("%s partition %d, offset %d, which was read: %w", p.at.Topic, p.at.Partition, p.last.offset, kafkago.OffsetNotAvailable)
	}
	return &ReplacedError{At: p.at, Offset: p.last.offset}
}

// ask sends one fetch request to the leader of parts, and calls each for every
// partition in the answer. maxBytes is a partition's share; the limit of the
// whole request stays out of it: kfake forgets the list of aborted transactions
// when that limit ends its answer.
func (r *Reader) ask(ctx context.Context, parts []*partition, maxWait time.Duration, maxBytes int, each func(*partition, *fetch.ResponsePartition)) error {
	req := &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(maxWait.Milliseconds()), MinBytes: 1, MaxBytes: math.MaxInt32,
		IsolationLevel: readCommitted, SessionID: 0, SessionEpoch: -1,
	}
	for _, p := range parts {
		i := len(req.Topics) - 1
		if i < 0 || req.Topics[i].Topic != p.at.Topic {
			req.Topics = append(req.Topics, fetch.RequestTopic{Topic: p.at.Topic})
			i++
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, fetch.RequestPartition{
			Partition: p.at.Partition, CurrentLeaderEpoch: -1, FetchOffset: p.position.Load(),
			PartitionMaxBytes: int32(max(maxBytes, 1)),
		})
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait+r.client.cfg.Timeout)
	defer cancel()
	m, err := r.client.transport.RoundTrip(ctx, r.client.client.Addr, req)
	if err != nil {
		return err
	}
	res := m.(*fetch.Response)
	if res.ErrorCode != 0 {
		return kafkago.Error(res.ErrorCode)
	}
	for i := range res.Topics {
		for j := range res.Topics[i].Partitions {
			answer := &res.Topics[i].Partitions[j]
			if p := r.of(TopicPartition{res.Topics[i].Topic, answer.Partition}); p != nil {
				each(p, answer)
			}
		}
	}
	return nil
}

// ReadAll calls each for every committed record that a topic holds now, in the
// order of their offsets within a partition. An absent topic holds none.
func (c *Client) ReadAll(ctx context.Context, topic string, each func(*Record)) error {
	bounds, err := c.Offsets(ctx, topic)
	if err != nil {
		return err
	}
	start := make(map[TopicPartition]int64)
	for at, b := range bounds {
		start[at] = b.First
	}
	r := c.NewReader(start, ReaderConfig{})
	defer r.Close()
	for at, b := range bounds {
		for r.Position(at) < b.End {
			records, err := r.Poll(ctx)
			if err != nil {
				return err
			}
			for i := range records {
				each(&records[i])
			}
		}
	}
	return nil
}
