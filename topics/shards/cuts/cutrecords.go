package cuts

import (
	"context"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// OpenRecords opens a ledger at its beginning, which must still be there. Of a graph of several
// shards it reads the cuts, in the partition at, the sequencer's: a window that is cut is in the ledger,
// whatever the shards have made of it by then. Such a record has what the cut determines, and
// was stepped when the cut was written.
func OpenRecords(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, shards int) (ledger.Records, error) {
	if shards == 0 {
		return ledger.Open(ctx, c, at)
	}
	cuts, err := OpenCuts(ctx, c, at, Place{})
	if err != nil {
		return nil, err
	}
	return cutRecords{cuts}, nil
}

// cutRecords returns cuts as records.
type cutRecords struct{ cuts *Cuts }

func (c cutRecords) Next(ctx context.Context) (*ledger.Record, error) {
	cut, err := c.cuts.Next(ctx)
	if cut == nil || err != nil {
		return nil, err
	}
	r := cut.Record()
	r.Stepped = cut.Written
	return r, nil
}
