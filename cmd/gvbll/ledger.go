package main

import (
	"context"
	"fmt"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/topics/ledger"
)

type ledgerCmd struct {
	Kafka flags.Kafka `embed:""`
	Cell  flags.Cell  `embed:""`

	From int64 `help:"First window to print." default:"0"`
	JSON bool  `help:"Print the records as they are, one JSON object a line." name:"json"`
}

// Help is shown by gvbll ledger --help.
func (ledgerCmd) Help() string {
	return "Prints the model and the settings, then for each window what cut it, its predictions, labels and " +
		"refusals, hashes and offsets; and where an epoch begins, or another model was promoted."
}

// Run prints the committed records up to the present end of the ledger.
func (c ledgerCmd) Run(ctx context.Context, p flags.Process) error {
	graph, err := look.Connect(ctx, p, c.Kafka, c.Cell)
	if err != nil {
		return err
	}
	defer graph.Client.Close()
	l, err := ledger.OpenAt(ctx, graph.Client, graph.Names.LedgerAt(), 0)
	if err != nil {
		return err
	}
	t := look.LedgerTable{Out: p.Out}
	for first := true; ; first = false {
		r, err := l.Next(ctx)
		if r == nil || err != nil {
			return err
		}
		if first && r.Window > 0 {
			fmt.Fprintf(p.Err, "ledger %s begins with window %d: the records before it are gone; set "+
				"retention.ms=-1, so that no more are lost\n", graph.Names.Ledger, r.Window)
		}
		t.Note(r)
		switch {
		case r.Window < c.From:
		case c.JSON:
			_, err = fmt.Fprintf(p.Out, "%s\n", r.Append(nil))
		default:
			err = t.Print(r)
		}
		if err != nil {
			return err
		}
	}
}
