package ledger

import (
	"context"
	"fmt"

	"github.com/gvbll/gvbll/topics/kafka"
)

// log reads the records of one partition of a ledger topic, forwards.
type log struct {
	client *kafka.Client
	at     kafka.TopicPartition
	reader *kafka.Reader
	queue  []kafka.Record
}

// fromBeginning opens a log at its beginning, which must still be there.
const fromBeginning = -1

// openLog opens a log at the first record at or after the offset, or fromBeginning.
func openLog(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, offset int64) (log, error) {
	bounds, err := c.Offsets(ctx, at.Topic)
	if err != nil {
		return log{}, err
	}
	b, ok := bounds[at]
	switch {
	case !ok && len(bounds) > 0:
		return log{}, fmt.Errorf("ledger topic %s has %d partitions, and partition %d is needed", at.Topic, len(bounds), at.Partition)
	case !ok:
		return log{}, fmt.Errorf("ledger topic %s does not exist: restore it from a backup or a mirror", at.Topic)
	case offset == fromBeginning && b.First > 0:
		return log{}, fmt.Errorf("ledger topic %s begins at offset %d: its first records are gone, so nothing can be proved or replayed without a checkpoint of it: give --state-dir with one, and set retention.ms=-1, so that no more are lost", at.Topic, b.First)
	}
	return log{client: c, at: at, reader: c.NewReader(map[kafka.TopicPartition]int64{at: max(offset, b.First)}, kafka.ReaderConfig{})}, nil
}

// next returns the next committed record, nil if there is none yet.
func (l *log) next(ctx context.Context) (*kafka.Record, error) {
	for len(l.queue) == 0 {
		bounds, err := l.client.Offsets(ctx, l.at.Topic)
		if err != nil {
			return nil, err
		}
		if l.reader.Position(l.at) >= bounds[l.at].End {
			return nil, nil
		}
		if l.queue, err = l.reader.Poll(ctx); err != nil {
			return nil, err
		}
	}
	return l.pop(), nil
}

// wait is next, but waits briefly for a record before it returns nil.
func (l *log) wait(ctx context.Context) (*kafka.Record, error) {
	if len(l.queue) == 0 {
		var err error
		if l.queue, err = l.reader.Poll(ctx); err != nil || len(l.queue) == 0 {
			return nil, err
		}
	}
	return l.pop(), nil
}

func (l *log) pop() *kafka.Record {
	r := &l.queue[0]
	l.queue = l.queue[1:]
	return r
}
