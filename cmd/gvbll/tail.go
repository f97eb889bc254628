package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

type tailCmd struct {
	Kafka flags.Kafka `embed:""`

	Offset    offsetFlag `help:"Begin each partition at: beginning, end, an offset, or -N for its last N records." short:"o" default:"beginning" placeholder:"beginning"`
	Since     momentFlag `help:"Begin with what was published since then: a duration ago, as 1h, or a time, as 2026-01-31T12:00:00Z." placeholder:"TIME"`
	Partition []int32    `help:"Read only these partitions." short:"p" placeholder:"N"`
	Key       []string   `help:"Print only predictions with these keys: the ids of their nodes." short:"k" placeholder:"KEY" sep:"none"`
	Limit     int        `help:"End after this many predictions; 0 for no limit." short:"n" default:"0"`
	Follow    bool       `help:"Wait for more at the end of the topic; --no-follow ends there." default:"true" negatable:""`
	JSON      bool       `help:"Print one JSON object a line." name:"json"`
	Lines     bool       `help:"Print lines on a terminal too, instead of a live table of the last predictions."`
}

// Check refuses flags that contradict each other.
func (t tailCmd) check(g flags.Given) error {
	return g.Check(
		flags.NoEffect(!t.Since.IsZero(), "no effect with --since: leave out one of them", "offset"),
		flags.NoEffect(t.JSON, "no effect with --json, which prints lines: leave it out", "lines"),
	)
}

// Run prints committed predictions in the order of publication.
func (t tailCmd) Run(ctx context.Context, p flags.Process, g flags.Given) error {
	if err := t.check(g); err != nil {
		return err
	}
	c, names, err := t.Kafka.Connect(ctx, p)
	if err != nil {
		return err
	}
	defer c.Close()
	start, left, err := t.begin(ctx, c, names.Predictions)
	if err != nil {
		return err
	}
	show, paint := t.printer(p.Out, p)
	reader := c.NewReader(start, kafka.ReaderConfig{})
	for printed := 0; t.Follow || len(left) > 0; {
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
			var p event.Prediction
			if err := wire.DecodePrediction(r.Value, &p); err != nil {
				return fmt.Errorf("%s partition %d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
			}
			if err := show(&p); err != nil {
				return err
			}
			if printed++; printed == t.Limit {
				return paint()
			}
		}
		if err := paint(); err != nil {
			return err
		}
		for at, end := range left {
			if reader.Position(at) >= end {
				delete(left, at)
			}
		}
	}
	return nil
}

// begin returns where to begin in each partition, and the present ends of those that have
// records behind it.
func (t tailCmd) begin(ctx context.Context, c *kafka.Client, topic string) (start, left map[kafka.TopicPartition]int64, err error) {
	bounds, err := boundsOf(ctx, c, topic)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range t.Partition {
		if _, there := bounds[kafka.TopicPartition{Topic: topic, Partition: p}]; !there {
			return nil, nil, flags.Usagef("--partition %d: topic %s has the partitions 0 to %d", p, topic, len(bounds)-1)
		}
	}
	var since map[kafka.TopicPartition]int64
	if !t.Since.IsZero() {
		if since, err = c.OffsetsAt(ctx, topic, t.Since.Time); err != nil {
			return nil, nil, err
		}
	}
	start, left = make(map[kafka.TopicPartition]int64), make(map[kafka.TopicPartition]int64)
	for at, b := range bounds {
		if len(t.Partition) > 0 && !slices.Contains(t.Partition, at.Partition) {
			continue
		}
		start[at] = t.Offset.in(b)
		if since != nil {
			start[at] = since[at]
		}
		if start[at] < b.End {
			left[at] = b.End
		}
	}
	return start, left, nil
}

// printer returns a function that prints a prediction, and one that is called after each
// fetch and at the end. On a terminal they are those of a live table, unless lines are
// asked for.
func (t tailCmd) printer(w io.Writer, p flags.Process) (show func(*event.Prediction) error, paint func() error) {
	nothing := func() error { return nil }
	switch {
	case t.JSON:
		return func(p *event.Prediction) error {
			_, err := fmt.Fprintf(w, "%s\n", wire.AppendPredictionJSON(nil, p))
			return err
		}, nothing
	case !t.Lines:
		if screen := newScreen(w, p); screen != nil {
			live := &tailView{screen: screen, began: time.Now()}
			return func(p *event.Prediction) error {
				live.add(p)
				return nil
			}, live.paint
		}
	}
	fmt.Fprintln(w, tailHeader)
	return func(p *event.Prediction) error {
		_, err := fmt.Fprintln(w, tailLine(p))
		return err
	}, nothing
}

// offsetFlag says where to begin in a partition. The zero value is its beginning.
type offsetFlag struct {
	text string
	end  bool  // the end, less N
	n    int64 // an offset, or N
}

func (f offsetFlag) String() string { return f.text }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *offsetFlag) UnmarshalText(text []byte) error {
	*f = offsetFlag{text: string(text)}
	switch f.text {
	case "beginning":
		return nil
	case "end":
		f.end = true
		return nil
	}
	n, err := strconv.ParseInt(f.text, 10, 64)
	if err != nil {
		return errors.New("give beginning, end, an offset, or -N for the last N records")
	}
	f.end, f.n = f.text[0] == '-', max(n, -n)
	return nil
}

// in returns the offset in a partition, within its bounds.
func (f offsetFlag) in(b kafka.Bounds) int64 {
	if f.end {
		return max(b.End-f.n, b.First)
	}
	return min(max(f.n, b.First), b.End)
}

// momentFlag is a point in time: a duration before now, or a time.
type momentFlag struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *momentFlag) UnmarshalText(text []byte) (err error) {
	if ago, err := time.ParseDuration(string(text)); err == nil && ago > 0 {
		f.Time = time.Now().Add(-ago)
		return nil
	}
	if f.Time, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return fmt.Errorf("%.60q: give a duration, such as 1h, or a time, such as 2026-01-31T12:00:00Z", text)
	}
	return nil
}

// The columns of a line. With a revision's number it fits into 80 columns.
var tailHeader = fmt.Sprintf("%-16s %-14s %6s %6s %6s %6s %7s %7s", "NODE", "CLASS", "CONF", "TOTAL", "ALEAT", "EPIST", "WINDOW", "UPDATES")

func tailLine(p *event.Prediction) string {
	return fmt.Sprintf("%s %s %6.4f %6.4f %6.4f %6.4f %7d %7d%s",
		column(p.Node.String(), 16), column(p.Class, 14), p.Confidence, p.Total, p.Aleatoric, p.Epistemic, p.Window, p.PosteriorVersion, again(p))
}

// again marks a revision. It returns "" for the first prediction of a node.
func again(p *event.Prediction) string {
	if p.Revision == 0 {
		return ""
	}
	return fmt.Sprintf(" r%d", p.Revision)
}

// tailView is a live table of the last predictions, with means over all.
type tailView struct {
	screen *screen
	began  time.Time

	count      int
	confidence float64 // summed
	epistemic  float64
	rows       []string
}

func (v *tailView) add(p *event.Prediction) {
	v.count++
	v.confidence += float64(p.Confidence)
	v.epistemic += float64(p.Epistemic)
	v.rows = append(v.rows, fmt.Sprintf("%s %s %s %6.4f %6.4f %6.4f %6.4f %7d%s", column(p.Node.String(), 16), column(p.Class, 14),
		bar(float64(p.Confidence), 6), p.Confidence, p.Total, p.Aleatoric, p.Epistemic, p.Window, again(p)))
	if most := 1 << 10; len(v.rows) > 2*most { // more than any terminal is high
		v.rows = append(v.rows[:0], v.rows[len(v.rows)-most:]...)
	}
}

// paint shows the table.
func (v *tailView) paint() error {
	_, height := v.screen.size()
	return v.screen.paint(v.lines(height-1, time.Since(v.began)))
}

// lines returns the table, with the given number of lines at most.
func (v *tailView) lines(most int, since time.Duration) []line {
	n := float64(max(v.count, 1))
	list := []line{
		{fmt.Sprintf("%d predictions, %.0f a second; means: confidence %.4f, epistemic %.4f nats",
			v.count, float64(v.count)/max(since.Seconds(), 1e-3), v.confidence/n, v.epistemic/n), bold},
		{fmt.Sprintf("%-16s %-14s %-13s %6s %6s %6s %7s", "NODE", "CLASS", "CONFIDENCE", "TOTAL", "ALEAT", "EPIST", "WINDOW"), faint},
	}
	for _, r := range v.rows[max(len(v.rows)-max(most-len(list), 0), 0):] {
		list = append(list, line{r, usual})
	}
	return list
}
