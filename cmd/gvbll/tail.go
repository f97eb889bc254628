package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

type tailCmd struct {
	Kafka kafkaFlags `embed:""`

	JSON   bool `help:"Print one JSON object a line." name:"json"`
	New    bool `help:"Only predictions published from now on, not those that are there."`
	Limit  int  `help:"End after this many; 0 for no limit." short:"n"`
	Follow bool `help:"Wait for more at the end; --no-follow ends there." default:"true" negatable:""`
}

// Run prints committed predictions in the order of publication.
func (t tailCmd) Run(ctx context.Context, s streams) error {
	c, names, err := t.Kafka.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	bounds, err := c.Offsets(ctx, names.Predictions)
	if err != nil {
		return err
	}
	start, left := make(map[kafka.TopicPartition]int64), make(map[kafka.TopicPartition]int64)
	for at, b := range bounds {
		start[at] = b.First
		if t.New {
			start[at] = b.End
		}
		if start[at] < b.End {
			left[at] = b.End
		}
	}
	if len(start) == 0 {
		return fmt.Errorf("topic %s does not exist: check --prefix, or run 'gvbll topics --create'", names.Predictions)
	}
	if !t.JSON {
		fmt.Fprintf(s.out, "%-16s %-16s %10s %8s %9s %9s %8s %8s\n", "NODE", "CLASS", "CONFIDENCE", "TOTAL", "ALEATORIC", "EPISTEMIC", "WINDOW", "UPDATES")
	}
	reader := c.NewReader(start, kafka.ReaderConfig{})
	defer reader.Close()
	for printed := 0; t.Follow || len(left) > 0; {
		records, err := reader.Poll(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for i := range records {
			if err := t.print(s.out, &records[i]); err != nil {
				return err
			}
			if printed++; printed == t.Limit {
				return nil
			}
		}
		for at, end := range left {
			if reader.Position(at) >= end {
				delete(left, at)
			}
		}
	}
	return nil
}

// printable is what a terminal takes for text: ids come from outside, and could
// tell it to do something.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}

func (t tailCmd) print(w io.Writer, r *kafka.Record) error {
	var p event.Prediction
	if err := wire.DecodePrediction(r.Value, &p); err != nil {
		return fmt.Errorf("%s partition %d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	if t.JSON {
		_, err := fmt.Fprintf(w, "%s\n", wire.AppendPredictionJSON(nil, &p))
		return err
	}
	_, err := fmt.Fprintf(w, "%-16s %-16s %10.4f %8.4f %9.4f %9.4f %8d %8d\n",
		printable(p.Node.String()), printable(p.Class), p.Confidence, p.Total, p.Aleatoric, p.Epistemic, p.Window, p.PosteriorVersion)
	return err
}
