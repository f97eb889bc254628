package intake

import (
	"cmp"
	"slices"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// maxRanges bounds the ranges of one topic in one window, so that even with the
// longest topic names a ledger record stays below the 1 MiB that brokers accept.
const maxRanges = 1300

// claimOldest claims the n records that were added first and appends their ranges.
// At least n records must be held.
func (st *store[E]) claimOldest(n int, ranges []ledger.Range) []ledger.Range {
	st.claimed = st.claimed[:0]
	for n > 0 {
		b := st.oldest()
		c := b.chunks[0]
		n -= st.claimFront(b, min(c.from+n, c.to))
	}
	st.sortClaimed()
	return st.consumeClaimed(ranges)
}

// consumeClaimed marks what is claimed, in canonical order and from the front of each buffer, as
// consumed, and appends the ranges.
func (st *store[E]) consumeClaimed(ranges []ledger.Range) []ledger.Range {
	for i := 0; i < len(st.claimed); {
		j := i + 1
		for j < len(st.claimed) && st.claimed[j].partition() == st.claimed[i].partition() {
			j++
		}
		b := st.buffer(st.claimed[i].partition())
		ranges = st.consumeFront(b, st.claimed[i:j], ranges)
		i = j
	}
	return ranges
}

// seal notes in the ranges of the claimed records how many these are, where there are offsets without one, and the hash of the
// last.
func (st *store[E]) seal(ranges []ledger.Range) {
	i := 0
	for _, c := range st.claimed {
		for i < len(ranges) && (ranges[i].Topic != st.topic || ranges[i].Partition != c.partition() || ranges[i].To <= c.first()) {
			i++
		}
		if i == len(ranges) {
			return
		}
		g := &ranges[i]
		if g.Records += int64(c.to - c.from); c.end() == g.To {
			g.Sum = kafka.MarkOf(&c.block.answer.Records[c.to-1]).Sum
			if g.Records == g.To-g.From {
				g.Records = 0
			}
		}
	}
}

// sortClaimed brings the claimed chunks into canonical order. Those of one
// partition already ascend by offset.
func (st *store[E]) sortClaimed() {
	slices.SortStableFunc(st.claimed, func(a, b chunk[E]) int { return cmp.Compare(a.partition(), b.partition()) })
}

// claimFront claims the records of a buffer's first chunk before index to of its
// block, and returns their number. It does not mark them consumed.
func (st *store[E]) claimFront(b *buffer[E], to int) int {
	c := &b.chunks[0]
	front := *c
	front.to, c.from = to, to
	st.claimed = append(st.claimed, front)
	if c.from == c.to {
		*c = chunk[E]{}
		b.chunks = b.chunks[1:]
	} else if c.timed {
		c.measure()
	}
	st.held -= front.to - front.from
	return front.to - front.from
}

// consumeFront marks the chunks claimed from the front of a buffer as consumed, and
// appends their ranges.
func (st *store[E]) consumeFront(b *buffer[E], claimed []chunk[E], ranges []ledger.Range) []ledger.Range {
	if len(b.beyond) == 0 {
		to := claimed[len(claimed)-1].end()
		ranges = append(ranges, ledger.Range{Topic: st.topic, Partition: b.partition, From: b.consumed, To: to})
		b.consumed = to
		return ranges
	}
	w := newRangeWriter(st.topic, b, ranges)
	for i := range claimed {
		w.add(&claimed[i])
	}
	return w.done()
}

// rangeWriter makes ranges of chunks that are claimed from anywhere in a buffer, in
// the order of their offsets. A range may span offsets without a record, but not
// records that stay held or were consumed before.
type rangeWriter[E any] struct {
	topic  string
	buffer *buffer[E]
	beyond []span         // of buffer.beyond, those behind the last chunk
	ranges []ledger.Range // the caller's, then those of this buffer
	before int            // how many are the caller's
	apart  bool           // the next chunk cannot continue the last range
}

func newRangeWriter[E any](topic string, b *buffer[E], ranges []ledger.Range) *rangeWriter[E] {
	return &rangeWriter[E]{topic: topic, buffer: b, beyond: b.beyond, ranges: ranges, before: len(ranges), apart: true}
}

func (w *rangeWriter[E]) begins(c *chunk[E]) bool {
	for len(w.beyond) > 0 && w.beyond[0].from < c.first() {
		w.beyond, w.apart = w.beyond[1:], true
	}
	return w.apart
}

func (w *rangeWriter[E]) add(c *chunk[E]) {
	if w.begins(c) {
		w.ranges = append(w.ranges, ledger.Range{Topic: w.topic, Partition: w.buffer.partition, From: c.first(), To: c.end()})
		w.apart = false
		return
	}
	w.ranges[len(w.ranges)-1].To = c.end()
}

// done marks the ranges consumed. The buffer must hold no record of them any more.
func (w *rangeWriter[E]) done() []ledger.Range {
	for _, g := range w.ranges[w.before:] {
		w.buffer.beyond = append(w.buffer.beyond, span{g.From, g.To})
	}
	w.buffer.mergeConsumed()
	return w.ranges
}

type portion int

const (
	claimNone portion = iota
	claimPart
	claimWhole
)

// claimWhere claims records that are anywhere in a buffer, and appends their ranges.
// portionOf returns how much of a chunk to claim. If that is a part, wanted returns
// whether to claim the record at an index in the chunk's block. Once there are limit
// ranges, records that would begin another one stay held.
func (st *store[E]) claimWhere(b *buffer[E], portionOf func(*chunk[E]) portion, wanted func(*chunk[E], int) bool,
	ranges []ledger.Range, limit int,
) []ledger.Range {
	w := newRangeWriter(st.topic, b, ranges)
	keep := func(c chunk[E]) {
		w.apart = true
		st.rest = append(st.rest, c)
	}
	claim := func(c chunk[E]) {
		if w.begins(&c) && len(w.ranges) >= limit {
			keep(c)
			return
		}
		w.add(&c)
		st.claimed = append(st.claimed, c)
		st.held -= c.to - c.from
	}
	for i := range b.chunks {
		c := b.chunks[i]
		switch portionOf(&c) {
		case claimWhole:
			claim(c)
		case claimNone:
			keep(c)
		case claimPart:
			for from := c.from; from < c.to; {
				piece := c
				piece.from, piece.to = from, from+1
				want := wanted(&c, from)
				for piece.to < c.to && wanted(&c, piece.to) == want {
					piece.to++
				}
				from = piece.to
				if want {
					claim(piece)
					continue
				}
				if piece.timed {
					piece.measure()
				}
				keep(piece)
			}
		}
	}
	clear(b.chunks)
	b.chunks, st.rest = st.rest, b.chunks[:0]
	return w.done()
}
