package main

import (
	"context"
	"fmt"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

type promoteCmd struct {
	Kafka flags.Kafka `embed:""`

	Model string `arg:"" optional:"" help:"Id of the model in the shadow. There is only one, so it can be left out." placeholder:"MODEL-ID"`
}

// Help is shown by gvbll promote --help.
func (promoteCmd) Help() string {
	return "Makes the model in the shadow serve from the workers' next window on. The one that served is then in the shadow, and can be promoted again. The command is part of the stream: workers that are down now carry it out when they start. 'gvbll ledger' shows when it happened."
}

// Run sends the command.
func (c promoteCmd) Run(ctx context.Context, p flags.Process) error {
	client, names, err := c.Kafka.Connect(ctx, p)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := noShards(ctx, client, names); err != nil {
		return err
	}
	r, err := ledger.Newest(ctx, client, names.LedgerAt(0))
	switch {
	case err != nil:
		return err
	case r == nil:
		return fmt.Errorf("ledger %s is empty: start 'gvbll work' with --shadow first", names.Ledger)
	case c.Model == r.Serves():
		_, err := fmt.Fprintf(p.Out, "model %s serves already\n", c.Model)
		return err
	}
	shadow, err := shadowIn(ctx, client, names, r)
	switch {
	case err != nil:
		return err
	case shadow == "":
		return fmt.Errorf("no model is in the shadow of model %s: start 'gvbll work' with --shadow first", r.Serves())
	}
	if c.Model == "" {
		c.Model = shadow
	}
	if c.Model != shadow {
		return fmt.Errorf("model %.40s is not in the shadow: model %s is, and model %s serves", c.Model, shadow, r.Serves())
	}
	if _, err := sendCommand(ctx, client, names.Commands, &event.Command{Name: event.Promote, Model: c.Model}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "sent the command to promote model %s, which takes effect after window %d or a later one\n", c.Model, r.Window)
	return err
}

// shadowIn returns the model in the shadow of the one that serves after the ledger's last
// record, "" for none. The record has it if it has stepped a window; else the owner says
// which models it was started with.
func shadowIn(ctx context.Context, client *kafka.Client, names topics.Names, last *ledger.Record) (string, error) {
	switch {
	case last.Promoted != "": // the two have changed places
		return last.Model, nil
	case last.Shadow != nil:
		return last.Shadow.Model, nil
	}
	members, err := membersOf(ctx, client, names)
	if err != nil || len(members) == 0 || !members[0].owner {
		return "", err
	}
	owner := &members[0]
	if owner.Shadow == last.Serves() {
		return owner.Model, nil
	}
	return owner.Shadow, nil
}
