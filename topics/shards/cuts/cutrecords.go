package cuts

import (
	"context"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// OpenRecords opens the cuts of a graph of several shards at their beginning, which must still be there, as
// records: a window that is cut is in the ledger, whatever the shards have made of it by then. Such a
// record has what the cut determines, and was stepped when the cut was written.
func OpenRecords(ctx context.Context, c *kafka.Client, at kafka.TopicPartition) (ledger.Records, error) {
	cuts, err := OpenCuts(ctx, c, at, Place{})
	return cutRecords{cuts}, err
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
