package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// A ledger that lost its end is shorter than what its graph has published and consumed. Predictions
// and group offsets are committed in the transactions of its records, so they are never ahead of a
// ledger that is whole.

// CheckWhole returns a [ledger.ShortError] if predictions or group offsets are of windows behind the
// last one stepped, which is the ledger's last. No transaction of the graph may be open.
func (p *Replayer) CheckWhole(ctx context.Context) error {
	if p.next == 0 {
		return nil
	}
	short := &ledger.ShortError{Ledger: p.cfg.Terms.Names.Ledger, First: p.next, Last: p.next - 1}
	newer, err := p.newerPredictions(ctx)
	if err != nil && !errors.Is(err, kafkago.TopicAuthorizationFailed) { // a worker needs only to write there
		return err
	}
	if len(newer) > 0 {
		began, err := p.began(ctx)
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
		short.Found = append(short.Found, fmt.Sprintf("predictions of window %d in %s", short.Last, p.cfg.Terms.Names.Predictions))
	}
	at, offset, err := p.offsetsAhead(ctx)
	if err != nil {
		return err
	}
	if offset > 0 {
		short.Found = append(short.Found, fmt.Sprintf("offsets up to which group %s has read: %d of %s partition %d",
			p.cfg.Terms.Names.Ledger, offset, at.Topic, at.Partition))
	}
	if len(short.Found) > 0 {
		return short
	}
	return nil
}

// began returns when the ledger's first record was written. Predictions that are older are those of
// a ledger before this one.
func (p *Replayer) began(ctx context.Context) (began time.Time, err error) {
	err = ledger.Scan(ctx, p.client, p.cfg.Terms.Names.LedgerAt(), func(r *ledger.Record) bool {
		began = r.Stepped
		return false
	})
	return began, err
}

// newerPredictions returns the windows behind the last one stepped which the newest predictions of
// each partition name, and when the latest of these was stepped.
func (p *Replayer) newerPredictions(ctx context.Context) (newer map[int64]time.Time, err error) {
	newer = make(map[int64]time.Time)
	bounds, err := p.client.Offsets(ctx, p.cfg.Terms.Names.Predictions)
	// The last record may be far from the end, behind it those of aborted transactions.
	for back := int64(64); err == nil && len(bounds) > 0; back *= 8 {
		from := make(map[kafka.TopicPartition]int64)
		for at, b := range bounds {
			from[at] = max(b.End-back, b.First)
		}
		found := make(map[kafka.TopicPartition]bool)
		err = p.client.ReadTo(ctx, from, bounds, func(r *kafka.Record) bool {
			found[kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}] = true
			var d event.Prediction
			if wire.DecodePrediction(r.Value, &d) == nil && d.Window >= p.next && r.Time.After(newer[d.Window]) {
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
func (p *Replayer) offsetsAhead(ctx context.Context) (at kafka.TopicPartition, offset int64, err error) {
	names := p.cfg.Terms.Names
	committed, err := p.client.Committed(ctx, names.Ledger, names.Nodes, names.Labels, names.Commands)
	if err != nil {
		return at, 0, err
	}
	bounds, err := p.client.Offsets(ctx, names.Nodes, names.Labels, names.Commands)
	if err != nil {
		return at, 0, err
	}
	consumed, from := p.consumed(), make(map[kafka.TopicPartition]int64)
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
	err = p.client.ReadTo(ctx, from, bounds, func(r *kafka.Record) bool {
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

func (p *Replayer) consumed() taken {
	all := make(taken)
	for _, g := range p.Inputs.Position().Consumed {
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
	published, last, err := p.publishedSince(ctx, end)
	if err != nil {
		return err
	}
	windows, err := p.rangesOf(ctx, published)
	if err != nil {
		return err
	}
	for window := range windows {
		last = max(last, window)
	}
	p.lossy, p.compared = true, false
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
func (p *Replayer) publishedSince(ctx context.Context, end int64) (all published, last int64, err error) {
	all = published{make(map[event.ID]int64), make(map[place]bool)}
	began, err := p.began(ctx)
	if err != nil {
		return all, 0, err
	}
	last = p.next - 1
	end = cmp.Or(end, math.MaxInt64)
	names := p.cfg.Terms.Names
	var wrong error
	err = p.readSince(ctx, names.Predictions, func(r *kafka.Record) bool {
		var d event.Prediction
		if err := wire.DecodePrediction(r.Value, &d); err != nil {
			wrong = fmt.Errorf("%s partition %d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
			return false
		}
		if d.Window < p.next || d.Window >= end || r.Time.Before(began) {
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
	err = p.readSince(ctx, names.DeadLetters, func(r *kafka.Record) bool {
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
func (p *Replayer) readSince(ctx context.Context, topic string, f func(*kafka.Record) bool) error {
	from, err := p.client.OffsetsAt(ctx, topic, p.last.stepped.Add(-clocks))
	if err != nil {
		return err
	}
	bounds, err := p.client.Offsets(ctx, topic)
	if err != nil {
		return err
	}
	return p.client.ReadTo(ctx, from, bounds, f)
}

// rangesOf returns, by window, the records of the inputs that no window has and that the published
// records are of.
func (p *Replayer) rangesOf(ctx context.Context, all published) (windows map[int64][]ledger.Range, err error) {
	names, windows := p.cfg.Terms.Names, make(map[int64][]ledger.Range)
	bounds, err := p.client.Offsets(ctx, names.Nodes, names.Labels, names.Commands)
	if err != nil {
		return nil, err
	}
	consumed, decoder := p.consumed(), wire.Decoder{Limits: p.cfg.Terms.Limits, Memory: new(wire.Memory), First: p.intake().First}
	decoder.Frames = p.Inputs.Schemas.JSON
	if text := p.intake().Map; text != "" {
		if decoder.Map, err = wire.ParseMap(text); err != nil {
			return nil, err
		}
	}
	parts := slices.SortedFunc(maps.Keys(bounds), func(a, b kafka.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	for _, at := range parts {
		from := bounds[at].First
		if list := consumed[at]; len(list) > 0 {
			from = max(from, list[0].To)
		}
		before := int64(-1) // window of the record before, -1 for none
		err := p.client.ReadTo(ctx, map[kafka.TopicPartition]int64{at: from}, bounds, func(r *kafka.Record) bool {
			window := int64(-1)
			if consumed.has(at, r.Offset) {
			} else if all.letters[place{at, r.Offset}] {
				window = p.next
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
