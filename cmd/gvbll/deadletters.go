package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

type deadLettersCmd struct {
	Kafka flags.Inputs `embed:""`

	Reason []string `help:"List only records that were refused for one of these reasons." placeholder:"REASON"`
	JSON   bool     `help:"Print one JSON object a line, to be edited and given to --resend." name:"json"`
	Resend string   `help:"Send the records of this file, in lines as --json prints them, to the topics they came from; - for standard input." type:"path" placeholder:"FILE"`
}

// Help is shown by gvbll dead-letters --help.
func (deadLettersCmd) Help() string {
	return "Lists the records that were refused, and why. To send some again, print them with --json, repair `value` and `headers` in an editor, and give the lines to --resend. " +
		"All of them are sent in one transaction, and the list says from then on that they were. No record is sent again twice: one that is refused again is a dead letter of its own."
}

// Run lists, or sends again.
func (c deadLettersCmd) Run(ctx context.Context, p flags.Process, g flags.Given) error {
	if err := g.Check(flags.NoEffect(c.Resend != "", "no effect on --resend: leave out one of them", "reason", "json")); err != nil {
		return err
	}
	for _, reason := range c.Reason {
		if !slices.Contains(event.Reasons(), event.Reason(reason)) {
			return flags.Usagef("--reason %s: give some of %v", reason, event.Reasons())
		}
	}
	client, names, err := c.Kafka.Connect(ctx, p)
	if err != nil {
		return err
	}
	defer client.Close()
	letters := letterBox{client, names}
	sent, err := letters.sentAgain(ctx)
	if err != nil {
		return err
	}
	if c.Resend != "" {
		return c.resend(ctx, p, letters, sent)
	}
	return c.list(ctx, p.Out, letters, sent)
}

// list prints the dead letters. Other programs may write to the topic too: an error
// after the last one reports records that are not dead letters.
func (c deadLettersCmd) list(ctx context.Context, w io.Writer, letters letterBox, sent map[source]time.Time) error {
	if !c.JSON {
		fmt.Fprintf(w, "%-20s %-24s %-20s %-16s %s\n", "REASON", "RECORD", "TIME", "KEY", "DETAIL")
	}
	var failed, foreign error
	count := 0 // of records that are not dead letters
	err := letters.each(ctx, func(r *kafka.Record, refusal *event.Refusal, err error) {
		switch {
		case failed != nil || refusal.Reason == wire.Resent:
		case err == nil || errors.Is(err, wire.ErrTruncated):
			failed = c.print(w, refusal, err != nil, sent[sourceOf(refusal.Origin)])
		default:
			if count++; foreign == nil {
				foreign = fmt.Errorf("%s partition %d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
			}
		}
	})
	if foreign != nil {
		foreign = fmt.Errorf("records that are not dead letters: %d, the first is %w", count, foreign)
	}
	return errors.Join(err, failed, foreign)
}

// print prints a dead letter. again is when its record was sent again, zero for never.
func (c deadLettersCmd) print(w io.Writer, r *event.Refusal, truncated bool, again time.Time) error {
	if len(c.Reason) > 0 && !slices.Contains(c.Reason, string(r.Reason)) {
		return nil
	}
	if c.JSON {
		return printLetter(w, r, truncated, again)
	}
	o, detail := r.Origin, wire.Detail(r)
	if !again.IsZero() {
		detail += " (sent again " + utc(again) + ")"
	}
	_, err := fmt.Fprintf(w, "%-20s %-24s %-20s %-16.16q %s\n", r.Reason, o, utc(time.UnixMilli(o.Time)), o.Key, detail)
	return err
}

// utc formats a time to the second.
func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// resend sends the records of a file again. It sends nothing if a line is wrong, or if
// its record was sent again before.
func (c deadLettersCmd) resend(ctx context.Context, p flags.Process, letters letterBox, sent map[source]time.Time) error {
	in, err := p.OpenInput(c.Resend)
	if err != nil {
		return err
	}
	defer in.Close()
	var records []kafka.Record
	var from []source
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	for n := 1; lines.Scan(); n++ {
		r, at, err := readLetter(lines.Bytes(), letters.names)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if again, ok := sent[at]; ok {
			return fmt.Errorf("line %d: the record was sent again at %s: leave the line out", n, utc(again))
		}
		sent[at] = time.Now()
		records, from = append(records, r), append(from, at)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if err := letters.send(ctx, records, from); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "sent %d records again\n", len(records))
	return err
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
