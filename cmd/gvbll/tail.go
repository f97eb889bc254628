package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

type tailCmd struct {
	Kafka flags.Kafka `embed:""`

	Since   flags.Moment `help:"Begin with what was published since then: a duration ago, as 1h, or a time, as 2026-01-31T12:00:00Z; with all when left out." placeholder:"TIME"`
	Key     []string     `help:"Print only predictions with these keys: the ids of their nodes." short:"k" placeholder:"KEY" sep:"none"`
	ToLabel bool         `help:"Print the nodes of which labels are asked for (gvbll work --ask), each with the probability with which it was."`
	Limit   int          `help:"End after this many predictions; 0 for no limit." short:"n" default:"0"`
	Follow  bool         `help:"Wait for more at the end of the topic; --no-follow ends there." default:"true" negatable:""`
	JSON    bool         `help:"Print one JSON object a line." name:"json"`
}

// Run prints committed predictions in the order of publication.
func (t tailCmd) Run(ctx context.Context, p flags.Process) error {
	graph, err := look.Connect(ctx, p, t.Kafka)
	if err != nil {
		return err
	}
	c := graph.Client
	defer c.Close()
	topic := graph.Names.Predictions
	if t.ToLabel {
		topic = graph.Names.ToLabel
	}
	start, left, err := t.begin(ctx, c, topic)
	if err != nil {
		return err
	}
	classes := classNames{graph: graph, of: make(map[string][]string)}
	if !t.JSON {
		fmt.Fprintln(p.Out, look.TailHeader)
	}
	reader := c.NewReader(start, kafka.ReaderConfig{})
	printed := 0
	for t.Follow || len(left) > 0 {
		records, err := reader.Poll(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for i := range records {
			r := &records[i]
			if len(t.Key) > 0 && !slices.Contains(t.Key, string(r.Key)) {
				continue
			}
			if err := t.print(ctx, p.Out, r, &classes); err != nil {
				return err
			}
			if printed++; printed == t.Limit {
				return nil
			}
		}
		maps.DeleteFunc(left, func(at kafka.TopicPartition, end int64) bool { return reader.Position(at) >= end })
	}
	return nil
}

// print prints the prediction of a record.
func (t tailCmd) print(ctx context.Context, w io.Writer, r *kafka.Record, classes *classNames) error {
	var p event.Prediction
	if err := wire.DecodePrediction(r.Value, &p); err != nil {
		return fmt.Errorf("%s partition %d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	line := look.TailLine(&p)
	if t.JSON {
		if err := classes.name(ctx, &p); err != nil {
			return err
		}
		line = string(wire.AppendPredictionJSON(nil, &p))
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// classNames are the names of the classes of the models that have predicted.
type classNames struct {
	graph look.Graph
	of    map[string][]string // by model, nil for one that the ledger does not have
}

// name names the classes of a prediction that does not, as none in msgpack does.
func (c *classNames) name(ctx context.Context, p *event.Prediction) error {
	if p.Classes != nil {
		return nil
	}
	if _, known := c.of[p.Model]; !known {
		found, err := c.graph.Classes(ctx)
		if err != nil {
			return err
		}
		c.of[p.Model] = nil // the ledger is read once for a model that it lacks
		maps.Copy(c.of, found)
	}
	p.Classes = c.of[p.Model]
	return nil
}

// begin returns where to begin in each partition, and the present ends of those that have
// records behind it.
func (t tailCmd) begin(ctx context.Context, c *kafka.Client, topic string) (start, left map[kafka.TopicPartition]int64, err error) {
	bounds, err := look.BoundsOf(ctx, c, topic)
	if err != nil {
		return nil, nil, err
	}
	start, left = make(map[kafka.TopicPartition]int64), make(map[kafka.TopicPartition]int64)
	for at, b := range bounds {
		start[at] = b.First
	}
	if t.Since != (flags.Moment{}) {
		if start, err = c.OffsetsAt(ctx, topic, t.Since.Before(time.Now())); err != nil {
			return nil, nil, err
		}
	}
	for at, b := range bounds {
		if start[at] < b.End {
			left[at] = b.End
		}
	}
	return start, left, nil
}
