package cuts

import (
	"context"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// CauseLearned is the cause of records in partition 0 of a sharded graph's ledger, among the
// cuts: each says what the trainer has learned from a window's labels, and how good the
// predictions were that they are of. They are for people. Nothing is replayed from them, and
// readers of cuts skip them.
//
// A trainer writes the record before it sends the heads. One that is lost in between leaves it
// to its successor, so a window may have several, which say the same.
const CauseLearned = "learned"

// ScanLearned calls f with what was learned of each window, in order, up to the present end of
// the ledger or until f returns false. It begins with the first record that is not older than
// the time.
func ScanLearned(ctx context.Context, c *kafka.Client, cuts kafka.TopicPartition, since time.Time, f func(*ledger.Record) bool) error {
	offsets, err := c.OffsetsAt(ctx, cuts.Topic, since)
	if err != nil {
		return err
	}
	bounds, err := c.Offsets(ctx, cuts.Topic)
	if err != nil {
		return err
	}
	next := int64(0)
	return c.ReadTo(ctx, map[kafka.TopicPartition]int64{cuts: offsets[cuts]}, bounds, func(raw *kafka.Record) bool {
		r, err := decodeLearned(raw.Value)
		if err != nil || r.Window < next {
			return true
		}
		next, r.Stepped = r.Window+1, raw.Time
		return f(r)
	})
}

// decodeLearned reads a record of what was learned; it fails for all others.
func decodeLearned(b []byte) (*ledger.Record, error) {
	r, err := ledger.Decode(b)
	if err == nil && r.Cause != CauseLearned {
		err = fmt.Errorf("it is a record of a window that was cut by %.80q", r.Cause)
	}
	return r, err
}
