package kafka

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// ReaderConfig bounds a reader's fetches. Zero fields have defaults.
type ReaderConfig struct {
	// MaxWait is how long Fill waits for records. Zero means 250 ms.
	MaxWait time.Duration
	// MaxBytes bounds one broker's answer; a single batch may exceed it. Zero
	// means 4 MiB.
	MaxBytes int
	// Patient says that Fill may take longer than MaxWait where readers share requests.
	Patient bool
}

// Reader reads the committed records of explicitly assigned partitions, by
// offset and outside of any consumer group. One goroutine may use it; Position,
// End, Quiet, Expect and Pause may be called from others.
type Reader struct {
	client    *Client
	cfg       ReaderConfig
	parts     []*partition // in the order in which a fetch lists them, see fetch
	mu        sync.RWMutex // guards index
	index     map[TopicPartition]*partition
	topics    []string
	pace      pace
	forgotten time.Time // leaders of before are not believed any more
	failed    error     // for the next Fill, because the last one had records to return
	refused   refusals
}

// NewReader starts at the given offsets.
func (c *Client) NewReader(start map[TopicPartition]int64, cfg ReaderConfig) *Reader {
	cfg.MaxWait = cmp.Or(cfg.MaxWait, 250*time.Millisecond)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 4<<20)
	r := &Reader{client: c, cfg: cfg, index: make(map[TopicPartition]*partition), pace: pace{client: c}}
	for at, offset := range start {
		r.Add(at, offset)
	}
	slices.SortFunc(r.parts, func(a, b *partition) int { return a.at.Compare(b.at) })
	return r
}

// Add assigns one more partition, from the given offset on. The reader must not
// have it already.
func (r *Reader) Add(at TopicPartition, offset int64) {
	p := &partition{at: at}
	p.position.Store(offset)
	p.high.Store(-1)
	p.stable.Store(-1)
	r.parts = append(r.parts, p)
	r.mu.Lock()
	r.index[at] = p
	r.mu.Unlock()
	if !slices.Contains(r.topics, at.Topic) {
		r.topics = append(r.topics, at.Topic)
	}
	r.forgotten = time.Now()
}

// Believe tells a reader, before its first Fill, the id of the partition's topic, "" if it is
// not known, and a record that was read of the partition earlier. Unless the log still has
// that record, or has deleted it and is still the topic's that the mark names, Fill
// returns a ReplacedError instead of any record.
func (r *Reader) Believe(at TopicPartition, id string, last Mark) {
	p := r.of(at)
	p.id, p.last, p.unconfirmed = id, last, true
}

func (r *Reader) of(at TopicPartition) *partition {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index[at]
}

// Position returns the next offset to read. It is past all markers and aborted
// records that were skipped.
func (r *Reader) Position(at TopicPartition) int64 { return r.of(at).position.Load() }

// End returns the last stable offset of the newest answer, -1 before the first: all
// committed records of that time have lower offsets.
func (r *Reader) End(at TopicPartition) int64 { return r.of(at).stable.Load() }

// Withheld returns the number of offsets behind the last stable one in the newest answer:
// records of transactions that are open, and those behind them.
func (r *Reader) Withheld(at TopicPartition) int64 {
	p := r.of(at)
	return max(p.high.Load()-p.stable.Load(), 0)
}

// Quiet returns for how long the partition has answered without a committed
// record. It does not grow while the partition is not asked or does not answer,
// so a broker that is away does not make its partitions look quiet.
func (r *Reader) Quiet(at TopicPartition) time.Duration { return time.Duration(r.of(at).quiet.Load()) }

// Expect tells the reader that the partition's log is known to have reached the
// offset. If the log has ended before it for Config.DialFor, Fill returns an
// OutOfRangeError.
func (r *Reader) Expect(at TopicPartition, offset int64) { r.of(at).expected.Store(offset) }

// Pause says whether to leave out the partition from the next requests, until it is
// called again: what a partition brings faster than it is needed would have to be held.
// At least one partition must not be paused.
func (r *Reader) Pause(at TopicPartition, paused bool) { r.of(at).paused.Store(paused) }

// Limit bounds one broker's answers to later Fills, as ReaderConfig.MaxBytes does.
func (r *Reader) Limit(bytes int) { r.cfg.MaxBytes = bytes }

// Answer holds the records of one Fill, and the memory that they point into.
type Answer struct {
	Records []Record
	shares  []share // one for each leader that was asked
}

// share is the part of an Answer that one leader sent. Its records point into wire and, if
// they were compressed, into bytes.
type share struct {
	records  []Record
	batches  []storedBatch // of the partition that was read last
	wire     []byte        // the leader's answer
	bytes    []byte        // what was unpacked last
	unpacked int           // bytes that were unpacked in all
}

func (s *share) reset() { s.records, s.bytes, s.unpacked = s.records[:0], s.bytes[:0], 0 }

// Poll is Fill with newly allocated memory: the records stay valid.
func (r *Reader) Poll(ctx context.Context) ([]Record, error) {
	var a Answer
	err := r.Fill(ctx, &a)
	return a.Records, err
}

// Fill waits for committed records, for MaxWait at most, and puts them into a,
// ordered by offset within each partition. It may return without records and
// without an error, for example after reading markers and aborted records only;
// the positions are then past these.
//
// Moved leaders, brokers that are down and requests that time out are retried
// until the context ends. After such a failure the log must still have the record
// that was read last; otherwise the error is a ReplacedError. A topic that is missing, or
// an offset past the end of the log, is an error once brokers have said so for
// Config.DialFor.
//
// A batch that cannot be read gives one record, see [Record].
//
// The records are valid until a is filled again. An error does not move the
// positions.
func (r *Reader) Fill(ctx context.Context, a *Answer) error {
	a.Records = a.Records[:0]
	if err := r.failed; err != nil {
		r.failed = nil
		return err
	}
	began := time.Now()
	r.pace.ask()
	for {
		err := r.fetch(ctx, a)
		if err == nil {
			r.pace.end()
		}
		if ctx.Err() != nil && len(a.Records) == 0 {
			r.pace.leave()
			return ctx.Err()
		}
		permanent := r.permanentError(ctx)
		switch {
		case len(a.Records) > 0:
			// The error of one partition is not lost while others have records.
			r.failed = permanent
			if err != nil {
				r.pace.fail(err)
			}
			return nil
		case permanent != nil:
			r.pace.end()
			return permanent
		case err != nil:
			r.pace.pause(ctx, err)
		case r.advanced() || time.Since(began) >= r.cfg.MaxWait:
			return nil
		}
	}
}

// advanced reports whether the last fetch moved any position.
func (r *Reader) advanced() bool {
	return slices.ContainsFunc(r.parts, func(p *partition) bool { return p.advanced > 0 })
}

// ReadAll calls each for every committed record that the topic holds now,
// ordered by offset within each partition. A topic that does not exist has none.
func (c *Client) ReadAll(ctx context.Context, topic string, each func(*Record)) error {
	bounds, err := c.Offsets(ctx, topic)
	if err != nil {
		return err
	}
	return c.ReadTo(ctx, Firsts(bounds), bounds, func(r *Record) bool {
		each(r)
		return true
	})
}

// Firsts returns the first offsets of partitions.
func Firsts(bounds map[TopicPartition]Bounds) map[TopicPartition]int64 {
	firsts := make(map[TopicPartition]int64)
	for at, b := range bounds {
		firsts[at] = b.First
	}
	return firsts
}

// ReadTo calls each for the committed records from the offsets on, up to the ends in bounds or until
// it returns false, ordered by offset within each partition.
func (c *Client) ReadTo(ctx context.Context, from map[TopicPartition]int64, bounds map[TopicPartition]Bounds,
	each func(*Record) bool,
) error {
	r := c.NewReader(from, ReaderConfig{})
	for at := range from {
		for r.Position(at) < bounds[at].End {
			records, err := r.Poll(ctx)
			if err != nil {
				return err
			}
			for i := range records {
				if x := &records[i]; x.Offset < bounds[TopicPartition{x.Topic, x.Partition}].End && !each(x) {
					return nil
				}
			}
		}
	}
	return nil
}
