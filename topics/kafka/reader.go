package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
// Position and End.
type Reader struct {
	client  *Client
	cfg     ReaderConfig
	parts   []*partition // in the order in which they are asked for
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
	served   int          // how far the last answer went
	empty    int          // answers in a row without a batch, though the log goes on
	err      error        // of the last fetch
	since    time.Time    // when it began to fail without a break
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
		p := &partition{at: at}
		p.position.Store(offset)
		p.stable.Store(-1)
		r.parts = append(r.parts, p)
		r.index[at] = p
		if !slices.Contains(r.topics, at.Topic) {
			r.topics = append(r.topics, at.Topic)
		}
	}
	slices.SortFunc(r.parts, func(a, b *partition) int {
		return cmp.Or(cmp.Compare(a.at.Topic, b.at.Topic), cmp.Compare(a.at.Partition, b.at.Partition))
	})
	return r
}

// Position returns the offset to be read next, past markers and aborted
// records.
func (r *Reader) Position(at TopicPartition) int64 { return r.index[at].position.Load() }

// End returns the last stable offset that was seen, -1 before the first
// answer: committed records end there.
func (r *Reader) End(at TopicPartition) int64 { return r.index[at].stable.Load() }

// Close is there for symmetry: a reader holds nothing that needs releasing.
func (r *Reader) Close() {}

// OutOfRangeError says that a position is not in the log any more, or not yet.
type OutOfRangeError struct {
	At       TopicPartition
	Position int64
	Bounds   Bounds
}

// Error says it in one line.
func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("%s partition %d holds offsets %d to %d and %d is wanted: records were deleted by retention, or the topic was created anew", e.At.Topic, e.At.Partition, e.Bounds.First, e.Bounds.End, e.Position)
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
// waited out until the context ends. A topic that does not exist, and an offset
// behind the end, are waited for as long as Config.DialFor says. The records
// are valid until a is filled again, and an error leaves the reader where it
// stands.
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
		patient := time.Since(p.since) < r.client.cfg.DialFor
		switch {
		case p.err == nil:
		case errors.Is(p.err, kafkago.OffsetOutOfRange):
			// A new leader may not have heard yet that the end of its log is
			// committed; what is gone at the beginning stays gone.
			bounds, err := r.client.Offsets(ctx, p.at.Topic)
			b, ok := bounds[p.at]
			if err == nil && ok && (p.position.Load() < b.First || !patient) {
				return &OutOfRangeError{At: p.at, Position: p.position.Load(), Bounds: b}
			}
		case !transient(p.err), errors.Is(p.err, kafkago.UnknownTopicOrPartition) && !patient:
			return p.err
		}
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

// answered notes how a fetch went.
func (p *partition) answered(err error) {
	if err != nil && p.err == nil {
		p.since = time.Now()
	}
	p.err = err
}

const readCommitted = 1 // isolation level of KIP-98

// fetchFrom asks the leader of parts for what follows their positions. They
// share MaxBytes, so that one far behind does not keep the others waiting. The
// limit of the whole request stays out of it: kfake forgets the list of aborted
// transactions when that limit ends its answer.
func (r *Reader) fetchFrom(ctx context.Context, parts []*partition, maxWait time.Duration, into *share) {
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
			PartitionMaxBytes: int32(max(r.cfg.MaxBytes/len(parts), 1)),
		})
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait+r.client.cfg.Timeout)
	defer cancel()
	m, err := r.client.transport.RoundTrip(ctx, r.client.client.Addr, req)
	if err == nil {
		if code := m.(*fetch.Response).ErrorCode; code != 0 {
			err = kafkago.Error(code)
		}
	}
	if err != nil {
		for _, p := range parts {
			p.answered(err)
		}
		return
	}
	res := m.(*fetch.Response)
	for i := range res.Topics {
		for j := range res.Topics[i].Partitions {
			answer := &res.Topics[i].Partitions[j]
			p := r.index[TopicPartition{res.Topics[i].Topic, answer.Partition}]
			if p == nil {
				continue
			}
			var err error
			if answer.ErrorCode != 0 {
				err = kafkago.Error(answer.ErrorCode)
			} else {
				err = p.walk(into, answer, p == parts[0])
			}
			if err != nil {
				err = fmt.Errorf("reading %s partition %d: %w", p.at.Topic, p.at.Partition, err)
			}
			p.answered(err)
		}
	}
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
