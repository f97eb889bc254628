package cuts

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Done follows how far each shard is done, by the records in the ledger's partitions 1 to P.
// One goroutine calls Wait; the other methods may be called from any.
type Done struct {
	reader *kafka.Reader
	topic  string

	mu       sync.Mutex
	last     []int64        // window of the last record of each shard, -1 for none
	chains   [][]event.Hash // of each shard, of the windows behind complete
	complete int64          // the last window that is done by all, -1 for none
	chain    event.Hash     // of the graph after it
}

// maxApart is how many windows one shard may be ahead of another before its partition is no
// longer read: that happens where a long ledger is read from its beginning.
const maxApart = 1 << 12

// OpenDone follows P shards from behind a window that is complete, nil for the beginning.
func OpenDone(ctx context.Context, c *kafka.Client, topic string, shards int, behind *Complete) (*Done, error) {
	d := &Done{topic: topic, last: slices.Repeat([]int64{-1}, shards), chains: make([][]event.Hash, shards), complete: -1}
	start := make(map[kafka.TopicPartition]int64)
	bounds, err := c.Offsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	if len(bounds) != shards+1 {
		return nil, fmt.Errorf("ledger topic %s has %d partitions, and %d shards need %d", topic, len(bounds), shards, shards+1)
	}
	if behind != nil {
		d.complete = behind.Window
		if d.chain, err = parseHash(behind.Chain); err != nil {
			return nil, fmt.Errorf("ledger topic %s: the chain of window %d: %w", topic, behind.Window, err)
		}
	}
	for shard := range shards {
		at := kafka.TopicPartition{Topic: topic, Partition: int32(shard + 1)}
		d.last[shard] = d.complete
		if start[at], err = behindWindow(ctx, c, at, bounds[at], d.complete); err != nil {
			return nil, err
		}
	}
	d.reader = c.NewReader(start, kafka.ReaderConfig{})
	return d, nil
}

// behindWindow returns an offset of the partition's log: all records of windows behind the
// given one are at it or behind it, and few others.
func behindWindow(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, b kafka.Bounds, window int64) (int64, error) {
	for back := int64(64); ; back *= 8 {
		from := max(b.End-back, b.First)
		l, err := ledger.OpenAt(ctx, c, at, from)
		if err != nil {
			return 0, err
		}
		r, err := l.Next(ctx)
		if err != nil {
			return 0, err
		}
		if r != nil && r.Window <= window+1 || from == b.First {
			return from, nil
		}
	}
}

// Wait reads what the shards have written since, for which it waits briefly.
func (d *Done) Wait(ctx context.Context) error {
	records, err := d.reader.Poll(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range records {
		raw := &records[i]
		if err := d.add(int(raw.Partition)-1, raw.Value); err != nil {
			return fmt.Errorf("%s partition %d offset %d: %w", raw.Topic, raw.Partition, raw.Offset, err)
		}
	}
	d.join()
	slowest := slices.Min(d.last)
	for shard, last := range d.last {
		d.reader.Pause(kafka.TopicPartition{Topic: d.topic, Partition: int32(shard + 1)}, last-slowest > maxApart)
	}
	return nil
}

// add adds a record of a shard.
func (d *Done) add(shard int, value []byte) error {
	r, err := ledger.Decode(value)
	if err != nil {
		return err
	}
	if r.Window <= d.last[shard] && len(d.chains[shard]) == 0 {
		return nil // not behind the complete window
	}
	if r.Window != d.last[shard]+1 {
		return fmt.Errorf("window %d follows window %d: the ledger is not continuous", r.Window, d.last[shard])
	}
	chain, err := parseHash(r.Chain)
	if err != nil {
		return fmt.Errorf("the chain of window %d: %w", r.Window, err)
	}
	d.last[shard] = r.Window
	d.chains[shard] = append(d.chains[shard], chain)
	return nil
}

// join completes the windows that all shards are done with.
func (d *Done) join() {
	n := int(slices.Min(d.last) - d.complete)
	chains := make([]event.Hash, len(d.chains))
	for i := range n {
		for shard := range chains {
			chains[shard] = d.chains[shard][i]
		}
		d.chain = d.chain.Join(chains)
	}
	for shard := range d.chains {
		d.chains[shard] = slices.Delete(d.chains[shard], 0, n)
	}
	d.complete += int64(n)
}

// Last returns the last window that each shard is done with, -1 for none.
func (d *Done) Last() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.last)
}

// Complete returns the last window that all shards are done with, nil for none.
func (d *Done) Complete() *Complete {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.complete < 0 {
		return nil
	}
	return &Complete{d.complete, d.chain.Hex()}
}

// parseHash reads a SHA-256 in hexadecimal digits.
func parseHash(s string) (h event.Hash, err error) {
	if !isHash(s) {
		return h, fmt.Errorf("%.80q is not a SHA-256", s)
	}
	_, err = hex.Decode(h[:], []byte(s))
	return h, err
}
