package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/cmd/gvbll/service"
	"github.com/gvbll/gvbll/topics/base"
)

type statusCmd struct {
	Kafka flags.Inputs `embed:""`
	Cell  flags.Cell   `embed:""`

	Base string        `help:"Where bases are: looks whether those that the ledger names are there." placeholder:"URL"`
	Last time.Duration `help:"Time to look at; it is compared with the same time before." default:"1h"`
	JSON bool          `help:"Print JSON." name:"json"`
}

// Help is shown by gvbll status --help.
func (statusCmd) Help() string {
	return "Reads Kafka alone, and changes nothing. Scores are of what was served. If something is wrong it says " +
		"so, with the section of docs/runbook.md that has the remedy, and ends with exit code 1."
}

// Run prints the status.
func (c statusCmd) Run(ctx context.Context, p flags.Process) error {
	if c.Last < time.Second {
		return flags.Usagef("--last %v: give a duration such as 1h, 1s or more", c.Last)
	}
	g, err := look.ConnectWhole(ctx, p, c.Kafka, c.Cell)
	if err != nil {
		return err
	}
	defer g.Client.Close()
	if g.Names.Cells > 0 && c.Cell.Cell == nil {
		return c.cells(ctx, p, g)
	}
	members, err := look.MembersOf(ctx, g.Client, g.Names)
	if err != nil {
		return err
	}
	store, err := service.OpenBases(p.Log, c.Base, g.Names)
	if err != nil {
		return err
	}
	st, err := look.ReadStatus(ctx, g, store, c.Kafka.Prefix, members, c.Last)
	if err != nil {
		return err
	}
	return c.print(p, st)
}

// cells prints the status of a graph of several cells.
func (c statusCmd) cells(ctx context.Context, p flags.Process, g look.Graph) error {
	st, err := look.ReadCells(ctx, g, c.Kafka.Prefix, c.Last, func(of look.Graph) (base.Store, error) {
		return service.OpenBases(p.Log, c.Base, of.Names)
	})
	if err != nil {
		return err
	}
	return c.print(p, st)
}

// print prints a status, and returns an error if something is wrong.
func (c statusCmd) print(p flags.Process, st interface {
	Print(out io.Writer) error
	Worst() string // of what is wrong, "" for nothing
},
) error {
	wrong := st.Worst()
	if c.JSON {
		if err := flags.PrintJSON(p.Out, st); err != nil || wrong == "" {
			return err
		}
		return errors.New("something is wrong: " + wrong)
	}
	if err := st.Print(p.Out); err != nil || wrong == "" {
		return err
	}
	return errors.New("something is wrong: see above")
}
