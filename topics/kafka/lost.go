package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// restore is the remedy when records of a topic are gone. Nothing is lost if they are
// in a backup or a mirror. A new prefix begins an empty graph.
const restore = "restore the topic from a backup or a mirror; without one, start under a new prefix and send the inputs again"

// OutOfRangeError reports that a needed offset is outside the partition's log:
// deleted already, or past the end of it.
type OutOfRangeError struct {
	At       TopicPartition
	Position int64
	Bounds   Bounds
}

// Error is one line.
func (e *OutOfRangeError) Error() string {
	why := "the log was truncated, or the topic was created anew: " + restore
	if e.Position < e.Bounds.First {
		why = "records were deleted before they were read: set retention.ms=-1, and " + restore
	}
	return fmt.Sprintf("%s partition %d has offsets %d to %d, but %d is needed: %s", e.At.Topic, e.At.Partition, e.Bounds.First, e.Bounds.End, e.Position, why)
}

// ReplacedError reports that a partition's log is not the one that was read
// before: the record that was read last is not in it.
type ReplacedError struct {
	At     TopicPartition
	Offset int64 // of the record that was read last
}

// Error is one line.
func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s partition %d no longer has the record that was read at offset %d: the topic was created anew, or its log was rewritten: %s", e.At.Topic, e.At.Partition, e.Offset, restore)
}

// permanentError returns the first partition's error that retrying cannot clear, or
// nil.
func (r *Reader) permanentError(ctx context.Context) error {
	for _, p := range r.parts {
		if err := r.permanentErrorOf(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) permanentErrorOf(ctx context.Context, p *partition) error {
	limit := r.client.cfg.DialFor
	lasting := time.Since(p.failing) >= limit
	var replaced *ReplacedError
	switch {
	case p.err == nil:
		// A new leader may not yet know how far its log is committed.
		if end := p.stable.Load(); end < 0 || end >= p.expected.Load() {
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
	case !transient(p.err):
		return p.err
	case lasting && errors.Is(p.err, kafkago.OffsetNotAvailable) && p.unconfirmed:
		return &ReplacedError{At: p.at, Offset: p.last.offset}
	case lasting && errors.Is(p.err, kafkago.LeaderNotAvailable):
		// The partition has no leader, or it no longer exists.
		counts, err := r.client.Partitions(ctx, p.at.Topic)
		if n, ok := counts[p.at.Topic]; err != nil || ok && int(p.at.Partition) < n {
			return nil
		}
		return absent(p.at)
	case lasting && errors.Is(p.err, kafkago.UnknownTopicOrPartition):
		return absent(p.at)
	}
	return nil
}

func absent(at TopicPartition) error {
	return fmt.Errorf("%s partition %d does not exist: %s (%w)", at.Topic, at.Partition, restore, kafkago.UnknownTopicOrPartition)
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

// mark identifies a record by its offset and a hash of its contents.
type mark struct {
	offset int64
	sum    uint64 // 0 means no record
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

// confirm reads the last record again and compares it. If the log has another
// record at that offset, it is another log: a ReplacedError. If the record is
// gone but the log has later ones, retention or compaction may have deleted it;
// that is accepted unless the partition was missing in between.
func (r *Reader) confirm(ctx context.Context, p *partition) error {
	probe := &partition{at: p.at}
	probe.position.Store(p.last.offset)
	var s share
	var failed error
	err := r.request(ctx, []*partition{probe}, 0, 1, func(_ *partition, answer *fetch.ResponsePartition) {
		if failed = errorOf(answer); failed == nil {
			failed = probe.consume(&s, answer, true)
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
		return fmt.Errorf("%s partition %d, offset %d, which was read before: %w", p.at.Topic, p.at.Partition, p.last.offset, kafkago.OffsetNotAvailable)
	}
	return &ReplacedError{At: p.at, Offset: p.last.offset}
}
