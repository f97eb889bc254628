package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/worker"
)

type ledgerCmd struct {
	Kafka flags.Kafka `embed:""`

	From   int64 `help:"First window to print." default:"0"`
	Shards bool  `help:"Of a graph of several shards, print instead who owns which task, and how far each is."`
	JSON   bool  `help:"Print the records as they are, one JSON object a line." name:"json"`
}

// Help is shown by gvbll ledger --help.
func (ledgerCmd) Help() string {
	return "Prints the ledger: first the model and the settings, then for each window what cut it, the numbers of its predictions, labels and refusals, the hashes of the posterior and of all predictions and learned labels so far, and the offsets that it read from each input partition; and where an epoch begins, or another model was promoted. With --json also the state of the model in the shadow.\n\n" +
		"Of a graph of several shards it prints the cuts that all shards execute, with the hash of each, and the last window that all were done with. What a shard made of a window is in its own partition: 'gvbll ledger --shards' compares how far they are."
}

// Run prints the committed records up to the present end of the ledger.
func (c ledgerCmd) Run(ctx context.Context, p flags.Process, g flags.Given) error {
	if err := g.Check(flags.NoEffect(c.Shards, "no effect with --shards: leave out one of them", "from")); err != nil {
		return err
	}
	client, names, err := c.Kafka.Connect(ctx, p)
	if err != nil {
		return err
	}
	defer client.Close()
	count, err := topics.Shards(ctx, client, names)
	if err != nil {
		return err
	}
	switch {
	case c.Shards && count > 0:
		return c.printShards(ctx, p, client, names, count)
	case c.Shards:
		return flags.Usagef("--shards: the graph %s has none: its ledger has one partition, or is not there. 'gvbll status' says who owns it", c.Kafka.Prefix)
	case count > 0:
		return c.printCuts(ctx, p, client, names)
	}
	l, err := ledger.OpenAt(ctx, client, names.LedgerAt(0), 0)
	if err != nil {
		return err
	}
	t := ledgerTable{out: p.Out}
	for first := true; ; first = false {
		r, err := l.Next(ctx)
		if r == nil || err != nil {
			return err
		}
		if first && r.Window > 0 {
			fmt.Fprintf(p.Err, "ledger %s begins with window %d: the records before it are gone; set retention.ms=-1, so that no more are lost\n", names.Ledger, r.Window)
		}
		t.note(r)
		switch {
		case r.Window < c.From:
		case c.JSON:
			_, err = fmt.Fprintf(p.Out, "%s\n", r.Append(nil))
		default:
			err = t.print(r)
		}
		if err != nil {
			return err
		}
	}
}

func (c ledgerCmd) printShards(ctx context.Context, p flags.Process, client *kafka.Client, names topics.Names, count int) error {
	members, err := membersOf(ctx, client, names)
	if err != nil {
		return err
	}
	found, err := readShards(ctx, client, names, count, members)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return flags.PrintJSON(p.Out, found)
	default:
		return found.print(p.Out, time.Now())
	}
}

// printCuts prints the cuts of a sharded graph.
func (c ledgerCmd) printCuts(ctx context.Context, p flags.Process, client *kafka.Client, names topics.Names) error {
	cuts, err := ledger.OpenCuts(ctx, client, names.LedgerAt(0), ledger.Place{})
	if err != nil {
		return err
	}
	for model := ""; ; {
		cut, err := cuts.Next(ctx)
		if cut == nil || err != nil {
			return err
		}
		if cut.Window < c.From {
			continue
		}
		if c.JSON {
			_, err = fmt.Fprintf(p.Out, "%s\n", cut.Append(nil))
		} else {
			if cut.Begins != nil || model == "" {
				model = cut.Model
				fmt.Fprintf(p.Out, "model %s\nsettings %s\n\n%8s %-8s %-12s %8s %-12s %s\n", model, cmp.Or(string(cut.Configuration), cut.Settings), "WINDOW", "CUT BY", "HASH", "COMPLETE", "CHAIN", "OFFSETS")
			}
			done := ledger.Complete{Window: -1, Chain: "-"}
			if cut.Done != nil {
				done = *cut.Done
			}
			_, err = fmt.Fprintf(p.Out, "%8d %-8s %-12.12s %8d %-12.12s %s\n", cut.Window, cut.Cause, cut.Hash, done.Window+1, done.Chain, strings.Join(rangesOf(cut.Ranges), " "))
		}
		if err != nil {
			return err
		}
	}
}

// rangesOf returns the ranges as the ledger is printed with them.
func rangesOf(ranges []ledger.Range) (notes []string) {
	for _, g := range ranges {
		notes = append(notes, fmt.Sprintf("%s/%d:%d-%d", g.Topic, g.Partition, g.From, g.To-1))
	}
	return notes
}

// ledgerTable prints ledger records as lines of a table.
type ledgerTable struct {
	out      io.Writer
	settings string // of the records so far
	model    string // that serves after the last one printed, "" before the first
}

// note stores the settings of a record that holds them, or else their hash.
func (t *ledgerTable) note(r *ledger.Record) {
	if r.Configuration != "" {
		t.settings = string(r.Configuration)
	} else if t.settings == "" {
		t.settings = r.Settings
	}
}

func (t *ledgerTable) print(r *ledger.Record) error {
	switch t.model {
	case "":
		fmt.Fprintf(t.out, "model %s\nsettings %s\n\n%8s %-8s %11s %7s %7s %8s  %-12s %-12s %s\n", r.Model, t.settings,
			"WINDOW", "CUT BY", "PREDICTIONS", "LABELS", "REFUSED", "UPDATES", "POSTERIOR", "CHAIN", "OFFSETS")
	case r.Model:
	default:
		t.printSwitch(r.Window, r.Model)
	}
	if b := r.Begins; b != nil && r.Epoch > 0 {
		fmt.Fprintf(t.out, "%8d epoch %d begins, by gvbll %s: %s\nsettings %s\n", r.Window, r.Epoch, b.Program, b.Why, t.settings)
		if r.HasGap() {
			fmt.Fprintf(t.out, "%8d behind a gap, with the state of the checkpoint before window %d and what is left since; gone: %s\n", r.Window, b.Checkpoint, worker.DescribeGap(b.Gap))
		}
	}
	t.model = r.Model
	notes := rangesOf(r.Ranges)
	if r.Forgot != nil {
		notes = append(notes, fmt.Sprintf("forgot %d", r.Forgot.Nodes))
	}
	if t := r.Trial; t != nil && t.Decided != "" {
		notes = append(notes, fmt.Sprintf("model %s %s after %d labels, %+.2f nats ahead", t.Model, t.Decided, t.Labels, t.Lead))
	}
	if r.Head != "" {
		notes = append(notes, "served by "+r.Head)
	}
	_, err := fmt.Fprintf(t.out, "%8d %-8s %11d %7d %7d %8d  %-12.12s %-12.12s %s\n",
		r.Window, r.Cause, r.Predictions, r.Labels, r.Refused, r.Updates, r.Posterior, r.Chain, strings.Join(notes, " "))
	if r.Promoted != "" {
		t.printSwitch(r.Window+1, r.Promoted)
	}
	return err
}

// printSwitch prints that another model serves from a window on.
func (t *ledgerTable) printSwitch(window int64, model string) {
	fmt.Fprintf(t.out, "%8d model %s serves from here on, before it model %s\n", window, model, t.model)
	t.model = model
}
