package intake

import (
	"context"
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// GoneError reports that a partition begins behind records that the ledger names.
type GoneError struct {
	Range ledger.Range
	First int64 // the partition's first offset now
}

// Error is one line.
func (e *GoneError) Error() string {
	return fmt.Sprintf("the ledger names %v, which the topic no longer has, as it begins at %d: set "+
		"retention.ms=-1, and %s", e.Range, e.First, kafka.Restore)
}

// loseFront puts a buffer, which stands before its partition's first offset, there.
func (b *buffer[E]) loseFront() {
	b.lost, b.consumed = b.consumed, b.first
	for len(b.beyond) > 0 && b.beyond[0].from <= b.consumed {
		b.consumed = max(b.consumed, b.beyond[0].to)
		b.beyond = b.beyond[1:]
	}
	b.fetched = b.consumed
}

// accept takes from the position of a partition what its log has lost at its end, and returns that:
// an empty span where the log ends if nothing is. The log may have other records there by now. It is
// compared with what was read of it, the newest first; of the records between the last that is the
// same and the first that is not, some may be read a second time.
func (p *Position) accept(ctx context.Context, c *kafka.Client, at kafka.TopicPartition, bounds kafka.Bounds) (tail span, err error) {
	consumed, stand, known := p.of(at)
	tail = span{bounds.End, bounds.End}
	if !known || stand.Last.Sum == 0 {
		return tail, nil
	}
	reach := consumed[len(consumed)-1].To
	marks := append(slices.Clone(stand.Trail), stand.Last)
	for i := len(marks) - 1; ; i-- {
		if i >= 0 && marks[i].Offset >= bounds.End {
			continue
		}
		if i >= 0 && marks[i].Offset >= bounds.First {
			same, err := c.Has(ctx, at, marks[i])
			if err != nil {
				return tail, err
			}
			if !same {
				continue
			}
		}
		if i == len(marks)-1 && reach <= bounds.End { // or retention took the last one
			return tail, nil
		}
		p.cut(at, stand, marks[:i+1], bounds.First)
		tail.from = bounds.First
		if i >= 0 {
			tail.from = max(marks[i].Offset+1, bounds.First)
		}
		return span{tail.from, max(reach, tail.from)}, nil
	}
}

// cut leaves of a partition's position what is up to the last of the marks that are the log's, or
// nothing behind its first offset.
func (p *Position) cut(at kafka.TopicPartition, stand stand, marks []kafka.Mark, first int64) {
	end, last := first, kafka.Mark{}
	if n := len(marks); n > 0 {
		last = marks[n-1]
		end, marks = max(last.Offset+1, first), marks[:n-1]
	}
	var consumed []ledger.Range
	for _, g := range p.Consumed {
		if g.Topic == at.Topic && g.Partition == at.Partition {
			if g.From = min(g.From, end); g.From == end && len(ofPartition(consumed, at)) > 0 {
				continue
			}
			g.To = min(g.To, end)
		}
		consumed = append(consumed, g)
	}
	stand.Reached, stand.Last, stand.Trail = end, last, marks
	stands := slices.Clone(p.Stands)
	for i := range stands {
		if stands[i].Topic == at.Topic && stands[i].Partition == at.Partition {
			stands[i] = stand
		}
	}
	p.Consumed, p.Stands = consumed, stands
}

// present returns the parts of a window's ranges that the topic still has.
func (st *store[E]) present(ranges []ledger.Range) (left []ledger.Range) {
	for _, g := range ranges {
		b := st.buffer(g.Partition)
		if b != nil && g.From < b.first {
			st.incomplete = true
			b.lost = min(b.lost, g.From)
			g.From = b.first
		}
		if b != nil && g.To > b.tail.from {
			st.incomplete = true
			b.tail.to = max(b.tail.to, g.To)
			g.To = b.tail.from
		}
		if g.From < g.To {
			left = append(left, g)
		}
	}
	return left
}

// Gap returns what is gone of each partition: in front, from the first record that was needed and
// was not there to the partition's beginning, and in the tail, from the end that the log had when
// it was opened, or from where it has other records, to the last that was needed.
func (in *Inputs) Gap() (front, tail []ledger.Range) {
	for _, appendGap := range []func(front, tail []ledger.Range) ([]ledger.Range, []ledger.Range){
		in.Nodes.store.appendGap,
		in.Labels.store.appendGap, in.Commands.store.appendGap,
	} {
		front, tail = appendGap(front, tail)
	}
	return front, tail
}

func (st *store[E]) appendGap(front, tail []ledger.Range) ([]ledger.Range, []ledger.Range) {
	for _, b := range st.buffers {
		if b.lost < b.first {
			front = append(front, ledger.Range{Topic: st.topic, Partition: b.partition, From: b.lost, To: b.first})
		}
		if b.tail.from < b.tail.to {
			tail = append(tail, ledger.Range{Topic: st.topic, Partition: b.partition, From: b.tail.from, To: b.tail.to})
		}
	}
	return front, tail
}

// Incomplete reports whether records of a replayed window were gone.
func (in *Inputs) Incomplete() bool {
	return in.Nodes.store.incomplete || in.Labels.store.incomplete || in.Commands.store.incomplete
}
