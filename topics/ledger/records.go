package ledger

import (
	"context"

	"github.com/gvbll/gvbll/topics/kafka"
)

// Records reads what is in each window of a ledger, forwards from its beginning.
type Records interface {
	// Next returns the record of the next window, nil if there is none yet.
	Next(ctx context.Context) (*Record, error)
}

// OpenRecords opens a ledger at its beginning, which must still be there. Of a graph of several
// shards it reads the cuts, in partition at of the lead: a window that is cut is in the ledger,
// whatever the shards have made of it by then. Such a record has what the cut determines, and
// was stepped when the cut was written.
func OpenRecords(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, shards int) (Records, error) {
	if shards == 0 {
		return Open(ctx, c, at)
	}
	cuts, err := OpenCuts(ctx, c, at, Place{})
	if err != nil {
		return nil, err
	}
	return cutRecords{cuts}, nil
}

// cutRecords returns cuts as records.
type cutRecords struct{ cuts *Cuts }

func (c cutRecords) Next(ctx context.Context) (*Record, error) {
	cut, err := c.cuts.Next(ctx)
	if cut == nil || err != nil {
		return nil, err
	}
	r := cut.Record()
	r.Stepped = cut.Written
	return r, nil
}
