package sender

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// maxLine bounds a line in bytes: the wire format's limit for a value.
const maxLine = 4 << 20

// Sent counts the events that were sent.
type Sent struct{ Nodes, Labels, Commands int }

// All returns the number of all events.
func (s Sent) All() int { return s.Nodes + s.Labels + s.Commands }

// Lines sends events from JSON lines, at most rate a second, 0 for no limit. Each line
// goes to the topic of its kind: an object with "command" is a command, one with "node" a
// label, any other a node event. It is sent as it is, under its node's key and with the
// content-type of JSON; empty lines are skipped. A line that is not an event is an error
// with its number; the lines before it are sent. While no broker answers it waits, and may then
// send some lines twice. Of a graph of several cells by decides those of nodes and labels, and commands go to all.
func Lines(ctx context.Context, c *kafka.Client, names topics.Names, by *CellBy, lines io.Reader, rate float64) (Sent, error) {
	partitions, err := c.Partitions(ctx, names.Nodes, names.Labels, names.Commands)
	if err != nil {
		return Sent{}, err
	}
	producer, err := c.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return Sent{}, err
	}
	s := lineSender{names: names, by: by, partitions: partitions, producer: producer, pace: newPace(rate)}
	in := bufio.NewScanner(reader(func(p []byte) (int, error) {
		if err := s.flush(ctx); err != nil { // what a pipe has given is not kept until it gives more
			return 0, err
		}
		return lines.Read(p)
	}))
	in.Buffer(make([]byte, 1<<20), maxLine+1)
	line := 0
	for in.Scan() {
		line++
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		if err := s.add(in.Bytes()); err != nil {
			if e := s.flush(ctx); e != nil {
				return s.sent, e
			}
			return s.sent, fmt.Errorf("line %d: %w", line, err)
		}
		if len(s.records) == s.pace.burst(maxBurst) || s.size > maxLine {
			if err := s.flush(ctx); err != nil {
				return s.sent, err
			}
		}
	}
	if err := s.flush(ctx); err != nil {
		return s.sent, err
	}
	if err := in.Err(); err != nil {
		return s.sent, fmt.Errorf("line %d: %w", line+1, err)
	}
	return s.sent, nil
}

// reader is a function as an [io.Reader].
type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// lineSender is the state of Lines.
type lineSender struct {
	names      topics.Names
	by         *CellBy
	partitions map[string]int
	producer   *kafka.Producer
	pace       pace
	decoder    wire.Decoder

	records []kafka.Record // to be sent
	size    int            // bytes of their values
	sent    Sent
}

// add adds the record of a line.
func (s *lineSender) add(line []byte) error {
	r, err := s.record(bytes.Clone(line))
	if err != nil {
		return err
	}
	if s.partitions[r.Topic] == 0 {
		return fmt.Errorf("topic %s does not exist: run 'gvbll topics --create' first", r.Topic)
	}
	r.Headers = []kafka.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}}
	if r.Topic != s.names.Commands {
		s.records, s.size = append(s.records, r), s.size+len(r.Value)
		return nil
	}
	for p := range s.partitions[r.Topic] {
		r.Partition = int32(p)
		s.records, s.size = append(s.records, r), s.size+len(r.Value)
	}
	return nil
}

// record returns the record of an event's JSON, with its topic and key.
func (s *lineSender) record(value []byte) (kafka.Record, error) {
	var kind struct{ ID, Node, Command json.RawMessage }
	_ = json.Unmarshal(value, &kind) // the decoder says what is wrong
	o := &event.Origin{Value: value, Headers: []event.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}}}
	r := kafka.Record{Value: value}
	var reason event.Reason
	var detail string
	var err error
	switch {
	case kind.Command != nil:
		var c event.Command
		r.Topic = s.names.Commands
		reason, detail = s.decoder.Command(o, &c)
	case kind.Node != nil && kind.ID == nil:
		var l event.Label
		reason, detail = s.decoder.Label(o, &l)
		r.Topic, r.Key = s.names.Labels, wire.AppendKey(nil, l.Node)
		if r.Partition = kafka.PartitionFor(r.Key, s.partitions[r.Topic]); s.by != nil && reason == "" {
			r.Partition, err = s.by.ofID(l.Node, s.partitions[r.Topic])
		}
	default:
		var n event.Node
		reason, detail = s.decoder.Node(o, &n)
		r.Topic, r.Key = s.names.Nodes, wire.AppendKey(nil, n.ID)
		if reason == "" {
			r.Partition, err = s.by.ofNode(&n, r.Key, s.partitions[r.Topic])
		}
	}
	if reason != "" {
		return r, fmt.Errorf("%s: %s", reason, detail)
	}
	return r, err
}

// flush sends the records once they are due.
func (s *lineSender) flush(ctx context.Context) error {
	if len(s.records) == 0 {
		return nil
	}
	if err := s.pace.wait(ctx); err != nil {
		return err
	}
	now := time.Now()
	for i := range s.records {
		s.records[i].Time = now
	}
	if err := s.producer.SendAgain(ctx, s.records); err != nil {
		return err
	}
	for i := range s.records {
		switch s.records[i].Topic {
		case s.names.Nodes:
			s.sent.Nodes++
		case s.names.Labels:
			s.sent.Labels++
		default:
			s.sent.Commands++
		}
	}
	s.pace.sent += len(s.records)
	s.records, s.size = s.records[:0], 0
	return nil
}
