package audit

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
)

// outputs reads what a graph has published.
type outputs struct {
	// waiting are the records that were fetched and not compared, by partition.
	waiting map[kafka.TopicPartition][]kafka.Record

	client                        *kafka.Client
	predictions, toLabel, letters string         // topics
	first                         int32          // number of their first partition
	partitions                    map[string]int // of these, as they are now
	divided                       ledger.Outputs // as they were when the window was published
	then, now                     []ledger.Range // of the window's records, when it was published and now
	published                     *kafka.Reader
	windows                       int64  // that the ledger had when checkLater looked
	key, value                    []byte // reused
}

// openOutputs begins to read at the beginning of the outputs.
func openOutputs(ctx context.Context, c *kafka.Client, terms *replay.Terms) (*outputs, error) {
	o := &outputs{
		waiting: make(map[kafka.TopicPartition][]kafka.Record), client: c,
		predictions: terms.Names.Predictions, toLabel: terms.Names.ToLabel, letters: terms.Names.DeadLetters,
		first: terms.Names.Cell,
	}
	var err error
	if o.partitions, err = c.Partitions(ctx, o.predictions, o.toLabel, o.letters); err != nil {
		return nil, err
	}
	start := make(map[kafka.TopicPartition]int64)
	for topic, n := range o.partitions {
		for p := range n {
			start[kafka.TopicPartition{Topic: topic, Partition: o.first + int32(p)}] = 0
		}
	}
	o.published = c.NewReader(start, kafka.ReaderConfig{})
	return o, nil
}

// in has the next replayed records be of the window of a record, whose records have the offsets of now.
func (o *outputs) in(r *ledger.Record, now []ledger.Range) error {
	o.divided, o.then, o.now = r.Divided(), r.Ranges, now
	if o.divided.Predictions > o.partitions[o.predictions] || o.divided.DeadLetters > o.partitions[o.letters] {
		return fmt.Errorf("window %d of the ledger was published to %d partitions of %s and %d of %s, and there are %d "+
			"and %d: if partitions were added while the audit ran, begin it again", r.Window, o.divided.Predictions,
			o.predictions, o.divided.DeadLetters, o.letters, o.partitions[o.predictions], o.partitions[o.letters])
	}
	return nil
}

// predictionsAt returns the partitions of the predictions.
func (o *outputs) predictionsAt() (all []kafka.TopicPartition) {
	for p := range o.partitions[o.predictions] {
		all = append(all, kafka.TopicPartition{Topic: o.predictions, Partition: o.first + int32(p)})
	}
	return all
}

// toLabelAt returns the partition of the nodes to be labelled.
func (o *outputs) toLabelAt() kafka.TopicPartition {
	return kafka.TopicPartition{Topic: o.toLabel, Partition: o.first}
}

// fetch reads more records of a partition, and of others of which none wait. It returns
// false at the end of the partition.
func (o *outputs) fetch(ctx context.Context, at kafka.TopicPartition) (more bool, err error) {
	if o.partitions[at.Topic] == 0 {
		return false, nil
	}
	bounds, err := o.client.Offsets(ctx, at.Topic)
	if err != nil {
		return false, err
	}
	if b := bounds[at]; b.First > 0 && o.published.Position(at) < b.First {
		return false, fmt.Errorf("%s partition %d begins at offset %d: earlier records are gone and cannot be audited; "+
			"begin the audit at a checkpoint", at.Topic, at.Partition, b.First)
	}
	if o.published.Position(at) >= bounds[at].End {
		return false, nil
	}
	for other, list := range o.waiting {
		o.published.Pause(other, len(list) > 0 && other != at)
	}
	records, err := o.published.Poll(ctx)
	for _, r := range records {
		if r.Topic == o.letters && isNote(&r) {
			continue
		}
		p := kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}
		o.waiting[p] = append(o.waiting[p], r)
	}
	return true, err
}

// isNote reports whether a record among the dead letters is no worker's, but an
// operator's note about one.
func isNote(r *kafka.Record) bool {
	var d event.Refusal
	return wire.DecodeDeadLetter(r.Value, &d) == nil && d.Reason == wire.Resent
}

// seenWithin bounds how long after a transaction was seen in one topic it may not be seen in
// another: brokers write their markers one by one.
const seenWithin = 5 * time.Second

// checkLater returns an error if a published prediction is of a window before the given one, or of
// a later one that no part of the ledger has: it was committed together with the window.
func (o *outputs) checkLater(ctx context.Context, r *kafka.Record, window int64, parts ...kafka.TopicPartition) error {
	var p event.Prediction
	if err := wire.DecodePrediction(r.Value, &p); err != nil || p.Window < window {
		return fmt.Errorf("%s partition %d offset %d, key %.80q: published, but not of any window in the ledger", r.Topic,
			r.Partition, r.Offset, r.Key)
	}
	for began := time.Now(); p.Window >= o.windows; {
		for _, at := range parts {
			newest, err := ledger.Newest(ctx, o.client, at)
			if err != nil {
				return err
			}
			if newest != nil {
				o.windows = max(o.windows, newest.Window+1)
			}
		}
		switch {
		case p.Window < o.windows:
		case time.Since(began) > seenWithin:
			return fmt.Errorf("%s partition %d offset %d, key %.80q: published in window %d, and the ledger %s ends "+
				"before window %d: its newest windows are lost: restore it from a backup or a mirror", r.Topic,
				r.Partition, r.Offset, r.Key, p.Window, parts[0].Topic, o.windows)
		default:
			if err := kafka.Sleep(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// expected is a record that a replay says was published. It is valid until the outputs give
// the next one.
type expected struct {
	at     kafka.TopicPartition
	key    []byte
	window int64
	// value returns the value that a published record should have: of its own encoding, and
	// with its own words where people read them.
	value func(published []byte) []byte
}

// prediction returns the record of a prediction.
func (o *outputs) prediction(window int64, p *event.Prediction) expected {
	o.key = wire.AppendKey(o.key[:0], p.Node)
	return o.replayed(o.predictions, o.divided.Predictions, window, o.key, func(published []byte) []byte {
		p := p
		if p.Embedding != nil && !hasEmbedding(published) {
			without := *p
			without.Embedding, p = nil, &without
		}
		o.value = wire.EncodingOf(published).AppendPrediction(o.value[:0], p)
		return o.value
	})
}

// asked returns the record of a prediction of a node to be labelled.
func (o *outputs) asked(window int64, p *event.Prediction) expected {
	x := o.prediction(window, p)
	x.at = o.toLabelAt()
	return x
}

// hasEmbedding reports whether a published prediction carries an embedding, which is not a setting of the ledger.
func hasEmbedding(published []byte) bool {
	var p event.Prediction
	return bytes.Contains(published, []byte("embedding")) && wire.DecodePrediction(published, &p) == nil && p.Embedding != nil
}

// deadLetter returns the record of a dead letter. Its detail is a sentence for people, which
// later programs of the same engine may word otherwise: that of the published one.
func (o *outputs) deadLetter(window int64, d *event.Refusal) expected {
	return o.replayed(o.letters, o.divided.DeadLetters, window, wire.LetterKey(d), func(published []byte) []byte {
		var p event.Refusal
		origin := *d.Origin
		if err := wire.DecodeDeadLetter(published, &p); err == nil && o.had(&origin, p.Origin.Offset) { // if it is none, it differs
			origin.Offset = p.Origin.Offset
		}
		return wire.AppendDeadLetter(nil, &event.Refusal{Origin: &origin, Reason: d.Reason, Detail: p.Detail})
	})
}

// had reports whether a record of the window may have had the offset, before the topic was copied.
func (o *outputs) had(now *event.Origin, offset int64) bool {
	for i, g := range o.now {
		if g.Topic == now.Topic && g.Partition == now.Partition && g.From <= now.Offset && now.Offset < g.To && g != o.then[i] {
			return o.then[i].From <= offset && offset < o.then[i].To
		}
	}
	return false
}

func (o *outputs) replayed(topic string, partitions int, window int64, key []byte, value func([]byte) []byte) expected {
	x := expected{at: kafka.TopicPartition{Topic: topic, Partition: o.first}, key: key, window: window, value: value}
	if partitions > 1 {
		x.at.Partition = kafka.PartitionFor(key, partitions)
	}
	return x
}

// is reports whether a published record is what the replay says, byte by byte.
func (x *expected) is(r *kafka.Record) bool {
	return bytes.Equal(r.Key, x.key) && bytes.Equal(r.Value, x.value(r.Value))
}

// missing returns the error that there is no such record.
func (x *expected) missing() error {
	return fmt.Errorf("window %d of the ledger has a record for key %.80q that is not in %s partition %d", x.window,
		x.key, x.at.Topic, x.at.Partition)
}

// differs returns the error that a published record is in its place.
func (x *expected) differs(r *kafka.Record) error {
	return fmt.Errorf("%s partition %d offset %d, key %.80q: not what window %d says, which is of key %.80q and %s",
		x.at.Topic, x.at.Partition, r.Offset, r.Key, x.window, x.key, difference(r.Value, x.value(r.Value)))
}

// difference describes where two values begin to differ.
func difference(published, replayed []byte) string {
	for i := range min(len(published), len(replayed)) {
		if published[i] != replayed[i] {
			return fmt.Sprintf("differs from byte %d on", i)
		}
	}
	return fmt.Sprintf("has %d bytes instead of %d", len(replayed), len(published))
}
