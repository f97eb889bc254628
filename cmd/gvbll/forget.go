package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

type forgetCmd struct {
	Kafka flags.Kafka `embed:""`

	Nodes []string `arg:"" name:"node" help:"Ids of the nodes. An integer stands for the id of that number and for the string of its digits."`
	Wait  bool     `help:"Wait until it is done, and print how far the posterior moved." default:"true" negatable:""`
	JSON  bool     `help:"Print the result as JSON." name:"json"`
}

// Help is shown by gvbll forget --help.
func (forgetCmd) Help() string {
	return "The owner of the graph stops serving, replays the ledger's windows from the beginning without these nodes (their events, their labels, the edges that name them), and continues: its state is then, to the bit, that of a worker that never saw them. Standbys, starts and audits do the same when they reach this command. It needs the inputs from their beginning; if these are gone, the command goes to the dead letters. A node that no event names is unknown: the exit code is then 1.\n\n" +
		"The input records themselves, the published predictions and this command stay in Kafka: see docs/forgetting.md. Where several workers share the graph (docs/sharding.md), all replay together, and how far the posterior moved is not computed."
}

// maxForgotten bounds the ids of one command.
const maxForgotten = 1 << 16

// Run sends the command.
func (c forgetCmd) Run(ctx context.Context, p flags.Process) error {
	var ids []event.ID
	for _, text := range c.Nodes {
		if text == "" {
			return flags.Usagef("an empty id names no node")
		}
		ids = append(ids, event.ID{Str: text})
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
			ids = append(ids, event.ID{Num: n})
		}
	}
	if len(ids) > maxForgotten {
		return flags.Usagef("%d ids in one command: give %d at most, and the others in another", len(ids), maxForgotten)
	}
	g, err := look.Connect(ctx, p, c.Kafka)
	if err != nil {
		return err
	}
	defer g.Client.Close()
	l, err := ledger.OpenEnd(ctx, g.Client, g.Records()[0])
	if err != nil {
		return err
	}
	end, err := sendCommand(ctx, g.Client, g.Names.Commands, &event.Command{Name: event.Forget, Nodes: ids})
	if err != nil {
		return err
	}
	if !c.Wait {
		_, err = fmt.Fprintf(p.Out, "sent the command to forget %d nodes\n", len(c.Nodes))
		return err
	}
	r, err := awaitCommand(ctx, l, g.Names.Commands, end)
	if err != nil {
		return err
	}
	several := r.Forgets // workers, for whom the next window begins an epoch without the nodes
	if several {
		if r, err = awaitEpoch(ctx, l); err != nil {
			return err
		}
	}
	if r.Forgot == nil {
		return fmt.Errorf("window %d: refused: %s", r.Window, replay.WhyDeclined(r.Declined))
	}
	switch {
	case c.JSON:
		err = json.NewEncoder(p.Out).Encode(r.Forgot)
	case several:
		_, err = fmt.Fprintf(p.Out, "forgot in window %d, which begins epoch %d, by a replay of %d\n", r.Window, r.Epoch, r.Forgot.Windows)
	default:
		_, err = fmt.Fprintf(p.Out, "forgot in window %d, by a replay of %d: the posterior moved by ‖ΔM‖ %.4g, ‖ΔΣ‖ %.4g\n", r.Window, r.Forgot.Windows, r.Forgot.Mean, r.Forgot.Variance)
	}
	if unknown := r.Forgot.Unknown; err == nil && len(unknown) > 0 {
		err = fmt.Errorf("unknown: no event names %.200q", unknown)
	}
	return err
}

// awaitEpoch waits for the next record, which begins an epoch.
func awaitEpoch(ctx context.Context, l *ledger.Ledger) (r *ledger.Record, err error) {
	for r == nil && err == nil {
		r, err = l.Wait(ctx)
	}
	return r, interrupted(err)
}

// interrupted replaces the error of a context that has ended after a command was sent.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		// Not wrapped, or run would print "interrupted" alone.
		return errors.New("interrupted: the command was sent, and takes effect when a worker reads it")
	}
	return err
}

// awaitCommand waits for the ledger record of the window that consumed the command topic
// up to the offset end.
func awaitCommand(ctx context.Context, l *ledger.Ledger, topic string, end int64) (*ledger.Record, error) {
	for {
		r, err := l.Wait(ctx)
		if err != nil {
			return nil, interrupted(err)
		}
		if r != nil && slices.ContainsFunc(r.Ranges, func(g ledger.Range) bool { return g.Topic == topic && g.To >= end }) {
			return r, nil
		}
	}
}
