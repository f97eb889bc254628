package main

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

// printLetter prints a dead letter as a line. again is when its record was sent again,
// zero for never.
func printLetter(w io.Writer, r *event.Refusal, truncated bool, again time.Time) error {
	d := deadLetter{Letter: wire.LetterOf(r)}
	d.Detail, d.Truncated = wire.Detail(r), truncated
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

// source is where a refused record is.
type source struct {
	kafka.TopicPartition
	offset int64
}

func sourceOf(o *event.Origin) source {
	return source{kafka.TopicPartition{Topic: o.Topic, Partition: o.Partition}, o.Offset}
}

// letterBox is the topic of dead letters, and the input topics that their records came
// from.
type letterBox struct {
	client *kafka.Client
	names  topics.Names
}

// each calls f for every record of the topic, with the dead letter in it, and the error
// of decoding it.
func (l letterBox) each(ctx context.Context, f func(*kafka.Record, *event.Refusal, error)) error {
	if _, err := boundsOf(ctx, l.client, l.names.DeadLetters); err != nil {
		return err
	}
	return l.client.ReadAll(ctx, l.names.DeadLetters, func(r *kafka.Record) {
		var refusal event.Refusal
		err := wire.DecodeDeadLetter(r.Value, &refusal)
		f(r, &refusal, err)
	})
}

// sentAgain returns when which records were sent again.
func (l letterBox) sentAgain(ctx context.Context) (map[source]time.Time, error) {
	sent := make(map[source]time.Time)
	return sent, l.each(ctx, func(r *kafka.Record, refusal *event.Refusal, _ error) {
		if refusal.Reason == wire.Resent {
			sent[sourceOf(refusal.Origin)] = r.Time
		}
	})
}

// send sends the records again and notes, among the dead letters, that those at the
// Given places were. Both are one transaction, so that a record is not sent again
// without a note, nor by two senders at once.
func (l letterBox) send(ctx context.Context, records []kafka.Record, from []source) error {
	if len(records) == 0 {
		return nil
	}
	partitions, err := l.client.Partitions(ctx, l.names.Nodes, l.names.Labels, l.names.Commands)
	if err != nil {
		return err
	}
	p, err := l.client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: l.names.DeadLetters})
	if err != nil {
		return err
	}
	notes := make([]kafka.Record, len(records))
	for i := range records {
		r, at := &records[i], from[i]
		origin := event.Origin{Topic: at.Topic, Partition: at.Partition, Offset: at.offset}
		r.Partition = kafka.PartitionFor(r.Key, partitions[r.Topic])
		r.Headers = append(r.Headers, kafka.Header{Key: wire.ResentHeader, Value: []byte(origin.String())})
		notes[i] = kafka.Record{
			Topic: l.names.DeadLetters, Key: r.Key[:min(len(r.Key), maxNoteKey)],
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

// maxNoteKey bounds the key of a note in bytes.
const maxNoteKey = 1 << 10

// readLetter returns the record of a line of --json, and where it came from. The record
// has no time: it gets the one at which it is sent, so that retention does not delete it
// at once.
func readLetter(line []byte, names topics.Names) (r kafka.Record, from source, err error) {
	d := deadLetter{Letter: &wire.Letter{}}
	if err := json.Unmarshal(line, &d); err != nil {
		return r, from, err
	}
	switch {
	case d.Topic != names.Nodes && d.Topic != names.Labels && d.Topic != names.Commands:
		return r, from, fmt.Errorf("topic %.200q, want %s, %s or %s: check --prefix", d.Topic, names.Nodes, names.Labels, names.Commands)
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
	return r, source{kafka.TopicPartition{Topic: d.Topic, Partition: d.Partition}, d.Offset}, nil
}

// utc formats a time to the second.
func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }
