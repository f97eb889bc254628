package main

import (
	"context"
	"errors"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/cmd/gvbll/service"
)

type statusCmd struct {
	Kafka flags.Inputs `embed:""`

	Base string        `help:"Where bases are, as for 'gvbll work': looks whether those that the ledger names are there." placeholder:"URL"`
	Last time.Duration `help:"Length of the time to look at. It is compared with the same length before." default:"1h"`
	JSON bool          `help:"Print JSON." name:"json"`
}

// Help is shown by gvbll status --help.
func (statusCmd) Help() string {
	return "Reads Kafka alone: the election of the workers, the end of the ledger, and the offsets of the inputs. " +
		"It changes nothing. Scores are of what was served, and come from the ledger. " +
		"If something is wrong it says so, with the section of docs/runbook.md that has the remedy, and ends with " +
		"exit code 1: it can be a probe."
}

// Run prints the status.
func (c statusCmd) Run(ctx context.Context, p flags.Process) error {
	if c.Last < time.Second {
		return flags.Usagef("--last %v: give a duration such as 1h, 1s or more", c.Last)
	}
	g, err := look.Connect(ctx, p, c.Kafka)
	if err != nil {
		return err
	}
	defer g.Client.Close()
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
	if c.JSON {
		err = st.PrintJSON(p.Out)
	} else {
		err = st.Print(p.Out)
	}
	if err == nil && len(st.Wrong) > 0 {
		err = errors.New("something is wrong: " + st.Wrong[0].What)
	}
	return err
}
