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

// maxCells bounds the cells of a graph: brokers and workers keep something for each.
const maxCells = 100_000

type topicsCmd struct {
	Kafka flags.Inputs `embed:""`

	Create      bool `help:"Create the topics that are missing."`
	Partitions  int  `help:"Partitions of the topics of nodes, labels and predictions to create." default:"1"`
	Cells       int  `help:"@topics_cells" default:"1"`
	Replication int  `help:"Replication factor of the topics to create; -1 for the broker's default." default:"-1"`
	JSON        bool `help:"Print JSON." name:"json"`
}

var topicsHelp = flags.Texts{
	"topics_cells": "Graphs that the topics have, each in a partition of every one (docs/reliability.md). More " +
		"than there are adds cells.",
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
	if t.Cells < 1 || t.Cells > maxCells {
		return flags.Usagef("--cells %d: give 1 to %d", t.Cells, maxCells)
	}
	if err := g.Check(
		flags.NoEffect(!t.Create, "no effect without --create: add it", "partitions", "replication", "cells"),
		flags.NoEffect(t.Cells > 1, "no effect with --cells: each has one of every topic", "partitions"),
	); err != nil {
		return err
	}
	c, names, err := t.Kafka.Connect(ctx, p)
	if err != nil {
		return err
	}
	defer c.Close()
	var created []string
	if t.Create {
		if created, err = topics.Create(ctx, c, names, topics.Layout{
			Partitions: t.Partitions, Replication: t.Replication,
			Cells: t.Cells,
		}); err != nil {
			return err
		}
	}
	all := names.All()
	have, err := c.Partitions(ctx, all...)
	if err != nil {
		return err
	}
	names, unfit := topics.Divided(ctx, c, names)
	for _, n := range []string{names.Nodes, names.Labels, names.Predictions} {
		if unfit == nil && g.OnLine("partitions") && have[n] != t.Partitions {
			unfit = flags.Usagef("--partitions %d: topic %s is there with %d, and stays so, as a producer would send keys elsewhere: "+
				"leave the flag out", t.Partitions, n, have[n])
		}
	}
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
	if err := cmp.Or(w.Flush(), unfit); err != nil || have[names.Ledger] == 0 || names.Cells > 0 {
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
