package kafka

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Restore is the remedy when records are gone that are needed. Nothing is
// lost if they are in a backup or a mirror; what a rebase accepts as lost stands in the
// ledger.
const Restore = restore + " (with other offsets there: then 'gvbll rebase --restored'); without one, 'gvbll rebase " +
	"--accept-gap' goes on behind what is lost"

// restore is the remedy when a topic is not there.
const restore = "restore the topic from a backup or a mirror"

// OutOfRangeError reports that a needed offset is outside the partition's log:
// deleted already, or past the end of it.
type OutOfRangeError struct {
	At       TopicPartition
	Position int64
	Bounds   Bounds
}

// Error is one line.
func (e *OutOfRangeError) Error() string {
	why := "the log was truncated, or the topic was created anew: " + Restore
	if e.Position < e.Bounds.First {
		why = "records were deleted before they were read: set retention.ms=-1, and " + Restore
	}
	return fmt.Sprintf("%s partition %d has offsets %d to %d, but %d is needed: %s", e.At.Topic, e.At.Partition,
		e.Bounds.First, e.Bounds.End, e.Position, why)
}

// ReplacedError reports that a partition's log is not the one that was read
// before: the record that was read last is not in it.
type ReplacedError struct {
	At     TopicPartition
	Offset int64 // of the record that was read last
}

// Error is one line.
func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s partition %d no longer has the record that was read at offset %d: the topic was created "+
		"anew, or its log was rewritten: %s", e.At.Topic, e.At.Partition, e.Offset, Restore)
}

// permanentError returns the first partition's error that retrying cannot clear, or
// nil.
func (r *Reader) permanentError(ctx context.Context) error {
	// One answer is of all topics, however many partitions need it.
	ask := sync.OnceValues(func() (map[string]known, error) { return r.ask(ctx) })
	for _, p := range r.parts {
		if err := r.permanentErrorOf(ctx, p, ask); err != nil {
			return err
		}
	}
	return nil
}

// ask asks a broker about the topics. Thousands of readers do when one broker is away, and share the answers.
func (r *Reader) ask(ctx context.Context) (map[string]known, error) {
	ask := func(ctx context.Context) (map[string]known, error) { return r.client.transport.ask(ctx, r.topics...) }
	if r.client.shared == nil {
		return ask(ctx)
	}
	return r.client.shared.asked.get(ctx, r.topics, time.Time{}, ask)
}

// permanentErrorOf is permanentError of one partition. ask asks a broker about the topics.
func (r *Reader) permanentErrorOf(ctx context.Context, p *partition, ask func() (map[string]known, error)) error {
	limit := r.client.cfg.DialFor
	lasting := time.Since(p.failing) >= limit
	var replaced *ReplacedError
	switch {
	case p.isThrottled():
		return nil
	case p.err == nil:
		// A new leader may not yet know how far its log is committed.
		if end := p.high.Load(); end < 0 || end >= p.expected.Load() {
			p.short = time.Time{}
			return nil
		}
		if p.short.IsZero() {
			p.short = time.Now()
		}
		if time.Since(p.short) >= limit {
			return r.outOfRange(ctx, p, p.expected.Load()-1, true)
		}
		return nil
	case errors.As(p.err, &replaced):
		return p.err
	case errors.Is(p.err, kafkago.OffsetOutOfRange):
		return r.outOfRange(ctx, p, p.position.Load(), lasting)
	case denied(p.err) && !lasting && p.high.Load() >= 0: // it was allowed before
		return nil
	case !transient(p.err):
		return r.client.explainDenied(p.err, "Read", "topic "+p.at.Topic)
	case lasting && errors.Is(p.err, kafkago.OffsetNotAvailable) && p.unconfirmed:
		return &ReplacedError{At: p.at, Offset: p.last.Offset}
	case errors.Is(p.err, kafkago.LeaderNotAvailable), errors.Is(p.err, kafkago.UnknownTopicOrPartition):
		return r.absent(p, ask)
	}
	return nil
}

// leastAbsents is how many brokers must say that a partition does not exist.
const leastAbsents = 3

// absent returns an error if the partition does not exist. Metadata proves nothing: kafka-go
// keeps that of a broker that has ended, and a broker that has just started may not know
// its topics yet. So brokers are asked, which must have said so leastAbsents times, over
// DialFor, with no other answer or failure in between.
func (r *Reader) absent(p *partition, ask func() (map[string]known, error)) error {
	if p.absent.times > 0 && time.Since(p.absent.since) < r.client.cfg.DialFor*time.Duration(p.absent.times)/leastAbsents {
		return nil // not yet time to ask again
	}
	topics, err := ask()
	if t := topics[p.at.Topic]; err != nil || t.code != kafkago.UnknownTopicOrPartition &&
		(t.code != 0 || int(p.at.Partition) < t.partitions) {
		p.absent.times = 0
		return nil
	}
	if p.absent.times == 0 {
		p.absent.since = time.Now()
	}
	if p.absent.times++; p.absent.times <= leastAbsents {
		return nil
	}
	return fmt.Errorf("%s partition %d does not exist: %s (%w)", p.at.Topic, p.at.Partition, restore, kafkago.UnknownTopicOrPartition)
}

// outOfRange returns an OutOfRangeError if the log does not have the wanted
// offset. One before its beginning was deleted for good. One past its end may
// still be written, so that is an error only if it has lasted for DialFor.
func (r *Reader) outOfRange(ctx context.Context, p *partition, wanted int64, lasting bool) error {
	bounds, err := r.client.Offsets(ctx, p.at.Topic)
	b, ok := bounds[p.at]
	if err == nil && ok && (wanted < b.First || wanted >= b.End && lasting) {
		return &OutOfRangeError{At: p.at, Position: wanted, Bounds: b}
	}
	return nil
}

// Mark identifies a record by its offset and a hash of its contents, and the log in which it
// stands by the topic's id.
type Mark struct {
	Offset int64  `json:"offset"`
	Sum    uint64 `json:"sum,string"` // 0 means no record
	// Topic is the id of the topic, which changes when it is created anew; "" if it is not
	// known.
	Topic string `json:"topic_id,omitempty"`
}

// MarkOf returns the mark of a record, without the topic's id.
func MarkOf(r *Record) Mark {
	h := sha256.New()
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], uint64(r.Time.UnixMilli()))
	binary.BigEndian.PutUint64(b[8:], uint64(len(r.Key)))
	binary.BigEndian.PutUint64(b[16:], uint64(len(r.Value)))
	h.Write(b[:])
	h.Write(r.Key)
	h.Write(r.Value)
	return Mark{Offset: r.Offset, Sum: max(binary.BigEndian.Uint64(h.Sum(b[:0])), 1)}
}

// Has reports whether a partition's log has a record that was read before.
func (c *Client) Has(ctx context.Context, at TopicPartition, m Mark) (bool, error) {
	r := c.NewReader(map[TopicPartition]int64{at: m.Offset}, ReaderConfig{MaxBytes: 1})
	for r.Position(at) <= m.Offset {
		records, err := r.Poll(ctx)
		if err != nil {
			return false, err
		}
		if len(records) > 0 {
			return records[0].Offset == m.Offset && MarkOf(&records[0]).Sum == m.Sum, nil
		}
	}
	return false, nil
}

// confirm reads the last record again and compares it. If the log has another
// record at that offset, it is another log: a ReplacedError. If the record is
// gone but the log has later ones, retention or compaction may have deleted it;
// that is accepted if the topic still has its id or, where brokers have no ids, if the
// partition was not missing in between. That the topic still has its id is also enough
// between two answers of a leader that has throttled this client in between: what is read
// to confirm uses the quota up.
func (r *Reader) confirm(ctx context.Context, p *partition) error {
	if !p.unconfirmed && p.leader.until.After(p.times.answered) && p.last.Topic != "" && p.id != "" {
		if same, err := r.sameTopic(ctx, p); same || err != nil {
			return err
		}
	}
	probe := &partition{at: p.at, leader: p.leader, damaged: damage{p.last.Offset, repeated{time.Now().Add(-damagedFor), damagedTries}}}
	probe.position.Store(p.last.Offset)
	var s share
	var failed error
	err := r.request(ctx, []*partition{probe}, 0, 1, &s, func(_ *partition, a *kmsg.FetchResponseTopicPartition, _ bool) {
		if failed = errorOf(a); failed == nil {
			failed = probe.consume(&s, a, true)
			if failed == nil && len(s.records) == 0 {
				failed = probe.consume(&s, a, true) // its holes are believed: there was such a record
			}
		}
	})
	if err = cmp.Or(err, failed); err != nil && !errors.Is(err, kafkago.OffsetOutOfRange) {
		return err
	}
	first := int64(-1) // first offset at or behind the last record's, -1 if none
	if len(s.records) > 0 {
		first = s.records[0].Offset
	} else if err != nil {
		bounds, err := r.client.Offsets(ctx, p.at.Topic)
		if err != nil {
			return err
		}
		if b := bounds[p.at]; b.First > p.last.Offset {
			first = b.First
		}
	}
	switch {
	case first == p.last.Offset:
		if MarkOf(&s.records[0]).Sum == p.last.Sum {
			p.last.Topic = p.id // another one, if the topic was restored
			return nil
		}
	case max(first, probe.stable.Load()) > p.last.Offset:
		same, err := r.sameTopic(ctx, p)
		if same || err != nil {
			return err
		}
	case first < 0 && probe.high.Load() > p.last.Offset:
		return fmt.Errorf("%s partition %d, offset %d, which was read before, is behind a transaction that has not ended",
			p.at.Topic, p.at.Partition, p.last.Offset)
	case first < 0:
		// The log ends before it, for now.
		return fmt.Errorf("%s partition %d, offset %d, which was read before: %w", p.at.Topic, p.at.Partition,
			p.last.Offset, kafkago.OffsetNotAvailable)
	}
	return &ReplacedError{At: p.at, Offset: p.last.Offset}
}

// sameTopic reports whether a topic without the record that was read last is still the one
// that had it.
func (r *Reader) sameTopic(ctx context.Context, p *partition) (bool, error) {
	if p.last.Topic == "" || p.id == "" {
		return !p.missing, nil
	}
	ids, err := r.client.topicIDs(ctx, []string{p.at.Topic})
	return ids[p.at.Topic] == p.last.Topic, err
}
