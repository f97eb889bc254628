package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

type tailCmd struct {
	Kafka flags.Kafka `embed:""`
	Cell  flags.Cell  `embed:""`

	Offset  offsetFlag   `help:"@tail_offset" short:"o" default:"beginning" placeholder:"beginning"`
	Since   flags.Moment `help:"@tail_since" placeholder:"TIME"`
	Key     []string     `help:"Print only predictions with these keys: the ids of their nodes." short:"k" placeholder:"KEY" sep:"none"`
	ToLabel bool         `help:"@tail_to_label"`
	Limit   int          `help:"End after this many predictions; 0 for no limit." short:"n" default:"0"`
	Follow  bool         `help:"Wait for more at the end of the topic; --no-follow ends there." default:"true" negatable:""`
	JSON    bool         `help:"Print one JSON object a line, with the place of each and when it was published." name:"json"`
}

var tailHelp = flags.Texts{
	"tail_offset":   "Begin each partition at: beginning, end, an offset, or -N for its last N records.",
	"tail_since":    "Begin with what was published since: 1h (before now), or 2026-01-31T12:00:00Z.",
	"tail_to_label": "Print the nodes of which labels are asked for (gvbll work --ask).",
}

func (tailCmd) Help() string {
	return "CONF is the confidence, TOTAL the uncertainty in nats, EPIST the part of it that more labels can remove, SET the " +
		"set of classes (docs/wire-format.md)."
}

// Run prints committed predictions in the order of publication.
func (t tailCmd) Run(ctx context.Context, p flags.Process, g flags.Given) error {
	if err := g.Check(flags.NoEffect(t.Since != (flags.Moment{}), "no effect with --since: leave out one of them", "offset")); err != nil {
		return err
	}
	graph, err := look.ConnectWhole(ctx, p, t.Kafka, t.Cell)
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
	if !t.JSON {
		fmt.Fprintln(p.Out, look.TailHeader)
	}
	out := tailed{
		cmd: t, w: p.Out, classes: classNames{graph: graph, of: make(map[string][]string)},
		last: make(map[kafka.TopicPartition][]kafka.Record),
	}
	reader := c.NewReader(start, kafka.ReaderConfig{})
	for !out.full() && (t.Follow || len(left) > 0) {
		records, err := reader.Poll(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for i := range records {
			r := &records[i]
			at := kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}
			if t.Offset.last > 0 && r.Offset < left[at] {
				out.keep(at, r)
			} else if err := errors.Join(out.flush(ctx, at), out.print(ctx, r)); err != nil {
				return err
			}
		}
		for at, end := range left {
			if reader.Position(at) < end {
				continue
			}
			delete(left, at)
			if err := out.flush(ctx, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// tailed is what is printed.
type tailed struct {
	cmd     tailCmd
	w       io.Writer
	classes classNames
	printed int
	last    map[kafka.TopicPartition][]kafka.Record // of --offset -N, up to the present end
}

// full reports whether as many are printed as are wanted.
func (t *tailed) full() bool { return t.cmd.Limit > 0 && t.printed >= t.cmd.Limit }

// keep keeps a record that may be one of the last ones of its partition.
func (t *tailed) keep(at kafka.TopicPartition, r *kafka.Record) {
	kept := append(t.last[at], kafka.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Time, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value),
	})
	t.last[at] = kept[max(len(kept)-t.cmd.Offset.last, 0):]
}

// flush prints the records that were kept of a partition.
func (t *tailed) flush(ctx context.Context, at kafka.TopicPartition) error {
	kept := t.last[at]
	delete(t.last, at)
	for i := range kept {
		if err := t.print(ctx, &kept[i]); err != nil {
			return err
		}
	}
	return nil
}

// print prints the prediction of a record, if it is wanted.
func (t *tailed) print(ctx context.Context, r *kafka.Record) error {
	if t.full() || len(t.cmd.Key) > 0 && !slices.Contains(t.cmd.Key, string(r.Key)) {
		return nil
	}
	var p event.Prediction
	if err := wire.DecodePrediction(r.Value, &p); err != nil {
		return fmt.Errorf("%s partition %d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	t.printed++
	if !t.cmd.JSON {
		return look.PrintTail(t.w, &p)
	}
	if err := t.classes.name(ctx, &p); err != nil {
		return err
	}
	_, err := fmt.Fprintf(t.w, "%s,\"partition\":%d,\"offset\":%d,\"published\":%d}\n",
		bytes.TrimSuffix(wire.JSON.AppendPrediction(nil, &p), []byte("}")), r.Partition, r.Offset, r.Time.UnixMilli())
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
		start[at] = t.Offset.in(b)
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

// offsetFlag says where to begin in a partition. The zero value is its beginning.
type offsetFlag struct {
	text string
	from int64 // an offset
	end  bool  // the end, less the last N
	last int
}

func (f offsetFlag) String() string { return f.text }

// Decode implements [kong.MapperValue]: -3 is a value here, and no flag.
func (f *offsetFlag) Decode(ctx *kong.DecodeContext) error {
	*f = offsetFlag{text: fmt.Sprint(ctx.Scan.Pop().Value)}
	switch f.text {
	case "beginning":
		return nil
	case "end":
		f.end = true
		return nil
	}
	n, err := strconv.ParseInt(f.text, 10, 64)
	if err != nil || n < -1<<31 {
		return errors.New("give beginning, end, an offset, or -N for the last N records")
	}
	if f.end = f.text[0] == '-'; f.end {
		f.last = int(-n)
	} else {
		f.from = n
	}
	return nil
}

// in returns the offset in a partition, within its bounds. The last N records of a partition
// begin earlier than N offsets before its end, because the end of each transaction has one too.
func (f offsetFlag) in(b kafka.Bounds) int64 {
	if f.end {
		return max(b.End-2*int64(f.last), b.First)
	}
	return min(max(f.from, b.First), b.End)
}
