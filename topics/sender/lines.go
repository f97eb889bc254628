package sender

import (
	"bufio"
	"bytes"
	"context"
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

// Lines sends node events (arrivals and departures) from JSON lines. Each line is
// sent as it is, under its node's key and with the content-type of JSON; empty
// lines are skipped. It returns the number of events sent. A line that is not an
// event is an error with its number; the lines before it are sent.
func Lines(ctx context.Context, c *kafka.Client, names topics.Names, lines io.Reader) (sent int, err error) {
	partitions, err := c.Partitions(ctx, names.Nodes)
	if err != nil {
		return 0, err
	}
	if partitions[names.Nodes] == 0 {
		return 0, fmt.Errorf("topic %s does not exist: run 'gvbll topics --create' first", names.Nodes)
	}
	producer, err := c.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return 0, err
	}
	var (
		records []kafka.Record
		size    int
		line    int
		decoder wire.Decoder
		in      = bufio.NewScanner(lines)
	)
	flush := func() error {
		if len(records) == 0 {
			return nil
		}
		if err := producer.Send(ctx, records); err != nil {
			return err
		}
		sent += len(records)
		records, size = records[:0], 0
		return nil
	}
	in.Buffer(nil, maxLine+1)
	for in.Scan() {
		line++
		r, err := lineRecord(&decoder, in.Bytes())
		if err != nil {
			if e := flush(); e != nil {
				return sent, e
			}
			return sent, fmt.Errorf("line %d: %w", line, err)
		}
		if r == nil {
			continue
		}
		r.Topic, r.Partition, r.Time = names.Nodes, kafka.PartitionFor(r.Key, partitions[names.Nodes]), time.Now()
		records, size = append(records, *r), size+len(r.Value)
		if len(records) == maxBurst || size > maxLine {
			if err := flush(); err != nil {
				return sent, err
			}
		}
	}
	if err := flush(); err != nil {
		return sent, err
	}
	if err := in.Err(); err != nil {
		return sent, fmt.Errorf("line %d: %w", line+1, err)
	}
	return sent, nil
}

// lineRecord returns the record of a line, nil if the line is empty.
func lineRecord(d *wire.Decoder, line []byte) (*kafka.Record, error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, nil
	}
	value := bytes.Clone(line)
	o := &event.Origin{Value: value, Headers: []event.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}}}
	var n event.Node
	if reason, detail := d.Node(o, &n); reason != "" {
		return nil, fmt.Errorf("%s: %s", reason, detail)
	}
	return &kafka.Record{
		Key: wire.AppendKey(nil, n.ID), Value: value,
		Headers: []kafka.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}},
	}, nil
}
