package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// A ledger that lost its end is shorter than what its graph has published and consumed. Predictions
// and group offsets are committed in the transactions of its records, so they are never ahead of a
// ledger that is whole.

// CheckWhole returns a [ledger.ShortError] if predictions are of windows behind the last one stepped, which is
// the ledger's last. Group offsets alone prove nothing, as an operator may have set them: they are logged, and the
// windows that follow write them anew. No transaction of the graph may be open.
func (p *Replayer) CheckWhole(ctx context.Context) error {
	if p.next == 0 {
		return nil
	}
	return tailOf(p).check(ctx)
}

// tail is what Kafka has of a graph behind a window.
type tail struct {
	client   *kafka.Client
	log      *slog.Logger
	names    topics.Names
	inputs   intake.Config
	frames   func(schema uint32, payload []byte) ([]byte, error)
	next     int64     // the window that is not known to the ledger
	stepped  time.Time // when the one before it was
	consumed taken     // in windows before
}

// tailOf returns what there is behind the last window stepped.
func tailOf(p *Replayer) *tail {
	return &tail{
		client: p.client, log: p.cfg.Logger, names: p.cfg.Terms.Names, inputs: p.cfg.inputs(p.gap.accepted), next: p.next,
		stepped:  p.last.stepped,
		consumed: consumedBy(p.Inputs), frames: p.Inputs.Schemas.JSON,
	}
}

// check is [Replayer.CheckWhole].
func (t *tail) check(ctx context.Context) error {
	short := &ledger.ShortError{Ledger: t.names.Ledger, First: t.next, Last: t.next - 1}
	newer, err := t.newerPredictions(ctx)
	if err != nil && !errors.Is(err, kafkago.TopicAuthorizationFailed) { // a worker needs only to write there
		return err
	}
	if len(newer) > 0 {
		began, err := t.began(ctx)
		if err != nil {
			return err
		}
		for window, at := range newer {
			if !at.Before(began) {
				short.Last = max(short.Last, window)
			}
		}
	}
	if short.Last >= short.First {
		short.Found = append(short.Found, fmt.Sprintf("predictions of window %d in %s", short.Last, t.names.Predictions))
	}
	at, offset, err := t.offsetsAhead(ctx)
	if err != nil {
		return err
	}
	if offset > 0 {
		short.Found = append(short.Found, fmt.Sprintf("offsets up to which group %s has read: %d of %s partition %d",
			t.names.Ledger, offset, at.Topic, at.Partition))
	}
	if short.Last >= short.First {
		return short
	}
	if offset > 0 {
		t.log.Warn("the group's offsets are ahead of the ledger, which is believed: they are written anew", "group",
			t.names.Ledger, "topic", at.Topic, "partition", at.Partition, "offset", offset)
	}
	return nil
}

// endsTogether returns a [ledger.ShortError] if a checkpoint is beyond the ledger's end, and the predictions and the group's offsets are
// not: as after an older volume came back, so that what the ledger has is right, and what the checkpoint has besides was
// never published as far as anybody can see. Going on from the checkpoint would never predict it.
func (s *states) endsTogether(ctx context.Context, path string, at *Reached) error {
	names := s.cfg.Terms.Names
	newest, err := ledger.Newest(ctx, s.client, names.LedgerAt())
	if newest == nil || err != nil {
		return err
	}
	behind := &tail{client: s.client, names: names, next: newest.Window + 1}
	newer, err := behind.newerPredictions(ctx)
	if err != nil || len(newer) > 0 {
		if errors.Is(err, kafkago.TopicAuthorizationFailed) { // nobody can tell
			err = nil
		}
		return err
	}
	committed, err := s.client.Committed(ctx, names.Ledger, names.Nodes, names.Labels, names.Commands)
	if err != nil {
		return err
	}
	records, unpublishes := int64(0), false
	for _, g := range at.Consumed {
		offset, known := committed[kafka.TopicPartition{Topic: g.Topic, Partition: g.Partition}]
		if unpublished := g.To - max(offset, g.From); known && unpublished > 0 {
			unpublishes = true
			if g.Topic == names.Nodes {
				records += unpublished
			}
		}
	}
	if !unpublishes {
		return nil
	}
	return &ledger.ShortError{
		Ledger: names.Ledger, First: newest.Window + 1, Last: at.Window - 1,
		Found: []string{fmt.Sprintf("a checkpoint of its first %d windows, %s", at.Window, path)},
		Remedy: fmt.Sprintf("predictions and group offsets end with it, as when an older volume came back, so its "+
			"state is right, and up to %d nodes of the checkpoint have no prediction; move checkpoints beyond "+
			"window %d out of the folder, and the next start goes on from the ledger and predicts what is sent "+
			"again", records, newest.Window+1),
	}
}

// began returns when the ledger's first record was written. Predictions that are older are those of
// a ledger before this one.
func (t *tail) began(ctx context.Context) (began time.Time, err error) {
	err = ledger.Scan(ctx, t.client, t.names.LedgerAt(), func(r *ledger.Record) bool {
		began = r.Stepped
		return false
	})
	return began, err
}

// newerPredictions returns the windows behind the last one stepped which the newest predictions of
// each partition name, and when the latest of these was stepped.
func (t *tail) newerPredictions(ctx context.Context) (newer map[int64]time.Time, err error) {
	newer = make(map[int64]time.Time)
	bounds, err := t.client.Offsets(ctx, t.names.Predictions)
	// The last record may be far from the end, behind it those of aborted transactions.
	for back := int64(64); err == nil && len(bounds) > 0; back *= 8 {
		from := make(map[kafka.TopicPartition]int64)
		for at, b := range bounds {
			from[at] = max(b.End-back, b.First)
		}
		found := make(map[kafka.TopicPartition]bool)
		err = t.client.ReadTo(ctx, from, bounds, func(r *kafka.Record) bool {
			found[kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}] = true
			var d event.Prediction
			if wire.DecodePrediction(r.Value, &d) == nil && d.Window >= t.next && r.Time.After(newer[d.Window]) {
				newer[d.Window] = r.Time
			}
			return true
		})
		maps.DeleteFunc(bounds, func(at kafka.TopicPartition, b kafka.Bounds) bool { return found[at] || from[at] == b.First })
	}
	return newer, err
}

// offsetsAhead returns a group offset that has a record before it which is in no window, 0 if there
// is none.
func (t *tail) offsetsAhead(ctx context.Context) (at kafka.TopicPartition, offset int64, err error) {
	names := t.names
	committed, err := t.client.Committed(ctx, names.Ledger, names.Nodes, names.Labels, names.Commands)
	if err != nil {
		return at, 0, err
	}
	bounds, err := t.client.Offsets(ctx, names.Nodes, names.Labels, names.Commands)
	if err != nil {
		return at, 0, err
	}
	consumed, from := t.consumed, make(map[kafka.TopicPartition]int64)
	for at, offset := range committed {
		b, there := bounds[at]
		b.End = min(b.End, offset)
		begin := b.First
		if list := consumed[at]; len(list) > 0 {
			begin = max(begin, list[0].To)
		}
		if there && begin < b.End {
			from[at], bounds[at] = begin, b
		}
	}
	err = t.client.ReadTo(ctx, from, bounds, func(r *kafka.Record) bool {
		at = kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}
		if !consumed.has(at, r.Offset) {
			offset = committed[at]
		}
		return offset == 0
	})
	return at, offset, err
}

// taken are the ranges of the inputs that are in windows.
type taken map[kafka.TopicPartition][]ledger.Range

func consumedBy(in *intake.Inputs) taken {
	all := make(taken)
	for _, g := range in.Position().Consumed {
		at := kafka.TopicPartition{Topic: g.Topic, Partition: g.Partition}
		all[at] = append(all[at], g)
	}
	return all
}

func (t taken) has(at kafka.TopicPartition, offset int64) bool {
	return slices.ContainsFunc(t[at], func(g ledger.Range) bool { return g.From <= offset && offset < g.To })
}

// clocks is how far apart the clocks of workers may be that wrote a ledger.
const clocks = time.Hour

// Restep steps the windows that the ledger has lost, from the next one on: those before end or, if it
// is 0, as far as there are predictions. Nothing comes of their outcomes. A node is in the
// window that its prediction names, if the inputs have it, and what became a dead letter is in
// the first. All else that the windows had is left to later ones.
func (p *Replayer) Restep(ctx context.Context, end int64) error {
	tail := tailOf(p)
	published, last, err := tail.publishedSince(ctx, end)
	if err != nil {
		return err
	}
	windows, err := tail.rangesOf(ctx, published)
	if err != nil {
		return err
	}
	for window := range windows {
		last = max(last, window)
	}
	p.gap.lossy, p.compared = true, false
	p.Inputs.Schemas.Ask() // of those that lost records had
	for end = cmp.Or(end, last+1); p.next < end; {
		if err := p.replay(ctx, &ledger.Record{Ranges: windows[p.next]}); err != nil {
			return err
		}
		p.Inputs.Adopt()
		if _, err := p.stepClaimed(); err != nil {
			return err
		}
		p.Inputs.Release()
	}
	return nil
}

// published is what windows published that the ledger has lost.
type published struct {
	nodes   map[event.ID]int64 // predicted first in a window
	letters map[place]bool     // of records
}

// place is where a record of the inputs is.
type place struct {
	at     kafka.TopicPartition
	offset int64
}

// publishedSince reads what the windows from the next one to end published, and returns the last
// one that is known. Without an end, it is that of the last prediction.
func (t *tail) publishedSince(ctx context.Context, end int64) (all published, last int64, err error) {
	all = published{make(map[event.ID]int64), make(map[place]bool)}
	began, err := t.began(ctx)
	if err != nil {
		return all, 0, err
	}
	last = t.next - 1
	end = cmp.Or(end, math.MaxInt64)
	names := t.names
	var wrong error
	err = t.readSince(ctx, names.Predictions, func(r *kafka.Record) bool {
		var d event.Prediction
		if err := wire.DecodePrediction(r.Value, &d); err != nil {
			wrong = fmt.Errorf("%s partition %d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
			return false
		}
		if d.Window < t.next || d.Window >= end || r.Time.Before(began) {
			return true
		}
		last = max(last, d.Window)
		if d.Revision == 0 {
			all.nodes[d.Node.Clone()] = d.Window
		}
		return true
	})
	if err = errors.Join(err, wrong); err != nil {
		return all, 0, err
	}
	err = t.readSince(ctx, names.DeadLetters, func(r *kafka.Record) bool {
		var d event.Refusal
		if err := wire.DecodeDeadLetter(r.Value, &d); err != nil && !errors.Is(err, wire.ErrTruncated) {
			wrong = fmt.Errorf("%s partition %d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
			return false
		}
		all.letters[place{kafka.TopicPartition{Topic: d.Origin.Topic, Partition: d.Origin.Partition}, d.Origin.Offset}] = true
		return true
	})
	return all, last, errors.Join(err, wrong)
}

// readSince calls f with the records of a topic that are not older than the last window stepped.
func (t *tail) readSince(ctx context.Context, topic string, f func(*kafka.Record) bool) error {
	from, err := t.client.OffsetsAt(ctx, topic, t.stepped.Add(-clocks))
	if err != nil {
		return err
	}
	bounds, err := t.client.Offsets(ctx, topic)
	if err != nil {
		return err
	}
	return t.client.ReadTo(ctx, from, bounds, f)
}

// rangesOf returns, by window, the records of the inputs that no window has and that the published
// records are of.
func (t *tail) rangesOf(ctx context.Context, all published) (windows map[int64][]ledger.Range, err error) {
	names, windows := t.names, make(map[int64][]ledger.Range)
	bounds, err := t.client.Offsets(ctx, names.Nodes, names.Labels, names.Commands)
	if err != nil {
		return nil, err
	}
	consumed, decoder := t.consumed, wire.Decoder{Limits: t.inputs.Limits, Memory: new(wire.Memory), First: t.inputs.First}
	decoder.Frames = t.frames
	if text := t.inputs.Map; text != "" {
		if decoder.Map, err = wire.ParseMap(text); err != nil {
			return nil, err
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(bounds), kafka.TopicPartition.Compare) {
		from := bounds[at].First
		if list := consumed[at]; len(list) > 0 {
			from = max(from, list[0].To)
		}
		before := int64(-1) // window of the record before, -1 for none
		err := t.client.ReadTo(ctx, map[kafka.TopicPartition]int64{at: from}, bounds, func(r *kafka.Record) bool {
			window := int64(-1)
			if consumed.has(at, r.Offset) {
			} else if all.letters[place{at, r.Offset}] {
				window = t.next
			} else if at.Topic == names.Nodes {
				var n event.Node
				o := event.Origin{
					Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Time.UnixMilli(),
					Key: r.Key, Value: r.Value,
				}
				decoder.Memory.Reset()
				reason, _ := decoder.Node(&o, &n)
				list := []event.Node{n}
				if n.Also != nil {
					list = append(list, n.Also.Nodes...)
				}
				for i := range list {
					if n := &list[i]; reason == "" && !n.Departed && !n.Context && !n.OnlyAsks() {
						if w, known := all.nodes[n.ID]; known {
							window = w
							delete(all.nodes, n.ID)
						}
					}
				}
			}
			switch list := windows[window]; {
			case window < 0:
			case window == before:
				list[len(list)-1].To = r.Offset + 1
			default:
				windows[window] = append(list, ledger.Range{Topic: at.Topic, Partition: at.Partition, From: r.Offset, To: r.Offset + 1})
			}
			before = window
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return windows, nil
}
