package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/gvbll/gvbll/topics"
)

type topicsCmd struct {
	Kafka inputFlags `embed:""`

	Create      bool `help:"Create the topics that are missing."`
	Partitions  int  `help:"Partitions of each topic to create; ledger, commands and dead letters always have one." default:"1"`
	Replication int  `help:"Replication factor of the topics to create; -1 for the broker's default." default:"-1"`
	JSON        bool `help:"Print JSON." name:"json"`
}

// Help is shown by gvbll topics --help.
func (topicsCmd) Help() string {
	return "The inputs and the ledger are created without a limit on retention, because recovery replays them."
}

// Run lists the topics, after creating missing ones with --create.
func (t topicsCmd) Run(ctx context.Context, s streams, g given) error {
	if t.Partitions < 1 {
		return usagef("--partitions %d: give at least 1", t.Partitions)
	}
	if err := g.check(noEffect{!t.Create, "no effect without --create: add it", []string{"partitions", "replication"}}); err != nil {
		return err
	}
	c, names, err := t.Kafka.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var created []string
	if t.Create {
		if created, err = topics.Create(ctx, c, names, t.Partitions, t.Replication); err != nil {
			return err
		}
	}
	have, err := c.Partitions(ctx, names.All()...)
	if err != nil {
		return err
	}
	type row struct {
		Topic      string `json:"topic"`
		Partitions int    `json:"partitions"`
		State      string `json:"state"`
	}
	var rows []row
	for _, n := range names.All() {
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
		return json.NewEncoder(s.out).Encode(rows)
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOPIC\tPARTITIONS\tSTATE")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%s\n", r.Topic, r.Partitions, r.State)
	}
	return w.Flush()
}
