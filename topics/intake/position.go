package intake

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/registry"
)

// Position says what the inputs have consumed, for a checkpoint. It is believed only of the
// logs that it was taken of.
type Position struct {
	// Consumed are the consumed ranges of every partition: first the one from its
	// beginning, which may be empty, then those behind it.
	Consumed []ledger.Range `json:"taken"`
	// Stands are where each of them stands.
	Stands []stand `json:"stands,omitempty"`
	// Schemas are those by which framed records of these were read.
	Schemas []registry.Schema `json:"schemas,omitempty"`
}

type stand struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Reached is an offset up to which nothing is left to consume: between the consumed
	// records and it there are only markers and aborted records.
	Reached int64 `json:"reached"`
	// Last is the consumed record with the largest offset. If there is none, it has the
	// topic's id alone.
	Last kafka.Mark `json:"last"`
	// Trail are some of the consumed records before it, the more the newer, by which a log that
	// has lost its end can be compared.
	Trail []kafka.Mark `json:"trail,omitempty"`
}

// of returns the part of the position that is of one partition. ok is false if the
// partition did not exist then.
func (p *Position) of(at kafka.TopicPartition) (ranges []ledger.Range, s stand, ok bool) {
	ranges = ofPartition(p.Consumed, at)
	if len(ranges) == 0 {
		return nil, s, false
	}
	for _, s := range p.Stands {
		if s.Topic == at.Topic && s.Partition == at.Partition {
			return ranges, s, true
		}
	}
	return ranges, s, true
}

// knows reports whether the position is of a time when the topic existed.
func (p *Position) knows(topic string) bool {
	return slices.ContainsFunc(p.Consumed, func(g ledger.Range) bool { return g.Topic == topic })
}

// Sum returns a hash of which records of which partitions are consumed.
func (p *Position) Sum() string {
	h := sha256.New()
	for i := range p.Stands {
		s := &p.Stands[i]
		if s.Last.Sum == 0 {
			continue // nothing of it is
		}
		fmt.Fprintf(h, "%s %d", s.Topic, s.Partition)
		for i, g := range ofPartition(p.Consumed, kafka.TopicPartition{Topic: s.Topic, Partition: s.Partition}) {
			if i > 0 {
				fmt.Fprintf(h, " %d", g.From)
			}
			fmt.Fprintf(h, " %d", g.To)
		}
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Taken returns the hash of what the inputs have consumed, with what is claimed.
func (in *Inputs) Taken() string {
	p := in.Position()
	return p.Sum()
}

// Moved returns the position before a window in the offsets that copies of the inputs have.
func (p Position) Moved(m *ledger.Moves, window int64) Position {
	p.Consumed, p.Stands = m.Ranges(window, p.Consumed), slices.Clone(p.Stands)
	for i := range p.Stands {
		s := &p.Stands[i]
		to := func(end int64) int64 {
			return m.Ranges(window, []ledger.Range{{Topic: s.Topic, Partition: s.Partition, To: end}})[0].To
		}
		s.Reached, s.Last.Offset, s.Trail = to(s.Reached), to(s.Last.Offset+1)-1, slices.Clone(s.Trail)
		for i := range s.Trail {
			s.Trail[i].Offset = to(s.Trail[i].Offset+1) - 1
		}
	}
	return p
}

// Position returns what the inputs have consumed.
func (in *Inputs) Position() (p Position) {
	in.Nodes.store.addPosition(&p)
	in.Labels.store.addPosition(&p)
	in.Commands.store.addPosition(&p)
	p.Schemas = in.Schemas.All()
	return p
}

func (st *store[E]) addPosition(p *Position) {
	for _, b := range st.buffers {
		p.Consumed = append(p.Consumed, ledger.Range{Topic: st.topic, Partition: b.partition, From: b.first, To: b.consumed})
		for _, s := range b.beyond {
			p.Consumed = append(p.Consumed, ledger.Range{Topic: st.topic, Partition: b.partition, From: s.from, To: s.to})
		}
		last := b.last
		if i := slices.IndexFunc(st.claimed, func(c chunk[E]) bool { return c.partition() == b.partition }); i >= 0 && last.Sum == 0 {
			last = kafka.MarkOf(&st.claimed[i].records()[0]) // Release notes it as consumed
		}
		p.Stands = append(p.Stands, stand{Topic: st.topic, Partition: b.partition, Reached: b.reached(), Last: last, Trail: b.trail})
	}
}

// begin returns the buffer of a partition that is opened, behind its part of the position,
// and the offset to read from. With acceptGap, a partition may begin behind that.
func begin[E any](at kafka.TopicPartition, bounds kafka.Bounds, p *Position, id string, acceptGap bool) (b *buffer[E],
	from int64, err error,
) {
	consumed, stand, known := p.of(at)
	b = newBuffer[E](at.Partition, bounds.First)
	b.skip(consumed)
	b.last, b.trail = stand.Last, stand.Trail
	if b.last.Sum == 0 {
		b.last.Topic = id
	}
	switch {
	case !known && p.knows(at.Topic) && bounds.First > 0:
		// It was added since, and all of it is needed.
		if acceptGap {
			b.lost = 0
			return b, b.consumed, nil
		}
		return nil, 0, &kafka.OutOfRangeError{At: at, Position: 0, Bounds: bounds}
	case b.reach() > bounds.End:
		return nil, 0, &kafka.OutOfRangeError{At: at, Position: b.reach() - 1, Bounds: bounds}
	case b.consumed >= bounds.First:
		return b, b.consumed, nil
	case stand.Reached >= bounds.First && len(b.beyond) == 0:
		b.first = b.consumed // what lay between the two was no record
		return b, bounds.First, nil
	case acceptGap:
		b.loseFront()
		return b, b.consumed, nil
	}
	return nil, 0, &kafka.OutOfRangeError{At: at, Position: b.consumed, Bounds: bounds}
}

// reached returns the offset of the first record that is held and, without one, the one up to
// which everything was read. All records before it are consumed.
func (b *buffer[E]) reached() int64 {
	if len(b.chunks) > 0 {
		return b.chunks[0].first()
	}
	return max(b.read, b.consumed)
}

// noteLast notes the last of the claimed records of each partition as consumed.
func (st *store[E]) noteLast() {
	for i := range st.claimed {
		c := &st.claimed[i]
		if i+1 < len(st.claimed) && st.claimed[i+1].partition() == c.partition() {
			continue
		}
		if b := st.buffer(c.partition()); c.end() > b.last.Offset || b.last.Sum == 0 {
			last := kafka.MarkOf(&c.block.answer.Records[c.to-1])
			last.Topic = st.id
			b.leave(b.last)
			b.last = last
		}
	}
}

const maxTrail = 16

// leave adds a mark to the trail. Of too many, the one goes that leaves the smallest hole, compared
// with how far back it is.
func (b *buffer[E]) leave(m kafka.Mark) {
	if m.Sum == 0 {
		return
	}
	m.Topic = ""
	b.trail = append(b.trail, m) // checkpoints have only what was in it before
	if len(b.trail) <= maxTrail {
		return
	}
	drop, least := 1, math.Inf(1)
	for i := 1; i < len(b.trail)-1; i++ {
		hole, back := b.trail[i+1].Offset-b.trail[i-1].Offset, m.Offset-b.trail[i-1].Offset
		if share := float64(hole) / float64(back); share < least {
			drop, least = i, share
		}
	}
	b.trail = slices.Concat(b.trail[:drop], b.trail[drop+1:])
}

// Begins returns where each partition of the input topics begins, and the topics' ids, for
// the ledger's first record.
func (in *Inputs) Begins() []ledger.Input {
	return in.Commands.store.appendBegin(in.Labels.store.appendBegin(in.Nodes.store.appendBegin(nil)))
}

func (st *store[E]) appendBegin(list []ledger.Input) []ledger.Input {
	begin := ledger.Input{Topic: st.topic, ID: st.id}
	for _, b := range st.buffers {
		begin.First = append(begin.First, b.first)
	}
	return append(list, begin)
}

// CheckBegins compares where the partitions begin with the ledger's first record. One that
// did not exist then is needed from its offset 0. The others are needed from the first
// range on that the ledger names, which Replay checks.
func (in *Inputs) CheckBegins(ledger []ledger.Input) error {
	for _, then := range ledger {
		err := cmp.Or(in.Nodes.store.checkBegin(&then), in.Labels.store.checkBegin(&then), in.Commands.store.checkBegin(&then))
		if err != nil {
			return err
		}
	}
	return nil
}

func (st *store[E]) checkBegin(then *ledger.Input) error {
	if st.topic != then.Topic {
		return nil
	}
	for _, b := range st.buffers {
		if int(b.partition-st.cell) >= len(then.First) && b.first > 0 {
			return fmt.Errorf("%s partition %d begins at offset %d, and it was added after the graph had begun: "+
				"records were deleted before they were read: set retention.ms=-1, and %s", st.topic, b.partition, b.first, kafka.Restore)
		}
	}
	return nil
}
