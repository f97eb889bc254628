package intake

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Replay waits until all records of the ranges are fetched, and claims them. The
// ranges are of this topic, those of one partition together and ascending.
func (in *input[E]) Replay(ctx context.Context, ranges []ledger.Range) error {
	in.store.claimed = in.store.claimed[:0]
	if in.fetcher.source.acceptGap {
		ranges = in.store.present(ranges)
	}
	for len(ranges) > 0 {
		n := 1
		for n < len(ranges) && ranges[n].Partition == ranges[0].Partition {
			n++
		}
		b, err := in.await(ctx, ranges[:n])
		if err != nil {
			return err
		}
		// In nearly all windows of a partition there is one range, at the front of the
		// buffer.
		if to := ranges[0].To; n == 1 && (len(b.chunks) == 0 || b.chunks[0].first() >= ranges[0].From) && len(b.beyond) == 0 {
			for len(b.chunks) > 0 {
				c := &b.chunks[0]
				n := sort.Search(c.to-c.from, func(i int) bool { return c.records()[i].Offset >= to })
				if n == 0 {
					break
				}
				in.store.claimFront(b, c.from+n)
			}
			b.consumed = to
		} else {
			in.store.claimRanges(b, ranges[:n])
		}
		ranges = ranges[n:]
	}
	in.store.sortClaimed()
	in.noteTimes()
	return nil
}

// await waits until all records of one partition's ranges are fetched. None of them
// may be consumed already.
func (in *input[E]) await(ctx context.Context, ranges []ledger.Range) (*buffer[E], error) {
	at := kafka.TopicPartition{Topic: in.store.topic, Partition: ranges[0].Partition}
	b := in.store.buffer(at.Partition)
	if b == nil {
		if in.fetcher.reader == nil {
			return nil, fmt.Errorf("the ledger names topic %s, which does not exist: restore it from a backup or a mirror", in.store.topic)
		}
		if err := in.fetcher.find(ctx, at); err != nil {
			return nil, err
		}
		b = newBuffer[E](at.Partition, 0) // until Add has created the real one
	}
	before := int64(0)
	for _, g := range ranges {
		switch {
		case g.From < b.first:
			return nil, &GoneError{Range: g, First: b.first}
		case g.From < before || g.From < b.consumed || slices.ContainsFunc(b.beyond,
			func(s span) bool { return s.from < g.To && g.From < s.to }):
			return nil, fmt.Errorf("the ledger names offsets %d to %d of %s partition %d twice: no worker writes "+
				"such a record", g.From, g.To, in.store.topic, g.Partition)
		}
		before = g.To
	}
	for asked := false; b.fetched < before; {
		in.pauseAhead(at.Partition)
		if !asked && in.store.buffer(at.Partition) != nil {
			in.fetcher.reader.Expect(at, before)
			asked = true
		}
		select {
		case f := <-in.fetcher.decoded:
			if err := in.Add(f, time.Now()); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if found := in.store.buffer(at.Partition); found != nil {
			b = found
		}
	}
	return b, nil
}

// pauseAhead bounds what a replay holds, though it cannot stop fetching as long as a record
// is missing: while the bounds are exceeded, partitions of which records are held already
// are not asked for more, except the one that is needed now.
func (in *input[E]) pauseAhead(needed int32) {
	full := in.full()
	for _, b := range in.store.buffers {
		at := kafka.TopicPartition{Topic: in.store.topic, Partition: b.partition}
		in.fetcher.reader.Pause(at, full && len(b.chunks) > 0 && b.partition != needed)
	}
}

// resume ends the pauses of a replay. From here on, Ready stops fetching.
func (in *input[E]) resume() {
	for _, b := range in.store.buffers {
		in.fetcher.reader.Pause(kafka.TopicPartition{Topic: in.store.topic, Partition: b.partition}, false)
	}
}

// find waits a few seconds for a partition that the ledger names and that did not exist when
// the input was opened, and makes the fetching goroutine look for it.
func (r *fetcher[E]) find(ctx context.Context, at kafka.TopicPartition) error {
	const tries, pause = 30, 100 * time.Millisecond
	for range tries {
		counts, err := r.client.Partitions(ctx, at.Topic)
		if err != nil {
			return err
		}
		if int(at.Partition-r.source.cell) < counts[at.Topic] {
			select {
			case r.look <- struct{}{}:
			default:
			}
			return nil
		}
		if err := kafka.Sleep(ctx, pause); err != nil {
			return err
		}
	}
	return fmt.Errorf("the ledger names %s partition %d, which does not exist: the topic was created anew; restore it "+
		"with the records that it had", at.Topic, at.Partition)
}

// claimRanges claims exactly the records in the ranges, which must be ascending and of
// one partition.
func (st *store[E]) claimRanges(b *buffer[E], ranges []ledger.Range) {
	st.claimWhere(b, func(c *chunk[E]) portion {
		first, end := c.first(), c.end()
		for len(ranges) > 0 && ranges[0].To <= first {
			ranges = ranges[1:]
		}
		switch {
		case len(ranges) == 0 || ranges[0].From >= end:
			return claimNone
		case ranges[0].From <= first && ranges[0].To >= end:
			return claimWhole
		}
		return claimPart
	}, func(c *chunk[E], i int) bool {
		offset := c.block.answer.Records[i].Offset
		for len(ranges) > 0 && ranges[0].To <= offset {
			ranges = ranges[1:]
		}
		return len(ranges) > 0 && ranges[0].From <= offset
	}, nil, math.MaxInt)
}
