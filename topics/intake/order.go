package intake

import (
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// moment is the place of a record in time, in milliseconds since 1970: its event time, noTime if
// it has none or one too far ahead of the clock, and the timestamp that Kafka has of it.
type moment struct{ event, stamp int64 }

// before reports whether a record is older than another: by event time if both have one, else by
// timestamp.
func (m moment) before(other moment) bool {
	if m.event != noTime && other.event != noTime {
		return m.event < other.event
	}
	return m.stamp < other.stamp
}

// front is the part of a partition's held records, from the first on, that makes the next window.
type front[E any] struct {
	in         *input[E]
	buffer     *buffer[E]
	records    int // of it
	chunk, at  int // place of the next record
	limit      int64
	next       moment
	ended      bool // there is no next record
	incomplete bool // and brokers have one
}

type line interface {
	head() (m moment, ended, behind bool)
	take()
	await()
}

func (f *front[E]) head() (m moment, ended, behind bool) { return f.next, f.ended, f.incomplete }

func (f *front[E]) take() {
	f.records++
	f.at++
	if f.at == f.buffer.chunks[f.chunk].to {
		f.chunk++
		f.begin()
		return
	}
	f.look()
}

func (f *front[E]) begin() {
	if f.ended = f.chunk == len(f.buffer.chunks); f.ended {
		f.incomplete = f.in.fetcher.behind(f.buffer)
		return
	}
	f.at = f.buffer.chunks[f.chunk].from
	f.look()
}

func (f *front[E]) look() {
	b := f.buffer.chunks[f.chunk].block
	f.next = moment{f.in.timeOf(b, f.at), b.answer.Records[f.at].Time.UnixMilli()}
	if f.next.event > f.limit {
		f.next.event = noTime
	}
}

// await has the next records of the partition fetched, however many of others are held.
func (f *front[E]) await() {
	f.in.awaited = true
	f.in.pauseAhead(f.buffer.partition)
}

func (in *input[E]) endAwait() {
	if in.awaited {
		in.awaited = false
		in.resume()
	}
}

// behind reports whether brokers have committed records of a partition that were not added. Before
// the first answer, these are all that it had when it was opened.
func (r *fetcher[E]) behind(b *buffer[E]) bool {
	end := r.reader.End(kafka.TopicPartition{Topic: r.source.topic, Partition: b.partition})
	if end < 0 {
		end = b.opened
	}
	return end > max(b.read, b.fetched, b.consumed)
}

// setFronts sets a front of no records for each partition.
func (in *input[E]) setFronts(now time.Time) {
	in.fronts = in.fronts[:0]
	for _, b := range in.store.buffers {
		f := front[E]{in: in, buffer: b, limit: now.Add(in.fetcher.source.ahead).UnixMilli()}
		f.begin()
		in.fronts = append(in.fronts, f)
	}
}

// claimFronts claims the records of the fronts, and appends their ranges.
func (in *input[E]) claimFronts(ranges []ledger.Range) []ledger.Range {
	in.store.claimed = in.store.claimed[:0]
	for i := range in.fronts {
		b, n := in.fronts[i].buffer, in.fronts[i].records
		for n > 0 {
			c := &b.chunks[0]
			n -= in.store.claimFront(b, min(c.from+n, c.to))
		}
	}
	return in.store.consumeClaimed(ranges)
}

// cutInOrder finds the oldest records of nodes and labels over all partitions: as many as make
// c.Nodes nodes or c.Labels labels, or all that are held. Those of one partition it takes by
// offset, and a node before a label of the same time. It cuts nothing while the next record of a
// partition is not there that brokers have.
func (in *Inputs) cutInOrder(c Cut) Cut {
	now := time.Now()
	in.Nodes.setFronts(now)
	in.Labels.setFronts(now)
	in.lines = in.lines[:0]
	for i := range in.Nodes.fronts {
		in.lines = append(in.lines, &in.Nodes.fronts[i])
	}
	nodes := len(in.lines)
	for i := range in.Labels.fronts {
		in.lines = append(in.lines, &in.Labels.fronts[i])
	}
	got := Cut{Cause: c.Cause, InOrder: true}
	for got.Nodes < c.Nodes && got.Labels < c.Labels {
		oldest, least := -1, moment{}
		for i, l := range in.lines {
			m, ended, behind := l.head()
			switch {
			case behind:
				if i < nodes {
					in.Labels.endAwait()
				} else {
					in.Nodes.endAwait()
				}
				l.await()
				return Cut{Within: soonest}
			case !ended && (oldest < 0 || m.before(least)):
				oldest, least = i, m
			}
		}
		if oldest < 0 {
			break
		}
		in.lines[oldest].take()
		if oldest < nodes {
			got.Nodes++
		} else {
			got.Labels++
		}
	}
	in.Nodes.endAwait()
	in.Labels.endAwait()
	return got
}
