package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
)

type promoteCmd struct {
	Kafka flags.Kafka `embed:""`
	Cell  flags.Cell  `embed:""`

	Model string `arg:"" optional:"" help:"Id of the model in the shadow. There is only one, so it can be left out." placeholder:"MODEL-ID"`
}

// Help is shown by gvbll promote --help.
func (promoteCmd) Help() string {
	return "From the workers' next window on; the one that served is then in the shadow. The command is part of " +
		"the stream: workers that are down carry it out when they start. 'gvbll ledger' shows when it happened."
}

// Run sends the command.
func (c promoteCmd) Run(ctx context.Context, p flags.Process) error {
	graphs, done, err := look.ConnectAll(ctx, p, c.Kafka, c.Cell)
	if err != nil {
		return err
	}
	defer done()
	for _, g := range graphs {
		if err := c.promote(ctx, p, g); err != nil {
			return fmt.Errorf("%s%w", g.Label(), err)
		}
	}
	return nil
}

// promote sends the command to the workers of a graph.
func (c promoteCmd) promote(ctx context.Context, p flags.Process, graph look.Graph) error {
	r, err := ledger.Newest(ctx, graph.Client, graph.Names.LedgerAt())
	switch {
	case err != nil:
		return err
	case r == nil:
		return fmt.Errorf("ledger %s is empty or missing: check --prefix, or start 'gvbll work' with --shadow first", graph.Names.Ledger)
	case c.Model == r.Serves():
		_, err := fmt.Fprintf(p.Out, "%smodel %s serves already\n", graph.Label(), c.Model)
		return err
	}
	shadow, err := look.ShadowIn(ctx, graph.Client, graph.Names, r)
	switch {
	case err != nil:
		return err
	case shadow == "":
		return fmt.Errorf("no model is in the shadow of model %s: start 'gvbll work' with --shadow first", r.Serves())
	}
	c.Model = cmp.Or(c.Model, shadow)
	if c.Model != shadow {
		return fmt.Errorf("model %.40s is not in the shadow: model %s is, and model %s serves", c.Model, shadow, r.Serves())
	}
	if _, err := sendCommand(ctx, graph, &event.Command{Name: event.Promote, Model: c.Model}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "%ssent the command to promote model %s, which takes effect after window %d "+
		"or a later one\n", graph.Label(), c.Model, r.Window)
	return err
}
