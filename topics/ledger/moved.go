package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/gvbll/gvbll/topics/kafka"
)

// A copy of a topic has the records in their order, and other offsets where the original had offsets without a record:
// markers of transactions, aborted records. An epoch that begins behind a copy says where the records are now.

// Moved is a span of a partition's offsets that windows before an epoch consumed. Its records have the offsets from At on now.
type Moved struct {
	Range
	At int64 `json:"at"`
}

// Moves translates the ranges of windows into the offsets that the inputs have now. nil translates nothing.
type Moves struct {
	steps  []move
	ranges map[kafka.TopicPartition][]Range // of all windows, in the offsets of now
}

// move is one epoch that begins behind a copy.
type move struct {
	before int64 // the epoch's first window
	parts  map[kafka.TopicPartition]*movedPartition
}

// movedPartition has what was consumed of one partition before the epoch, ascending and disjoint.
type movedPartition struct {
	ranges []Range
	counts []int64 // the records in those before each
	spans  []Moved
}

// ReadMoves reads all ranges of a ledger, and the epochs that begin behind copies.
func ReadMoves(ctx context.Context, c *kafka.Client, at kafka.TopicPartition) (*Moves, error) {
	m := &Moves{ranges: make(map[kafka.TopicPartition][]Range)}
	err := Scan(ctx, c, at, func(r *Record) bool {
		if r.Begins != nil && len(r.Begins.Moved) > 0 {
			m.Add(r.Window, r.Begins.Moved)
		}
		for _, g := range r.Ranges {
			m.ranges[g.at()] = append(m.ranges[g.at()], g)
		}
		return true
	})
	return m, err
}

func (g *Range) at() kafka.TopicPartition {
	return kafka.TopicPartition{Topic: g.Topic, Partition: g.Partition}
}

// count returns how many records are in the range.
func (g *Range) count() int64 { return cmp.Or(g.Records, g.To-g.From) }

// Add adds an epoch that begins behind a copy.
func (m *Moves) Add(window int64, moved []Moved) {
	step := move{window, make(map[kafka.TopicPartition]*movedPartition)}
	for _, s := range moved {
		p := step.parts[s.at()]
		if p == nil {
			p = &movedPartition{ranges: sorted(m.ranges[s.at()])}
			n := int64(0)
			for i := range p.ranges {
				p.counts, n = append(p.counts, n), n+p.ranges[i].count()
			}
			step.parts[s.at()] = p
		}
		p.spans = append(p.spans, s)
	}
	m.steps = append(m.steps, step)
	for at, p := range step.parts {
		list := make([]Range, len(p.ranges))
		for i, g := range p.ranges {
			list[i] = p.move(g)
		}
		m.ranges[at] = list
	}
}

func sorted(ranges []Range) []Range {
	return slices.SortedFunc(slices.Values(ranges), func(a, b Range) int { return cmp.Compare(a.From, b.From) })
}

// start returns where the records of the i-th range begin now.
func (p *movedPartition) start(i int) int64 {
	s := max(sort.Search(len(p.spans), func(s int) bool { return p.spans[s].From > p.ranges[i].From })-1, 0)
	first := min(sort.Search(len(p.ranges), func(i int) bool { return p.ranges[i].From >= p.spans[s].From }), i)
	return p.spans[s].At + p.counts[i] - p.counts[first]
}

// move returns where the records of what was consumed are now: of a range, or of several that follow each other.
func (p *movedPartition) move(g Range) Range {
	first := sort.Search(len(p.ranges), func(i int) bool { return p.ranges[i].From >= g.From })
	last := sort.Search(len(p.ranges), func(i int) bool { return p.ranges[i].To > g.To }) - 1
	switch {
	case len(p.ranges) == 0:
		return g
	case first > last: // there is none
		g.To = p.start(max(last, 0))
		g.From = g.To
		return g
	}
	g.From, g.To = p.start(first), p.start(last)+p.ranges[last].count()
	return g
}

// Ranges returns the ranges of a window in the offsets of now. The windows of a position are those before it.
func (m *Moves) Ranges(window int64, ranges []Range) []Range {
	if m == nil {
		return ranges
	}
	for _, step := range m.steps {
		if window > step.before { // the window itself has none
			continue
		}
		now := make([]Range, len(ranges))
		for i, g := range ranges {
			if now[i] = g; step.parts[g.at()] != nil {
				now[i] = step.parts[g.at()].move(g)
			}
		}
		ranges = now
	}
	return ranges
}

// FindMoved looks for the records of all windows in the inputs as they are now, by their hashes, and returns which spans have
// other offsets. It is an error if records that follow each other do not in the copy, or are not in it; what is gone before
// the first that is found is not needed.
func (m *Moves) FindMoved(ctx context.Context, c *kafka.Client) (moved []Moved, err error) {
	from, ends := make(map[kafka.TopicPartition]int64), make(map[kafka.TopicPartition]kafka.Bounds)
	seeks := make(map[kafka.TopicPartition]*seek)
	for at, ranges := range m.ranges {
		bounds, err := c.Offsets(ctx, at.Topic)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(ranges, func(g Range) bool { return g.Sum != 0 }) {
			from[at], ends[at], seeks[at] = bounds[at].First, bounds[at], newSeek(sorted(ranges))
		}
	}
	var wrong error
	err = c.ReadTo(ctx, from, ends, func(r *kafka.Record) bool {
		wrong = seeks[kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}].next(r.Offset, kafka.MarkOf(r).Sum)
		return wrong == nil
	})
	if err = cmp.Or(err, wrong); err != nil {
		return nil, err
	}
	for _, at := range slices.SortedFunc(maps.Keys(seeks), kafka.TopicPartition.Compare) {
		s := seeks[at]
		if s.i < len(s.ranges) {
			return nil, fmt.Errorf("%s partition %d does not have the records that the ledger has at %v: copy the topic "+
				"whole, with its keys and timestamps, each partition to that of its number", at.Topic, at.Partition, s.ranges[s.i])
		}
		if slices.ContainsFunc(s.spans, func(x Moved) bool { return x.At != x.From || x.Records != x.To-x.From }) {
			moved = append(moved, s.spans...)
		}
	}
	return moved, nil
}

// seek looks for the ranges of one partition in a copy.
type seek struct {
	ranges []Range
	sums   map[uint64]int // of the ranges; nil once one is found
	i      int            // the range that is looked for
	spans  []Moved        // that were found
	end    int64          // where the i-th range ends if it follows the one before, 0 if that is not known
	after  int64          // the offset behind the record that was taken last, -1 before the first
}

func newSeek(ranges []Range) *seek {
	s := &seek{ranges: ranges, sums: make(map[uint64]int), after: -1}
	for i, g := range slices.Backward(ranges) {
		if g.Sum != 0 {
			s.sums[g.Sum] = i
		}
	}
	return s
}

// next takes the next record of the copy.
func (s *seek) next(offset int64, sum uint64) error {
	hole := s.after >= 0 && offset != s.after && len(s.spans) > 0
	s.after = offset + 1
	if s.i == len(s.ranges) {
		return nil
	}
	g := s.ranges[s.i]
	switch first, some := s.sums[sum]; {
	case s.sums != nil && !some:
		return nil
	case s.sums != nil:
		s.begin(first, offset)
	case s.end > 0 && hole:
		return fmt.Errorf("%s partition %d has no record at offset %d, within what the ledger has at %v: copy the topic "+
			"with a producer that opens no transactions", g.Topic, g.Partition, offset-1, g)
	case s.end > 0 && offset+1 < s.end:
		return nil
	case s.end > 0 && (g.Sum == 0 || g.Sum == sum):
		s.extend()
	case s.end > 0:
		return fmt.Errorf("%s partition %d has another record at offset %d than the ledger has at the end of %v: the copy "+
			"lacks records, has some twice, or other timestamps: copy the topic again", g.Topic, g.Partition, offset, g)
	case g.Sum == sum:
		s.spans = append(s.spans, Moved{Range{g.Topic, g.Partition, g.From, g.To, g.count(), 0}, offset + 1 - g.count()})
		s.follow()
	}
	return nil
}

// begin notes where the first range is that was found: those before it end where it begins.
func (s *seek) begin(first int, offset int64) {
	s.sums = nil
	for i, g := range s.ranges[:first+1] {
		if s.i = i; i == 0 {
			s.spans = []Moved{{Range{g.Topic, g.Partition, g.From, g.To, 0, 0}, offset + 1}}
		}
		s.spans[0].To = g.To
		s.spans[0].Records += g.count()
		s.spans[0].At -= g.count()
	}
	s.follow()
}

// extend adds the range that was looked for to the last span.
func (s *seek) extend() {
	span, g := &s.spans[len(s.spans)-1], s.ranges[s.i]
	span.To, span.Records = g.To, span.Records+g.count()
	s.follow()
}

// follow looks for the range behind the one that was found. One that does not follow it at once may have records before it that
// no window has.
func (s *seek) follow() {
	s.i, s.end = s.i+1, 0
	if s.i < len(s.ranges) {
		if g, before := s.ranges[s.i], s.ranges[s.i-1]; g.From == before.To || g.Sum == 0 {
			s.end = s.after + g.count()
		}
	}
}
