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

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

type deadLettersCmd struct {
	Kafka kafkaFlags `embed:""`

	Reason []string `help:"List only records that were refused for one of these reasons." placeholder:"REASON"`
	JSON   bool     `help:"Print one JSON object a line; keys and values are base64." name:"json"`
	Resend string   `help:"Send the records of this file, in lines as --json prints them, to the topics they came from; - for standard input." type:"path" placeholder:"FILE"`
}

// Help is shown by gvbll dead-letters --help.
func (deadLettersCmd) Help() string {
	return "Lists the records that were refused, and why. To send some again, print them with --json, repair their values, and give the lines to --resend."
}

// deadLetter is a line of --json. A record that the dead letter holds only in part
// (Truncated) cannot be sent again.
type deadLetter struct {
	Reason    event.Reason `json:"reason"`
	Detail    string       `json:"detail"`
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`
	Time      int64        `json:"time"` // of the record, milliseconds since the Unix epoch
	Key       []byte       `json:"key"`
	Value     []byte       `json:"value"`
	Headers   []deadHeader `json:"headers,omitempty"`
	Truncated bool         `json:"truncated,omitempty"`
}

type deadHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Run lists, or sends again.
func (c deadLettersCmd) Run(ctx context.Context, s streams, g given) error {
	if err := g.check(noEffect{c.Resend != "", "no effect on --resend: leave out one of them", []string{"reason", "json"}}); err != nil {
		return err
	}
	for _, reason := range c.Reason {
		if !slices.Contains(event.Reasons(), event.Reason(reason)) {
			return usagef("--reason %s: give some of %v", reason, event.Reasons())
		}
	}
	client, names, err := c.Kafka.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.Resend != "" {
		return c.resend(ctx, s, client, names)
	}
	return c.list(ctx, s.out, client, names.DeadLetters)
}

// list prints the dead letters of a topic. Other programs may write there too: an error
// after the last one reports records that are not dead letters.
func (c deadLettersCmd) list(ctx context.Context, w io.Writer, client *kafka.Client, topic string) error {
	if !c.JSON {
		fmt.Fprintf(w, "%-20s %-24s %-20s %-16s %s\n", "REASON", "RECORD", "TIME", "KEY", "DETAIL")
	}
	var failed, foreign error
	count := 0 // of records that are not dead letters
	err := client.ReadAll(ctx, topic, func(r *kafka.Record) {
		var refusal event.Refusal
		err := wire.DecodeDeadLetter(r.Value, &refusal)
		switch {
		case failed != nil:
		case err == nil || errors.Is(err, wire.ErrTruncated):
			failed = c.print(w, &refusal, err != nil)
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

func (c deadLettersCmd) print(w io.Writer, r *event.Refusal, truncated bool) error {
	if len(c.Reason) > 0 && !slices.Contains(c.Reason, string(r.Reason)) {
		return nil
	}
	o := r.Origin
	if c.JSON {
		d := deadLetter{
			Reason: r.Reason, Detail: r.Detail, Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, Time: o.Time,
			Key: o.Key, Value: o.Value, Truncated: truncated,
		}
		for _, h := range o.Headers {
			d.Headers = append(d.Headers, deadHeader(h))
		}
		return json.NewEncoder(w).Encode(d)
	}
	at := time.UnixMilli(o.Time).UTC().Format(time.RFC3339)
	_, err := fmt.Fprintf(w, "%-20s %-24s %-20s %-16.16q %s\n", r.Reason, o, at, o.Key, r.Detail)
	return err
}

// resend sends the records of a file again. It sends nothing if a line is wrong.
func (c deadLettersCmd) resend(ctx context.Context, s streams, client *kafka.Client, names topics.Names) error {
	in, err := openInput(c.Resend)
	if err != nil {
		return err
	}
	defer in.Close()
	partitions, err := client.Partitions(ctx, names.Nodes, names.Labels, names.Commands)
	if err != nil {
		return err
	}
	var records []kafka.Record
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	for n := 1; lines.Scan(); n++ {
		r, err := recordOf(lines.Bytes(), names)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		r.Partition = kafka.PartitionFor(r.Key, partitions[r.Topic])
		records = append(records, r)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	p, err := client.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return err
	}
	if len(records) > 0 {
		if err := p.Send(ctx, records); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(s.out, "sent %d records again\n", len(records))
	return err
}

// recordOf returns the record of a line of --json, without its time: it gets the time
// at which it is sent, so that retention does not delete it at once.
func recordOf(line []byte, names topics.Names) (r kafka.Record, err error) {
	var d deadLetter
	if err := json.Unmarshal(line, &d); err != nil {
		return r, err
	}
	switch {
	case d.Topic != names.Nodes && d.Topic != names.Labels && d.Topic != names.Commands:
		return r, fmt.Errorf("topic %q, want %s, %s or %s: check --prefix", d.Topic, names.Nodes, names.Labels, names.Commands)
	case d.Truncated:
		return r, errors.New("the dead letter holds only a part of the record: send it from its source")
	}
	r = kafka.Record{Topic: d.Topic, Key: d.Key, Value: d.Value}
	for _, h := range d.Headers {
		r.Headers = append(r.Headers, kafka.Header(h))
	}
	return r, nil
}
