package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/ledger"
)

type topicsCmd struct {
	Kafka flags.Inputs `embed:""`

	Create      bool `help:"Create the topics that are missing."`
	Partitions  int  `help:"Partitions of the topics of nodes, labels and predictions to create." default:"1"`
	Replication int  `help:"Replication factor of the topics to create; -1 for the broker's default." default:"-1"`
	JSON        bool `help:"Print JSON." name:"json"`
}

// Help is shown by gvbll topics --help.
func (topicsCmd) Help() string {
	return "Inputs and ledger are created without a limit on retention, because recovery replays them."
}

// Run lists the topics, after creating missing ones with --create.
func (t topicsCmd) Run(ctx context.Context, p flags.Process, g flags.Given) error {
	if t.Partitions < 1 {
		return flags.Usagef("--partitions %d: give at least 1", t.Partitions)
	}
	if err := g.Check(flags.NoEffect(!t.Create, "no effect without --create: add it", "partitions", "replication")); err != nil {
		return err
	}
	c, names, err := t.Kafka.Connect(ctx, p)
	if err != nil {
		return err
	}
	defer c.Close()
	var created []string
	if t.Create {
		if created, err = topics.Create(ctx, c, names, topics.Layout{Partitions: t.Partitions, Replication: t.Replication}); err != nil {
			return err
		}
	}
	all := names.All()
	have, err := c.Partitions(ctx, all...)
	if err != nil {
		return err
	}
	unfit := topics.CheckWhole(ctx, c, names)
	type row struct {
		Topic      string `json:"topic"`
		Partitions int    `json:"partitions"`
		State      string `json:"state"`
	}
	var rows []row
	for _, n := range all {
		r := row{n, have[n], "there"}
		switch {
		case slices.Contains(created, n):
			r.State = "created"
		case r.Partitions == 0:
			r.State = "missing"
		}
		rows = append(rows, r)
	}
	if t.JSON {
		return cmp.Or(json.NewEncoder(p.Out).Encode(rows), unfit)
	}
	w := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOPIC\tPARTITIONS\tSTATE")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%s\n", r.Topic, r.Partitions, r.State)
	}
	if err := cmp.Or(w.Flush(), unfit); err != nil || have[names.Ledger] == 0 {
		return err
	}
	newest, err := ledger.Newest(ctx, c, names.LedgerAt())
	if newest == nil || err != nil {
		return err
	}
	takes, err := look.Graph{Client: c, Names: names}.TakesClasses(ctx, newest)
	if err == nil && takes != "" {
		_, err = fmt.Fprintf(p.Out, "classes: %s\n", takes)
	}
	return err
}
