package worker

import (
	"math"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// earliest bounds event times from below, in milliseconds, so that sums with any
// duration stay in range.
const earliest = -1 << 60

// extent is what is known of the event times in a run.
type extent struct {
	low, high int64 // of those to go by; NoTime for both when there is none
	loose     bool  // there are records without
}

// judge decides by which event times the records of a run go. One that lies more
// than in.ahead before the clock is not believed, or a single record could close
// all windows for years; and one that lies before closed has come too late for
// its window. Both have none to go by, and are counted.
func (in *input[E]) judge(p *lane[E], r *run[E], now time.Time, closed int64) {
	b := r.block
	if len(b.times) != len(b.events) {
		b.times = resize(b.times, len(b.events))
	}
	limit := now.Add(in.ahead).UnixMilli()
	for i := r.from; i < r.to; i++ {
		b.times[i] = NoTime
		t := in.timeOf(b, i)
		switch {
		case t == NoTime:
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
	r.judged = true
	r.measure()
}

// timeOf returns the event time that a record tells, NoTime for none.
func (in *input[E]) timeOf(b *block[E], i int) int64 {
	if b.refused[i].reason != "" {
		return NoTime
	}
	if t := in.when(&b.events[i]); t != 0 && t >= earliest {
		return t
	}
	return NoTime
}

// measure finds the extent of a run that was judged.
func (r *run[E]) measure() {
	x := extent{low: math.MaxInt64, high: NoTime}
	for _, t := range r.block.times[r.from:r.to] {
		if t == NoTime {
			x.loose = true
			continue
		}
		x.low, x.high = min(x.low, t), max(x.high, t)
	}
	if x.high == NoTime {
		x.low = NoTime
	}
	r.times = x
}

// remember lets replayed records count for how far their partitions have come.
func (in *input[E]) remember() {
	limit := time.Now().Add(in.ahead).UnixMilli()
	var p *lane[E]
	for _, r := range in.picked {
		if p == nil || p.partition != r.partition() {
			p = in.lane(r.partition())
		}
		for i := r.from; i < r.to; i++ {
			if t := in.timeOf(r.block, i); t <= limit {
				p.latest = max(p.latest, t)
			}
		}
	}
}

// survey enters into t what the input holds.
func (in *input[E]) survey(t *Times, now time.Time, closed int64) {
	t.Full = t.Full || in.full()
	for _, p := range in.parts {
		for i := range p.runs {
			r := &p.runs[i]
			if !r.judged {
				in.judge(p, r, now, closed)
			}
			if low := r.times.low; low != NoTime && (t.Oldest == NoTime || low < t.Oldest) {
				t.Oldest = low
			}
			if r.times.loose {
				t.Loose, t.Waited = true, max(t.Waited, now.Sub(r.at))
			}
		}
	}
	in.progress(t)
}

// progress enters into t how far the partitions have come.
func (in *input[E]) progress(t *Times) {
	for _, p := range in.parts {
		t.Partitions = append(t.Partitions, Progress{Latest: p.latest, Quiet: in.silence(p)})
	}
}

// silence returns for how long nothing came from a partition. While blocks are on
// their way it is what was known when the last one that arrived was fetched, or a
// partition would pass for idle whose events wait for the loop.
func (in *input[E]) silence(p *lane[E]) time.Duration {
	if in.flying.Load() > 0 {
		return p.quiet
	}
	return in.reader.Quiet(kafka.TopicPartition{Topic: in.topic, Partition: p.partition})
}

// takeBefore picks the records whose event time lies before the given one, and
// those that have none to go by, and appends their ranges.
func (in *input[E]) takeBefore(before int64, ranges []ledger.Range) []ledger.Range {
	in.picked = in.picked[:0]
	limit := len(ranges) + maxRanges
	for _, p := range in.parts {
		if len(p.runs) == 0 {
			continue
		}
		ranges = in.sift(p, func(r *run[E]) portion {
			switch {
			case !r.judged, !r.times.loose && r.times.low >= before:
				return nothing
			case r.times.high < before:
				return whole
			}
			return part
		}, func(r *run[E], i int) bool { return r.block.times[i] < before }, ranges, limit)
	}
	return ranges
}
