package cuts

import (
	"context"

	"github.com/gvbll/gvbll/topics/kafka"
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
	from := map[kafka.TopicPartition]int64{at: max(b.End-end, b.First)}
	length, taken, most := map[string]int{}, map[string]bool{}, 0
	err = c.ReadTo(ctx, from, bounds, func(raw *kafka.Record) bool {
		cut, err := DecodeCut(raw.Value)
		if err != nil || taken[cut.Prev] {
			return true
		}
		taken[cut.Prev] = true
		cut.Written = raw.Time
		length[cut.Hash] = length[cut.Prev] + 1
		if length[cut.Hash] > most {
			newest, most = cut, length[cut.Hash]
		}
		return true
	})
	return newest, err
}
