package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// ReaderConfig bounds a reader's fetches. Zero fields have defaults.
type ReaderConfig struct {
	MaxWait  time.Duration // how long a broker may wait for something new; 250 ms
	MaxBytes int           // of one answer, and of one partition in it; 4 MiB
}

// Reader reads the committed records of the partitions it was given, by
// offset, outside of any group. It is not safe for concurrent use, but for
// Position and End.
type Reader struct {
	client *Client
	cfg    ReaderConfig
	parts  []*partition
	index  map[TopicPartition]*partition
}

// partition is where a reader stands in one partition.
type partition struct {
	at       TopicPartition
	position atomic.Int64
	stable   atomic.Int64 // last stable offset seen, -1 before the first answer
	empty    int          // answers in a row that had nothing though the log goes on
}

// An answer may be empty because other partitions' records filled it, or
// because the log was written to while it was put together. Only a partition
// that was asked for alone, and said nothing this often, is stepped over.
const emptyAnswers = 3

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
	}
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

// Poll waits until committed records can be had, MaxWait at most, and returns
// them, in the order of their offsets within a partition; none is no error.
// Leaders that move, brokers that are away and requests that time out are
// waited out until the context ends. The records stay valid.
func (r *Reader) Poll(ctx context.Context) ([]Record, error) {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		records, err := r.fetch(ctx)
		if err == nil || len(records) > 0 {
			return records, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, kafkago.OffsetOutOfRange) {
			if err := r.outOfRange(ctx); err != nil {
				return nil, err
			}
		} else if !transient(err) {
			return nil, err
		}
		r.client.cfg.Logger.Debug("kafka: fetching again", "err", err)
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// outOfRange returns which partition's position the log does not hold. Nil
// means all are held: an answer was stale.
func (r *Reader) outOfRange(ctx context.Context) error {
	for _, p := range r.parts {
		bounds, err := r.client.Offsets(ctx, p.at.Topic)
		if err != nil {
			return err
		}
		if b, ok := bounds[p.at]; ok && (p.position.Load() < b.First || p.position.Load() > b.End) {
			return &OutOfRangeError{At: p.at, Position: p.position.Load(), Bounds: b}
		}
	}
	return nil
}

// fetch asks every leader once, all at the same time.
func (r *Reader) fetch(ctx context.Context) ([]Record, error) {
	for _, p := range r.parts {
		if p.empty > 0 {
			return r.fetchFrom(ctx, []*partition{p}, r.cfg.MaxWait)
		}
	}
	leaders, err := r.leaders(ctx)
	if err != nil {
		return nil, err
	}
	if len(leaders) == 1 {
		for _, parts := range leaders {
			return r.fetchFrom(ctx, parts, r.cfg.MaxWait)
		}
	}
	// The answer of a leader that has nothing must not hold up the others' for
	// long.
	var (
		mu      sync.Mutex
		records []Record
		wg      sync.WaitGroup
	)
	for _, parts := range leaders {
		wg.Go(func() {
			got, e := r.fetchFrom(ctx, parts, min(r.cfg.MaxWait, 20*time.Millisecond))
			mu.Lock()
			defer mu.Unlock()
			records = append(records, got...)
			if e != nil {
				err = e
			}
		})
	}
	wg.Wait()
	return records, err
}

// leaders groups the partitions by leader: a fetch request goes to one.
func (r *Reader) leaders(ctx context.Context) (map[int][]*partition, error) {
	var topics []string
	seen := make(map[string]bool)
	for _, p := range r.parts {
		if !seen[p.at.Topic] {
			seen[p.at.Topic] = true
			topics = append(topics, p.at.Topic)
		}
	}
	leaderOf, err := r.client.leaders(ctx, topics)
	if err != nil {
		return nil, err
	}
	groups := make(map[int][]*partition)
	for _, p := range r.parts {
		leader, ok := leaderOf[p.at]
		if !ok {
			return nil, fmt.Errorf("%s partition %d: %w", p.at.Topic, p.at.Partition, kafkago.UnknownTopicOrPartition)
		}
		groups[leader] = append(groups[leader], p)
	}
	return groups, nil
}

// leaders returns the broker id of every partition's leader, from metadata that
// is half a second old at most.
func (c *Client) leaders(ctx context.Context, topics []string) (map[TopicPartition]int, error) {
	m, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: topics})
	if err != nil {
		return nil, err
	}
	leaders := make(map[TopicPartition]int)
	for _, t := range m.Topics {
		if t.Error != nil {
			return nil, fmt.Errorf("topic %s: %w", t.Name, t.Error)
		}
		for _, p := range t.Partitions {
			if p.Leader.Host == "" {
				return nil, fmt.Errorf("%s partition %d: %w", t.Name, p.ID, kafkago.LeaderNotAvailable)
			}
			leaders[TopicPartition{t.Name, int32(p.ID)}] = p.Leader.ID
		}
	}
	return leaders, nil
}

const readCommitted = 1

func (r *Reader) fetchFrom(ctx context.Context, parts []*partition, maxWait time.Duration) ([]Record, error) {
	req := &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(maxWait.Milliseconds()), MinBytes: 1, MaxBytes: int32(r.cfg.MaxBytes),
		IsolationLevel: readCommitted, SessionID: 0, SessionEpoch: -1,
	}
	for _, p := range parts {
		i := len(req.Topics) - 1
		if i < 0 || req.Topics[i].Topic != p.at.Topic {
			req.Topics = append(req.Topics, fetch.RequestTopic{Topic: p.at.Topic})
			i++
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, fetch.RequestPartition{
			Partition: p.at.Partition, CurrentLeaderEpoch: -1, FetchOffset: p.position.Load(), PartitionMaxBytes: int32(r.cfg.MaxBytes),
		})
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait+r.client.cfg.Timeout)
	defer cancel()
	m, err := r.client.transport.RoundTrip(ctx, r.client.client.Addr, req)
	if err != nil {
		return nil, err
	}
	res := m.(*fetch.Response)
	if res.ErrorCode != 0 {
		return nil, kafkago.Error(res.ErrorCode)
	}
	var records []Record
	for i := range res.Topics {
		for j := range res.Topics[i].Partitions {
			answer := &res.Topics[i].Partitions[j]
			at := TopicPartition{res.Topics[i].Topic, answer.Partition}
			if answer.ErrorCode != 0 {
				err = fmt.Errorf("fetching %s partition %d: %w", at.Topic, at.Partition, kafkago.Error(answer.ErrorCode))
				continue
			}
			p := r.index[at]
			if p == nil {
				continue
			}
			var e error
			if records, e = p.walk(records, answer, len(parts) == 1); e != nil {
				err = fmt.Errorf("reading %s partition %d: %w", at.Topic, at.Partition, e)
			}
		}
	}
	return records, err
}

// walk appends the answer's committed records. A broker sends aborted ones too,
// with a list of the transactions: one that is aborted begins at its
// FirstOffset and ends at its abort marker. Before every batch, markers too,
// the transactions that begin at or before it are entered; only then may a
// marker take its producer out. (A fetch can start at an abort marker whose
// transaction is still in the list: entered and taken out at once, it does no
// harm; entered later, it would swallow the producer's next transaction.)
func (p *partition) walk(records []Record, answer *fetch.ResponsePartition, alone bool) ([]Record, error) {
	p.stable.Store(answer.LastStableOffset)
	stream, _ := answer.RecordSet.Records.(*protocol.RecordStream)
	began := p.position.Load()
	aborted := make(map[int64]bool)
	pending := answer.AbortedTransactions
	if stream != nil {
		for _, set := range stream.Records {
			base, producer, control := int64(-1), int64(-1), false
			switch b := set.(type) {
			case *protocol.RecordBatch:
				base, producer = b.BaseOffset, b.ProducerID
			case *protocol.ControlBatch:
				base, producer, control = b.BaseOffset, b.ProducerID, true
			}
			rest := pending[:0]
			for _, a := range pending {
				if a.FirstOffset <= base {
					aborted[a.ProducerID] = true
				} else {
					rest = append(rest, a)
				}
			}
			pending = rest
			var err error
			if records, err = p.readBatch(records, set, control, producer, aborted); err != nil {
				return records, err
			}
		}
	}
	// Compaction can leave a batch without records, which kafka-go shows as
	// nothing at all: step over it.
	if p.position.Load() > began || began >= answer.LastStableOffset {
		p.empty = 0
		return records, nil
	}
	if p.empty++; alone && p.empty > emptyAnswers {
		p.position.Store(began + 1)
	}
	return records, nil
}

func (p *partition) readBatch(records []Record, set protocol.RecordReader, control bool, producer int64, aborted map[int64]bool) ([]Record, error) {
	for {
		rec, err := set.ReadRecord()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		position := p.position.Load()
		if rec.Offset >= position {
			p.position.Store(rec.Offset + 1)
		}
		if control {
			marker, err := protocol.ReadControlRecord(rec)
			if err != nil {
				return records, err
			}
			if marker.Type == abortMarker {
				delete(aborted, producer)
			}
			continue
		}
		if rec.Offset < position || aborted[producer] {
			continue
		}
		out := Record{Topic: p.at.Topic, Partition: p.at.Partition, Offset: rec.Offset, Time: rec.Time}
		if out.Key, err = protocol.ReadAll(rec.Key); err != nil {
			return records, err
		}
		if out.Value, err = protocol.ReadAll(rec.Value); err != nil {
			return records, err
		}
		for _, h := range rec.Headers {
			out.Headers = append(out.Headers, Header(h))
		}
		records = append(records, out)
	}
}

const abortMarker = 0
