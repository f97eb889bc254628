package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

type tailCmd struct {
	Kafka kafkaFlags `embed:""`

	Limit  int  `help:"End after this many predictions; 0 for no limit." short:"n" default:"0"`
	New    bool `help:"Print only predictions that are published from now on."`
	Follow bool `help:"Wait for more at the end of the topic; --no-follow ends there." default:"true" negatable:""`
	JSON   bool `help:"Print one JSON object a line." name:"json"`
	Lines  bool `help:"Print lines on a terminal too, instead of a live table of the last predictions."`
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
	var live *tailView
	if !t.JSON && !t.Lines {
		if screen := newScreen(s.out); screen != nil {
			live = &tailView{screen: screen, began: time.Now()}
		}
	}
	if !t.JSON && live == nil {
		fmt.Fprintln(s.out, tailHeader)
	}
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
			if err := t.print(s.out, live, &records[i]); err != nil {
				return err
			}
			if printed++; printed == t.Limit {
				return live.paint()
			}
		}
		if err := live.paint(); err != nil {
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

// print shows one prediction, in the live table unless that is nil.
func (t tailCmd) print(w io.Writer, live *tailView, r *kafka.Record) error {
	var p event.Prediction
	if err := wire.DecodePrediction(r.Value, &p); err != nil {
		return fmt.Errorf("%s partition %d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	switch {
	case live != nil:
		live.add(&p)
		return nil
	case t.JSON:
		_, err := fmt.Fprintf(w, "%s\n", wire.AppendPredictionJSON(nil, &p))
		return err
	}
	_, err := fmt.Fprintln(w, tailLine(&p))
	return err
}

var tailHeader = fmt.Sprintf("%-16s %-16s %10s %8s %9s %9s %8s %8s", "NODE", "CLASS", "CONFIDENCE", "TOTAL", "ALEATORIC", "EPISTEMIC", "WINDOW", "UPDATES")

func tailLine(p *event.Prediction) string {
	return fmt.Sprintf("%-16s %-16s %10.4f %8.4f %9.4f %9.4f %8d %8d%s",
		shown(p.Node.String()), shown(p.Class), p.Confidence, p.Total, p.Aleatoric, p.Epistemic, p.Window, p.PosteriorVersion, again(p))
}

// again marks a revision. It returns "" for the first prediction of a node.
func again(p *event.Prediction) string {
	if p.Revision == 0 {
		return ""
	}
	return fmt.Sprintf("  revision %d", p.Revision)
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
	v.rows = append(v.rows, fmt.Sprintf("%s %s %s %6.4f %8.4f %9.4f %9.4f %8d %8d%s", column(p.Node.String(), 16), column(p.Class, 16),
		bar(float64(p.Confidence), 10), p.Confidence, p.Total, p.Aleatoric, p.Epistemic, p.Window, p.PosteriorVersion, again(p)))
	if most := 1 << 10; len(v.rows) > 2*most { // more than any terminal is high
		v.rows = append(v.rows[:0], v.rows[len(v.rows)-most:]...)
	}
}

// paint shows the table. On nil it does nothing.
func (v *tailView) paint() error {
	if v == nil {
		return nil
	}
	_, height := v.screen.size()
	return v.screen.paint(v.lines(height-1, time.Since(v.began)))
}

// lines returns the table, with the given number of lines at most.
func (v *tailView) lines(most int, since time.Duration) []line {
	n := float64(max(v.count, 1))
	list := []line{
		{fmt.Sprintf("%d predictions, %.0f a second, mean confidence %.4f, mean epistemic uncertainty %.4f nats",
			v.count, float64(v.count)/max(since.Seconds(), 1e-3), v.confidence/n, v.epistemic/n), bold},
		{fmt.Sprintf("%-16s %-16s %-17s %8s %9s %9s %8s %8s", "NODE", "CLASS", "CONFIDENCE", "TOTAL", "ALEATORIC", "EPISTEMIC", "WINDOW", "UPDATES"), faint},
	}
	for _, r := range v.rows[max(len(v.rows)-max(most-len(list), 0), 0):] {
		list = append(list, line{r, usual})
	}
	return list
}
