package look

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// deadLetter is a line of 'dead-letters --json', made to be edited by hand. A value that
// is a JSON object is that object.
type deadLetter struct {
	*wire.Letter
	SentAgain *time.Time `json:"sent_again,omitempty"`
}

// PrintLetter prints a dead letter as a line. again is when its record was sent again,
// zero for never.
func PrintLetter(w io.Writer, r *event.Refusal, truncated bool, again time.Time) error {
	d := deadLetter{Letter: wire.LetterOf(r)}
	d.Truncated = truncated
	if v := r.Origin.Value; len(v) > 0 && v[0] == '{' && json.Valid(v) {
		d.Value, d.ValueBase64 = v, nil
	}
	if !again.IsZero() {
		again = again.UTC().Truncate(time.Second)
		d.SentAgain = &again
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(d)
}

// Source is where a refused record is.
type Source struct {
	kafka.TopicPartition
	offset int64
}

// SourceOf returns where a record is.
func SourceOf(o *event.Origin) Source {
	return Source{kafka.TopicPartition{Topic: o.Topic, Partition: o.Partition}, o.Offset}
}

// LetterBox is the topic of dead letters, and the input topics that their records came
// from.
type LetterBox struct {
	Client *kafka.Client
	Names  topics.Names
}

// Each calls f for every record of the topic, with the dead letter in it, and the error
// of decoding it.
func (l LetterBox) Each(ctx context.Context, f func(*kafka.Record, *event.Refusal, error)) error {
	if _, err := BoundsOf(ctx, l.Client, l.Names.DeadLetters); err != nil {
		return err
	}
	return l.Client.ReadAll(ctx, l.Names.DeadLetters, func(r *kafka.Record) {
		var refusal event.Refusal
		err := wire.DecodeDeadLetter(r.Value, &refusal)
		f(r, &refusal, err)
	})
}

// SentAgain returns when which records were sent again.
func (l LetterBox) SentAgain(ctx context.Context) (map[Source]time.Time, error) {
	sent := make(map[Source]time.Time)
	return sent, l.Each(ctx, func(r *kafka.Record, refusal *event.Refusal, _ error) {
		if refusal.Reason == wire.Resent {
			sent[SourceOf(refusal.Origin)] = r.Time
		}
	})
}

// Send sends the records again and notes, among the dead letters, that those at the
// Given places were. Both are one transaction, so that a record is not sent again
// without a note, nor by two senders at once.
func (l LetterBox) Send(ctx context.Context, records []kafka.Record, from []Source) error {
	if len(records) == 0 {
		return nil
	}
	partitions, err := l.Client.Partitions(ctx, l.Names.Nodes, l.Names.Labels, l.Names.Commands)
	if err != nil {
		return err
	}
	p, err := l.Client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: l.Names.DeadLetters})
	if err != nil {
		return err
	}
	notes := make([]kafka.Record, len(records))
	for i := range records {
		r, at := &records[i], from[i]
		origin := event.Origin{Topic: at.Topic, Partition: at.Partition, Offset: at.offset}
		note := l.Names.At(l.Names.DeadLetters)
		if r.Partition = kafka.PartitionFor(r.Key, partitions[r.Topic]); l.Names.Cells > 0 { // to the cell it was of
			r.Partition, note.Partition = at.Partition, at.Partition
		}
		r.Headers = append(r.Headers, kafka.Header{Key: wire.ResentHeader, Value: []byte(origin.String())})
		notes[i] = kafka.Record{
			Topic: note.Topic, Partition: note.Partition, Key: wire.LetterKey(&event.Refusal{Origin: &event.Origin{Key: r.Key}}),
			Value:   wire.AppendDeadLetter(nil, &event.Refusal{Reason: wire.Resent, Origin: &origin}),
			Headers: []kafka.Header{{Key: wire.ContentType, Value: []byte(wire.MsgPack)}},
		}
	}
	err = p.Commit(ctx, slices.Concat(records, notes), "", nil)
	if errors.Is(err, kafka.ErrUnknown) {
		err = fmt.Errorf("%w: 'gvbll dead-letters' says whether they were sent", err)
	}
	return err
}

// ReadLetter returns the record of a line of --json, and where it came from. The record
// has no time: it gets the one at which it is sent, so that retention does not delete it
// at once.
func ReadLetter(line []byte, names topics.Names) (r kafka.Record, from Source, err error) {
	d := deadLetter{Letter: &wire.Letter{}}
	if err := json.Unmarshal(line, &d); err != nil {
		return r, from, err
	}
	switch {
	case d.Topic != names.Nodes && d.Topic != names.Labels && d.Topic != names.Commands:
		return r, from, fmt.Errorf("topic %.200q, want %s, %s or %s: check --prefix", d.Topic, names.Nodes, names.Labels, names.Commands)
	case names.Cells > 0 && (d.Partition < 0 || int(d.Partition) >= names.Cells):
		return r, from, fmt.Errorf("partition %d, and the graph has cells 0 to %d", d.Partition, names.Cells-1)
	case d.Reason == event.UnreadableBatch:
		return r, from, errors.New("the dead letter holds a whole batch as the broker stores it: send its records from their source")
	case d.Truncated:
		return r, from, errors.New("the dead letter holds only a part of the record: send it from its source")
	}
	refusal, err := d.Refusal()
	if err != nil {
		return r, from, err
	}
	r = kafka.Record{Topic: d.Topic, Key: refusal.Origin.Key, Value: refusal.Origin.Value}
	for _, h := range refusal.Origin.Headers {
		if h.Key != wire.ResentHeader {
			r.Headers = append(r.Headers, kafka.Header(h))
		}
	}
	return r, Source{kafka.TopicPartition{Topic: d.Topic, Partition: d.Partition}, d.Offset}, nil
}

// UTC formats a time to the second.
func UTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }
