package cuts

import (
	"context"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// NewestCut returns the last cut that readers take from the ledger's partition of task 0,
// nil if there is none. It reads the end of the log, where the cut before the first may be
// gone: so it takes the end of the longest chain.
func NewestCut(ctx context.Context, c *kafka.Client, at kafka.TopicPartition) (newest *Cut, err error) {
	bounds, err := c.Offsets(ctx, at.Topic)
	if err != nil {
		return nil, err
	}
	const end = 256 // records
	b := bounds[at]
	l, err := ledger.OpenLog(ctx, c, at, max(b.End-end, b.First))
	if err != nil {
		return nil, err
	}
	length, taken, most := map[string]int{}, map[string]bool{}, 0
	for {
		raw, err := l.Next(ctx)
		if raw == nil || err != nil {
			return newest, err
		}
		cut, err := DecodeCut(raw.Value)
		if err != nil || taken[cut.Prev] {
			continue
		}
		taken[cut.Prev] = true
		cut.Written = raw.Time
		length[cut.Hash] = length[cut.Prev] + 1
		if length[cut.Hash] > most {
			newest, most = cut, length[cut.Hash]
		}
	}
}
