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
	"export_model": "File of the model that serves: what it refused is left out, and directions, kinds and units are its own.",
	"export_until": "Read the windows before this one, or those committed before this time; all when left out.",
}

// Help is shown by gvbll export --help.
func (exportCmd) Help() string {
	return "Writes ids, latest features, labels, times (windows, if no event has one), edges with kinds and " +
		"weights, and a split: what came as context is for training. 'gvbll train --data' reads it " +
		"(docs/datasets.md)."
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
