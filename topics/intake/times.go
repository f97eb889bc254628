package intake

import (
	"math"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// earliest bounds event times from below, in milliseconds, so that their sums with
// any duration stay in range.
const earliest = -1 << 60

type timeRange struct {
	low, high int64 // noTime for both when no record has one
	untimed   bool  // a record has none
}

// timeChunk decides which event times of a chunk are usable. One more than in.ahead
// after the clock is not: a single such record could close all windows for years. Nor
// is one before closed, which is too late for its window. Both kinds are counted.
func (in *input[E]) timeChunk(p *buffer[E], c *chunk[E], now time.Time, closed int64) {
	b := c.block
	if len(b.times) != len(b.events) {
		b.times = resize(b.times, len(b.events))
	}
	limit := now.Add(in.fetcher.source.ahead).UnixMilli()
	for i := c.from; i < c.to; i++ {
		b.times[i] = noTime
		t := in.timeOf(b, i)
		switch {
		case t == noTime:
		case t > limit:
			in.early++
		case closed != 0 && t < closed:
			in.late++
			p.latest = max(p.latest, t)
		default:
			b.times[i] = t
			p.latest = max(p.latest, t)
		}
	}
	c.timed = true
	c.measure()
}

func (in *input[E]) timeOf(b *block[E], i int) int64 {
	if b.refused[i].reason != "" {
		return noTime
	}
	if t := in.fetcher.source.time(&b.events[i]); t != 0 && t >= earliest {
		return t
	}
	return noTime
}

func (c *chunk[E]) measure() {
	x := timeRange{low: math.MaxInt64, high: noTime}
	for _, t := range c.block.times[c.from:c.to] {
		if t == noTime {
			x.untimed = true
			continue
		}
		x.low, x.high = min(x.low, t), max(x.high, t)
	}
	if x.high == noTime {
		x.low = noTime
	}
	c.times = x
}

// noteTimes advances the event time of partitions by the claimed records of a replay.
func (in *input[E]) noteTimes() {
	limit := time.Now().Add(in.fetcher.source.ahead).UnixMilli()
	var b *buffer[E]
	for _, c := range in.store.claimed {
		if b == nil || b.partition != c.partition() {
			b = in.store.buffer(c.partition())
		}
		for i := c.from; i < c.to; i++ {
			if t := in.timeOf(c.block, i); t <= limit {
				b.latest = max(b.latest, t)
			}
		}
	}
}

// addTimes adds the event times of the held records to t.
func (in *input[E]) addTimes(t *times, now time.Time, closed int64) {
	t.Full = t.Full || in.full()
	for _, b := range in.store.buffers {
		for i := range b.chunks {
			c := &b.chunks[i]
			if !c.timed {
				in.timeChunk(b, c, now, closed)
			}
			if low := c.times.low; low != noTime && (t.Oldest == noTime || low < t.Oldest) {
				t.Oldest = low
			}
			if c.times.untimed {
				t.Untimed, t.Waited = true, max(t.Waited, now.Sub(c.at))
			}
		}
	}
	in.addProgress(t)
}

// addProgress adds the progress of event time in each partition to t.
func (in *input[E]) addProgress(t *times) {
	for _, b := range in.store.buffers {
		t.Partitions = append(t.Partitions, Progress{Latest: b.latest, Quiet: in.fetcher.quietFor(b)})
	}
}

// quietFor returns how long a partition has been quiet. While blocks are in flight it
// is the value from when the last added block was fetched: otherwise a partition would
// count as idle although its events wait for the loop.
func (r *fetcher[E]) quietFor(b *buffer[E]) time.Duration {
	if r.inFlight.Load() > 0 {
		return b.quiet
	}
	return r.reader.Quiet(kafka.TopicPartition{Topic: r.source.topic, Partition: b.partition})
}

// claimBefore claims the records with a usable event time before the given one and
// those without a usable time, and appends their ranges.
func (st *store[E]) claimBefore(before int64, ranges []ledger.Range) []ledger.Range {
	st.claimed = st.claimed[:0]
	limit := len(ranges) + maxRanges
	for _, b := range st.buffers {
		if len(b.chunks) == 0 {
			continue
		}
		ranges = st.claimWhere(b, func(c *chunk[E]) portion {
			switch {
			case !c.timed, !c.times.untimed && c.times.low >= before:
				return claimNone
			case c.times.high < before:
				return claimWhole
			}
			return claimPart
		}, func(c *chunk[E], i int) bool { return c.block.times[i] < before }, ranges, limit)
	}
	return ranges
}
