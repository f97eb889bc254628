package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

type forgetCmd struct {
	Kafka flags.Kafka `embed:""`
	Cell  flags.Cell  `embed:""`

	Nodes   []string      `arg:"" name:"node" help:"@forget_nodes"`
	Wait    bool          `help:"Wait until it is done, and print how far the posterior moved." default:"true" negatable:""`
	Timeout time.Duration `help:"@forget_timeout" default:"10m" placeholder:"10m"`
	JSON    bool          `help:"Print the result as JSON." name:"json"`
}

var forgetHelp = flags.Texts{
	"forget_nodes":   "Ids of the nodes. An integer stands for the id of that number and for the string of its digits.",
	"forget_timeout": "Wait no longer than this; 0 waits without a limit. The command takes effect nonetheless.",
}

// Help is shown by gvbll forget --help.
func (forgetCmd) Help() string {
	return "The owner stops serving, replays the ledger without these nodes, and goes on: its state is then, to " +
		"the bit, that of a worker that never saw them. It needs the inputs from their beginning. Exit code 1 if " +
		"no event names a node. What stays in Kafka: docs/forgetting.md."
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
		ids = append(ids, event.IDsOf(text)...)
	}
	if len(ids) > maxForgotten {
		return flags.Usagef("%d ids in one command: give %d at most, and the others in another", len(ids), maxForgotten)
	}
	g, err := look.Connect(ctx, p, c.Kafka, c.Cell)
	if err != nil {
		return err
	}
	defer g.Client.Close()
	l, err := ledger.OpenEnd(ctx, g.Client, g.Names.LedgerAt())
	if err != nil {
		return err
	}
	end, err := sendCommand(ctx, g, &event.Command{Name: event.Forget, Nodes: ids})
	if err != nil {
		return err
	}
	if !c.Wait {
		_, err = fmt.Fprintf(p.Out, "sent the command to forget %d nodes\n", len(c.Nodes))
		return err
	}
	w := &forgetting{g: g, ledger: l, began: time.Now(), out: p.Err}
	if c.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, c.Timeout)
		defer stop()
	}
	r, err := w.await(ctx, func(r *ledger.Record) bool {
		return slices.ContainsFunc(r.Ranges, func(x ledger.Range) bool { return x.Topic == g.Names.Commands && x.To >= end })
	})
	if err != nil {
		return err
	}
	if r.Forgot == nil {
		return fmt.Errorf("window %d: refused: %s", r.Window, replay.WhyDeclined(r.Declined))
	}
	if c.JSON {
		err = json.NewEncoder(p.Out).Encode(r.Forgot)
	} else {
		_, err = fmt.Fprintf(p.Out, "forgot in window %d, by a replay of %d: the posterior moved by ‖ΔM‖ %.4g, "+
			"‖ΔΣ‖ %.4g\n", r.Window, r.Forgot.Windows, r.Forgot.Mean, r.Forgot.Variance)
	}
	if unknown := r.Forgot.Unknown; err == nil && len(unknown) > 0 {
		err = fmt.Errorf("unknown: no event names %.200q", unknown)
	}
	return err
}

// forgetting waits until a command is obeyed, and says how far that is.
type forgetting struct {
	g       look.Graph
	ledger  *ledger.Ledger
	out     io.Writer
	began   time.Time
	told    time.Time // when it last said something, or looked for a worker
	windows int64     // that the attempt replays, 0 before one is noted
	idle    bool      // it has said that there is no worker
}

// tellEvery is the time between two lines on how far it is.
const tellEvery = 10 * time.Second

// await waits for the first record that is accepted.
func (w *forgetting) await(ctx context.Context, accept func(*ledger.Record) bool) (*ledger.Record, error) {
	for {
		if err := w.tell(ctx); err != nil {
			return nil, w.undone(ctx, err)
		}
		r, err := w.ledger.Wait(ctx)
		switch {
		case err != nil:
			return nil, w.undone(ctx, err)
		case r == nil:
		case accept(r):
			return r, nil
		case r.Attempt > 0:
			w.windows = r.Window
			fmt.Fprintf(w.out, "attempt %d: the windows before %d are replayed without the nodes, and nothing is "+
				"served meanwhile\n", r.Attempt, r.Window)
		}
	}
}

// tell prints a line if nothing was said for a while, or no worker is there.
func (w *forgetting) tell(ctx context.Context) error {
	if time.Since(w.told) < tellEvery {
		return nil
	}
	first := w.told.IsZero()
	w.told = time.Now()
	members, err := look.MembersOf(ctx, w.g.Client, w.g.Names)
	switch took := time.Since(w.began).Round(time.Second); {
	case err != nil:
		return err
	case len(members) == 0 && !w.idle:
		w.idle = true
		fmt.Fprintf(w.out, "no worker of ledger %s is there: the command waits in Kafka, and takes effect when one "+
			"is started\n", w.g.Names.Ledger)
	case len(members) > 0 && w.windows > 0:
		fmt.Fprintf(w.out, "%d windows are being replayed, since %v: the log of worker %s says how many "+
			"it has done\n", w.windows, took, members[0].Where())
	case len(members) > 0 && !first:
		fmt.Fprintf(w.out, "worker %s has not come to the command, after %v\n", members[0].Where(), took)
	}
	return nil
}

// undone replaces the error of a context that has ended after a command was sent.
func (w *forgetting) undone(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("not done after %v: the command was sent, and takes effect when a worker reads it; "+
			"--timeout 0 waits without a limit", time.Since(w.began).Round(time.Second))
	}
	// Not wrapped, or run would print "interrupted" alone.
	return errors.New("interrupted: the command was sent, and takes effect when a worker reads it")
}
