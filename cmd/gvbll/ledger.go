package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/gvbll/gvbll/topics/ledger"
)

type ledgerCmd struct {
	Kafka kafkaFlags `embed:""`

	From int64 `help:"First window to print." default:"0"`
	JSON bool  `help:"Print one JSON object a line, as the ledger has it." name:"json"`
}

// Help is shown by gvbll ledger --help.
func (ledgerCmd) Help() string {
	return "Prints the ledger: first the model and the settings, then for each window what cut it, how many predictions, labels and refusals came of it, the hashes of the posterior and of all that was served and learned so far, and the offsets that it read of each input partition; and where another model was promoted. With --json also the state of the model in the shadow."
}

// Run prints the committed records that are there.
func (c ledgerCmd) Run(ctx context.Context, s streams) error {
	client, names, err := c.Kafka.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	l, err := ledger.Open(ctx, client, names.Ledger)
	if err != nil {
		return err
	}
	defer l.Close()
	header, model, settings := !c.JSON, "", ""
	for {
		r, err := l.Next(ctx)
		if err != nil {
			return err
		}
		if r == nil {
			return nil
		}
		if r.Configuration != "" {
			settings = string(r.Configuration)
		} else if r.Version == 1 {
			settings = r.Settings
		}
		if r.Window < c.From {
			continue
		}
		if c.JSON {
			fmt.Fprintf(s.out, "%s\n", r.Append(nil))
			continue
		}
		if header {
			header = false
			fmt.Fprintf(s.out, "model %s\nsettings %s\n\n%8s %-8s %11s %7s %7s %8s  %-12s %-12s %s\n", r.Model, settings,
				"WINDOW", "CUT BY", "PREDICTIONS", "LABELS", "REFUSED", "UPDATES", "POSTERIOR", "CHAIN", "OFFSETS")
		}
		if r.Model != model {
			if model != "" {
				fmt.Fprintf(s.out, "%8d model %s serves from here on, before it model %s\n", r.Window, r.Model, model)
			}
			model = r.Model
		}
		var read []string
		for _, g := range r.Ranges {
			read = append(read, fmt.Sprintf("%s/%d:%d-%d", g.Topic, g.Partition, g.From, g.To-1))
		}
		if r.Forgot != nil {
			read = append(read, fmt.Sprintf("forgot %d", r.Forgot.Nodes))
		}
		by := ""
		if r.Head != "" {
			by = " served by " + r.Head
		}
		if _, err := fmt.Fprintf(s.out, "%8d %-8s %11d %7d %7d %8d  %-12.12s %-12.12s %s%s\n",
			r.Window, r.Cause, r.Predictions, r.Labels, r.Refused, r.Updates, r.Posterior, r.Chain, strings.Join(read, " "), by); err != nil {
			return err
		}
	}
}
