package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/topics/kafka"
)

// lane reads one partition of the topic. It keeps the pieces of messages until they are taken,
// and the sums of pieces for some windows more, to compare with those that come again.
type lane struct {
	cfg    *Config
	client *kafka.Client
	at     kafka.TopicPartition
	reader *kafka.Reader
	answer kafka.Answer
	opened int64 // offset at which the lane was opened

	messages map[slot]*message
	bytes    int             // what messages take
	next     map[Kind]int64  // the lowest window of each kind that was not taken
	newest   int64           // the highest window that was waited for
	first    map[int64]int64 // offset of the first piece for each window from oldest on

	// postponed is the offset of the first piece that there was no room for, -1 for none.
	// The log is read again from there.
	postponed int64
	unread    error // why the last record could not be read that is no message
}

// message is what was read of a message.
type message struct {
	of     int
	pieces []held
	taken  bool // the payloads are gone, and only the sums are left
}

// held is a piece that is kept.
type held struct {
	k       int
	sum     uint32
	offset  int64
	payload []byte
}

// Bounds of what a lane remembers, in windows: behind the one that is waited for, for
// comparisons and for positions, and ahead of it, where by the cuts nothing can be yet.
const (
	behind = 256
	ahead  = 1 << 12
)

// overhead is what a message and a piece take besides the payload, in bytes, roughly.
const overhead = 128

func newLane(c *kafka.Client, cfg *Config, partition int32, offset int64) *lane {
	l := &lane{
		cfg: cfg, client: c, at: kafka.TopicPartition{Topic: cfg.Topic, Partition: partition}, opened: offset,
		messages: make(map[slot]*message), next: make(map[Kind]int64), first: make(map[int64]int64), postponed: -1,
	}
	l.open(offset)
	return l
}

// open reads on from the offset.
func (l *lane) open(offset int64) {
	l.reader = l.client.NewReader(map[kafka.TopicPartition]int64{l.at: offset}, kafka.ReaderConfig{})
}

// position returns an offset before which there is no piece for the window or a later one.
func (l *lane) position(window int64) int64 {
	if window < l.oldest() {
		return l.opened
	}
	offset := l.reader.Position(l.at)
	if l.postponed >= 0 {
		offset = min(offset, l.postponed)
	}
	for w, first := range l.first {
		if w >= window {
			offset = min(offset, first)
		}
	}
	return offset
}

// oldest returns the first window that is remembered.
func (l *lane) oldest() int64 { return l.newest - behind }

// await says that messages of the kind are waited for, for the window: those for windows
// before it are not needed any more.
func (l *lane) await(k Kind, window int64) {
	l.next[k], l.newest = max(l.next[k], window), max(l.newest, window)
	for s, m := range l.messages {
		if l.past(s) {
			l.release(m)
		}
		if s.window < l.oldest() {
			l.bytes -= m.overhead()
			delete(l.messages, s)
		}
	}
	for w := range l.first {
		if w < l.oldest() {
			delete(l.first, w)
		}
	}
}

// past reports whether nobody will ask for the message any more.
func (l *lane) past(s slot) bool { return s.window < max(l.next[s.kind], l.oldest()) }

// again reads once more from the first piece that was postponed.
func (l *lane) again() {
	if l.postponed >= 0 {
		l.open(l.postponed)
		l.postponed = -1
	}
}

func (m *message) overhead() int { return overhead * (1 + len(m.pieces)) }

// payload returns the payload of a whole message.
func (m *message) payload() []byte {
	if len(m.pieces) == 1 {
		return m.pieces[0].payload
	}
	slices.SortFunc(m.pieces, func(a, b held) int { return cmp.Compare(a.k, b.k) })
	var payload []byte
	for i := range m.pieces {
		payload = append(payload, m.pieces[i].payload...)
	}
	return payload
}

// release lets go of a message's payload.
func (l *lane) release(m *message) {
	for i := range m.pieces {
		l.bytes -= len(m.pieces[i].payload)
		m.pieces[i].payload = nil
	}
	m.taken = true
}

// whole returns the message of the slot, nil unless all of it is there.
func (l *lane) whole(s slot) *message {
	if m := l.messages[s]; m != nil && len(m.pieces) == m.of {
		return m
	}
	return nil
}

// poll reads what there is, for which it waits briefly. Pieces for windows of kind k up to the
// given one are kept, and others as long as there is room.
func (l *lane) poll(ctx context.Context, k Kind, window int64) error {
	if err := l.reader.Fill(ctx, &l.answer); err != nil {
		var gone *kafka.OutOfRangeError
		if errors.As(err, &gone) && gone.Position < gone.Bounds.First {
			return fmt.Errorf("%s partition %d begins at offset %d, and window %d needs it from %d: what the tasks sent was deleted; set retention.ms=-1, and start with a newer checkpoint of this task or restore the topic from a mirror", l.at.Topic, l.at.Partition, gone.Bounds.First, window, gone.Position)
		}
		return err
	}
	for i := range l.answer.Records {
		r := &l.answer.Records[i]
		p, err := decode(r.Value)
		if first, last := l.cfg.senders(p.kind); r.Unreadable != "" || err != nil || p.run != l.cfg.Run || p.from < first || p.from > last || l.cfg.partition(p.kind, l.cfg.Task-1) != l.at.Partition {
			if err != nil {
				l.unread = err
			}
			continue
		}
		if p.from == l.cfg.Task {
			continue // one knows what one has sent
		}
		if err := l.add(&p, r.Offset, p.kind == k && p.window <= window); err != nil {
			return err
		}
	}
	return nil
}

// pollToEnd reads up to what is the end of the log now, for the messages that are missing.
func (l *lane) pollToEnd(ctx context.Context, m *Missing) error {
	bounds, err := l.client.Offsets(ctx, l.at.Topic)
	for err == nil && l.reader.Position(l.at) < bounds[l.at].End {
		err = l.poll(ctx, m.Kind, m.Window)
	}
	return err
}

// add keeps a piece, or compares it with the one that came before.
func (l *lane) add(p *piece, offset int64, needed bool) error {
	m := l.messages[p.slot]
	if m != nil {
		for i := range m.pieces {
			if h := &m.pieces[i]; m.of != p.of || h.k == p.k && h.sum != p.sum {
				return fmt.Errorf("%s partition %d: at offset %d task %d sent other %v for window %d than at offset %d: two workers have stepped the same cuts and do not agree; compare their programs and models, and let 'gvbll audit' say which is right", l.at.Topic, l.at.Partition, offset, p.from, p.kind, p.window, h.offset)
			} else if h.k == p.k {
				return nil
			}
		}
	}
	past := l.past(p.slot)
	if past && m == nil {
		return nil
	}
	if !needed && !past && (l.bytes+len(p.payload)+2*overhead > l.cfg.Memory || p.window > l.newest+ahead) {
		if l.postponed < 0 || offset < l.postponed {
			l.postponed = offset
		}
		return nil
	}
	if at, ok := l.first[p.window]; !ok || offset < at {
		l.first[p.window] = offset
	}
	if m == nil {
		m = &message{of: p.of}
		l.messages[p.slot] = m
		l.bytes += overhead
	}
	h := held{k: p.k, sum: p.sum, offset: offset}
	l.bytes += overhead
	if !m.taken {
		h.payload = append([]byte(nil), p.payload...)
		l.bytes += len(p.payload)
	}
	m.pieces = append(m.pieces, h)
	return nil
}
