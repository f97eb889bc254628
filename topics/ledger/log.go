package ledger

import (
	"context"
	"fmt"

	"github.com/gvbll/gvbll/topics/kafka"
)

// Log reads the records of one partition of a ledger topic, forwards.
type Log struct {
	Client *kafka.Client
	At     kafka.TopicPartition
	reader *kafka.Reader
	queue  []kafka.Record
}

// FromBeginning opens a log at its beginning, which must still be there.
const FromBeginning = -1

// OpenLog opens a log at the first record at or after the offset, or [FromBeginning].
func OpenLog(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, offset int64) (Log, error) {
	bounds, err := c.Offsets(ctx, at.Topic)
	if err != nil {
		return Log{}, err
	}
	b, ok := bounds[at]
	switch {
	case !ok && len(bounds) > 0:
		return Log{}, fmt.Errorf("ledger topic %s has %d partitions, and partition %d is needed", at.Topic, len(bounds), at.Partition)
	case !ok:
		return Log{}, fmt.Errorf("ledger topic %s does not exist: restore it from a backup or a mirror", at.Topic)
	case offset == FromBeginning && b.First > 0:
		return Log{}, fmt.Errorf("ledger topic %s begins at offset %d: its first records are gone, so nothing can be proved or replayed without a checkpoint of it: give --state-dir with one, and set retention.ms=-1, so that no more are lost", at.Topic, b.First)
	}
	return Log{Client: c, At: at, reader: c.NewReader(map[kafka.TopicPartition]int64{at: min(max(offset, b.First), b.End)}, kafka.ReaderConfig{})}, nil
}

// Next returns the next committed record, nil if there is none yet. It is a
// [kafka.OutOfRangeError] if the log ends before what was read of it, and has done so for a while.
func (l *Log) Next(ctx context.Context) (*kafka.Record, error) {
	for len(l.queue) == 0 {
		bounds, err := l.Client.Offsets(ctx, l.At.Topic)
		if err != nil {
			return nil, err
		}
		if l.reader.Position(l.At) == bounds[l.At].End {
			return nil, nil
		}
		if l.queue, err = l.reader.Poll(ctx); err != nil {
			return nil, err
		}
	}
	return l.pop(), nil
}

// Wait is Next, but waits briefly for a record before it returns nil.
func (l *Log) Wait(ctx context.Context) (*kafka.Record, error) {
	if len(l.queue) == 0 {
		var err error
		if l.queue, err = l.reader.Poll(ctx); err != nil || len(l.queue) == 0 {
			return nil, err
		}
	}
	return l.pop(), nil
}

func (l *Log) pop() *kafka.Record {
	r := &l.queue[0]
	l.queue = l.queue[1:]
	return r
}
