package main

import (
	"context"
	"fmt"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
)

type exportCmd struct {
	Kafka flags.Inputs `embed:""`
	Cell  flags.Cell   `embed:""`
	Until look.Place   `help:"@export_until" placeholder:"WINDOW|TIME" group:"log"`

	Out    string `help:"Folder to write the tables nodes and edges, and dataset.json, into." required:"" type:"path" placeholder:"DIR"`
	Format string `help:"Format of the tables: csv or parquet." enum:"csv,parquet" default:"csv" placeholder:"csv"`
	Model  string `help:"@export_model" type:"existingfile" placeholder:"FILE"`
}

var exportHelp = flags.Texts{
	"export_model": "File of the model that serves: nodes that it refused are left out, kinds of edges have its directions, and " +
		"columns the kinds and units of its schema. Without it both are read from the events.",
	"export_until": "Read the windows before this one, or those committed before this time; all when left out.",
}

// Help is shown by gvbll export --help.
func (exportCmd) Help() string {
	return "Writes the graph that a ledger has as a data set, with the nodes' ids, latest features, labels, kinds and " +
		"weights of edges, and " +
		"event times (windows, if no event has a time), and a split: nodes that came as context are for training, " +
		"the others are the stream. 'gvbll train --data' reads it, and so do other programs (docs/datasets.md)."
}

// Run writes the data set.
func (c exportCmd) Run(ctx context.Context, p flags.Process) error {
	if err := flags.CheckFolder("--out", c.Out, 0o700); err != nil {
		return err
	}
	g, err := look.Connect(ctx, p, c.Kafka, c.Cell)
	if err != nil {
		return err
	}
	defer g.Client.Close()
	l, err := look.OpenLog(ctx, g, look.Span{Until: c.Until})
	if err != nil {
		return err
	}
	serving, err := openServing(c.Model, l)
	if err != nil {
		return err
	}
	d, err := l.DataSet(ctx, serving, p.Err)
	if err != nil {
		return err
	}
	if err := flags.SaveData(d, c.Out, c.Format); err != nil {
		return fmt.Errorf("--out %s: %w", c.Out, err)
	}
	_, err = fmt.Fprintf(p.Out, "%s: %d nodes, %d of them labelled, %d edges, %d classes, from %d windows\n",
		c.Out, len(d.Features), d.Labelled(), len(d.Edges), len(d.Classes), l.Windows)
	return err
}
