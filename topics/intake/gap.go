package intake

import (
	"fmt"

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
	return fmt.Sprintf("the ledger names %v, which the topic no longer has, as it begins at %d: set retention.ms=-1, and %s", e.Range, e.First, kafka.Restore)
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

// present returns the parts of a window's ranges that the topic still has.
func (in *Input[E]) present(ranges []ledger.Range) (left []ledger.Range) {
	for _, g := range ranges {
		if b := in.buffer(g.Partition); b != nil && g.From < b.first {
			in.incomplete = true
			b.lost = min(b.lost, g.From)
			g.From = b.first
		}
		if g.From < g.To {
			left = append(left, g)
		}
	}
	return left
}

// Gap returns what is gone of each partition: from the first record that was needed and was
// not there, to the partition's beginning.
func (in *Inputs) Gap() []ledger.Range {
	return in.Commands.appendGap(in.Labels.appendGap(in.Nodes.appendGap(nil)))
}

func (in *Input[E]) appendGap(list []ledger.Range) []ledger.Range {
	for _, b := range in.buffers {
		if b.lost < b.first {
			list = append(list, ledger.Range{Topic: in.topic, Partition: b.partition, From: b.lost, To: b.first})
		}
	}
	return list
}

// Incomplete reports whether records of a replayed window were gone.
func (in *Inputs) Incomplete() bool {
	return in.Nodes.incomplete || in.Labels.incomplete || in.Commands.incomplete
}
