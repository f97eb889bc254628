package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

type deadLettersCmd struct {
	Kafka flags.Inputs `embed:""`
	Cell  flags.Cell   `embed:""`

	Reason   []string `help:"List only records that were refused for one of these reasons." placeholder:"REASON"`
	JSON     bool     `help:"Print one JSON object a line, to be edited and given to --resend." name:"json"`
	NoFollow bool     `help:"As 'gvbll tail' has it: the list always ends."`
	Resend   string   `help:"@dead_letters_resend" type:"path" placeholder:"FILE"`
}

var deadLettersHelp = flags.Texts{
	"dead_letters_resend": "Send the records of this file, as --json prints them, to the topics they came from; - " +
		"for standard input.",
}

// Help is shown by gvbll dead-letters --help.
func (deadLettersCmd) Help() string {
	return "To send some again, print them with --json, repair `value` and `headers`, and give the lines to " +
		"--resend. All are sent in one transaction, none twice; one that is refused again is a new dead letter."
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
	graph, err := look.ConnectWhole(ctx, p, c.Kafka, c.Cell)
	if err != nil {
		return err
	}
	defer graph.Client.Close()
	letters := look.LetterBox(graph)
	sent, err := letters.SentAgain(ctx)
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
func (c deadLettersCmd) list(ctx context.Context, w io.Writer, letters look.LetterBox, sent map[look.Source]time.Time) error {
	if !c.JSON {
		fmt.Fprintf(w, "%-20s %-24s %-20s %-16s %s\n", "REASON", "RECORD", "TIME", "KEY", "DETAIL")
	}
	var failed, foreign error
	count := 0 // of records that are not dead letters
	err := letters.Each(ctx, func(r *kafka.Record, refusal *event.Refusal, err error) {
		switch {
		case failed != nil || refusal.Reason == wire.Resent:
		case err == nil || errors.Is(err, wire.ErrTruncated):
			failed = c.print(w, refusal, err != nil, sent[look.SourceOf(refusal.Origin)])
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
		return look.PrintLetter(w, r, truncated, again)
	}
	o, detail := r.Origin, r.Detail
	if !again.IsZero() {
		detail += " (sent again " + look.UTC(again) + ")"
	}
	_, err := fmt.Fprintf(w, "%-20s %-24s %-20s %-16.16q %s\n", r.Reason, o, look.UTC(time.UnixMilli(o.Time)), o.Key, detail)
	return err
}

// resend sends the records of a file again. It sends nothing if a line is wrong, or if
// its record was sent again before.
func (c deadLettersCmd) resend(ctx context.Context, p flags.Process, letters look.LetterBox, sent map[look.Source]time.Time) error {
	in, err := p.OpenInput(c.Resend)
	if err != nil {
		return err
	}
	defer in.Close()
	var records []kafka.Record
	var from []look.Source
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	for n := 1; lines.Scan(); n++ {
		r, at, err := look.ReadLetter(lines.Bytes(), letters.Names)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if again, ok := sent[at]; ok {
			return fmt.Errorf("line %d: the record was sent again at %s: leave the line out", n, look.UTC(again))
		}
		sent[at] = time.Now()
		records, from = append(records, r), append(from, at)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if err := letters.Send(ctx, records, from); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "sent %d records again\n", len(records))
	return err
}
