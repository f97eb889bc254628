package intake

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// buffer holds the records of one partition that no window has consumed, and knows which
// of its offsets are consumed.
//
// Offsets first ≤ offset < fetched are of three kinds. Those before consumed, and
// those in the ranges of beyond, are consumed. Of the others the records are in
// chunks; some offsets have no record (transaction markers, compaction).
type buffer[E any] struct {
	partition int32
	chunks    []chunk[E]   // ascending by offset
	first     int64        // the offset that the partition begins with
	opened    int64        // where the log ended when it was opened
	lost      int64        // an accepted gap reaches from here to first; not before first if there is none
	fetched   int64        // the offset behind the last record fetched
	read      int64        // everything before it is fetched, or is no record
	last      kafka.Mark   // the consumed record with the largest offset
	trail     []kafka.Mark // of some before it, the more the newer
	// tail is what the log has lost at its end, if that is accepted: empty, and where the log
	// ended when it was opened, if nothing is.
	tail     span
	consumed int64 // all records before it are consumed
	// beyond are the consumed ranges behind consumed: ascending and disjoint, with
	// held or not yet fetched records between them.
	beyond []span
	latest int64         // largest event time so far, noTime before the first
	quiet  time.Duration // how long the partition had been quiet when the last block was fetched
}

// span is the offsets from ≤ offset < to.
type span struct{ from, to int64 }

// chunk is a part of a block: records that follow each other in one partition.
type chunk[E any] struct {
	block    *block[E]
	from, to int       // indices into the block's records
	order    int       // number of chunks that the input added before it
	at       time.Time // when it was added
	times    timeRange // valid when timed
	timed    bool      // the records' usable event times are known
}

func (c *chunk[E]) records() []kafka.Record { return c.block.answer.Records[c.from:c.to] }
func (c *chunk[E]) partition() int32        { return c.block.answer.Records[c.from].Partition }
func (c *chunk[E]) first() int64            { return c.block.answer.Records[c.from].Offset }
func (c *chunk[E]) end() int64              { return c.block.answer.Records[c.to-1].Offset + 1 }

func newBuffer[E any](partition int32, first int64) *buffer[E] {
	return &buffer[E]{
		partition: partition, first: first, lost: first, fetched: first, consumed: first, latest: noTime,
		tail: span{math.MaxInt64, 0},
	}
}

// skip starts an empty buffer behind the consumed ranges of its partition. The first
// of these begins with the partition.
func (b *buffer[E]) skip(consumed []ledger.Range) {
	for i, g := range consumed {
		if i == 0 {
			b.consumed, b.fetched = g.To, g.To
			continue
		}
		b.beyond = append(b.beyond, span{g.From, g.To})
	}
}

func (b *buffer[E]) reach() int64 {
	if n := len(b.beyond); n > 0 {
		return b.beyond[n-1].to
	}
	return b.consumed
}

// isConsumed reports whether an offset that is not before consumed lies in a range of
// beyond.
func (b *buffer[E]) isConsumed(offset int64) bool {
	i := sort.Search(len(b.beyond), func(i int) bool { return b.beyond[i].to > offset })
	return i < len(b.beyond) && b.beyond[i].from <= offset
}

// mergeConsumed sorts the ranges of beyond, and joins those with no held record
// between them, with each other and with the consumed beginning.
func (b *buffer[E]) mergeConsumed() {
	slices.SortFunc(b.beyond, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	all, held := b.beyond, b.chunks
	b.beyond = b.beyond[:0]
	front := true
	for _, s := range all {
		joined := s.from <= b.fetched // else records not fetched yet may lie between
		for len(held) > 0 && held[0].first() < s.from {
			held, front, joined = held[1:], false, false
		}
		switch n := len(b.beyond); {
		case front && joined:
			b.consumed = s.to
		case n > 0 && (joined || b.beyond[n-1].to == s.from):
			b.beyond[n-1].to = s.to
		default:
			b.beyond = append(b.beyond, s)
			front = false
		}
	}
}
