package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/cmd/gvbll/service"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/base"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

type rebaseCmd struct {
	flags.Graph
	Cell flags.Cell `embed:""`

	AcceptGap bool `help:"@rebase_accept_gap"`
	Restored  bool `help:"@rebase_restored"`

	Why  string `help:"Why the epoch begins, for the ledger; what differs when left out." placeholder:"TEXT"`
	JSON bool   `help:"Print the result as JSON." name:"json"`
}

var rebaseHelp = flags.Texts{
	"rebase_accept_gap": "Begin an epoch behind records or windows that are gone, from the newest checkpoint in " +
		"--state-dir.",
	"rebase_restored": "Ledger or inputs are copies, where records may have other offsets; takes over the folder of --base.",
}

// Help is shown by gvbll rebase --help.
func (rebaseCmd) Help() string {
	return "Replays the ledger's windows, as they were cut, through this program with this model and these " +
		"settings, and begins an epoch of these with a window without records. Nothing is published again. If the " +
		"ledger is of these terms already, nothing happens. Workers of the old terms end. 'gvbll work --rebase' " +
		"does the same without a pause (docs/upgrade.md).\n\n" +
		"With --accept-gap the epoch has the ledger's own terms, and begins behind records of the inputs, or " +
		"windows of the ledger, that nobody has any more. End the workers before. From then on every start " +
		"needs a checkpoint of the new epoch."
}

// Run begins the epoch.
func (c rebaseCmd) Run(ctx context.Context, p flags.Process, g flags.Given) error {
	if err := c.Check(g); err != nil {
		return err
	}
	if c.AcceptGap && c.State.StateDir == "" {
		return flags.Usagef("--accept-gap: give --state-dir with the checkpoints of the graph's last worker")
	}
	if c.Restored && c.AcceptGap {
		return flags.Usagef("--restored and --accept-gap: give one of them, the first one first")
	}
	settings, models, err := c.Open(g)
	if err != nil {
		return err
	}
	graphs, closing, err := look.ConnectAll(ctx, p, c.Kafka, c.Cell)
	if err != nil {
		return err
	}
	defer closing()
	for _, graph := range graphs {
		if err := c.rebase(ctx, p, graph, settings, models); err != nil {
			return fmt.Errorf("%s%w", graph.Label(), err)
		}
	}
	return nil
}

// rebase begins the epoch of a graph.
func (c rebaseCmd) rebase(ctx context.Context, p flags.Process, graph look.Graph, settings pipeline.Config,
	models []*model.Model,
) (err error) {
	if c.Restored && c.State.Base != "" {
		if err := c.takeOver(ctx, p, graph); err != nil {
			return err
		}
	}
	if c.AcceptGap || c.Restored { // with the ledger's own terms
		newest, err := ledger.Newest(ctx, graph.Client, graph.Names.LedgerAt())
		if err == nil {
			settings, err = service.AsWritten(ctx, graph.Client, p, graph.Names, newest, settings, false, models...)
		}
		if err != nil {
			return err
		}
	}
	cfg, _, removeFiles, err := service.Prepare(p, graph.Names, settings, c.State, models...)
	if err != nil {
		return err
	}
	defer removeFiles()
	if cfg.Terms.Registry, err = c.Registry.Open(ctx, p); err != nil {
		return err
	}
	engine, err := cfg.Models.Fresh()
	if err != nil {
		return err
	}
	windows, err := look.LedgerWindows(ctx, graph.Client, graph.Names)
	if err != nil {
		return err
	}
	bar := flags.NewProgress(p.Err, graph.Label()+"rebase", windows)
	cfg.Events = replay.On(func(w replay.Stepped) { bar.Set(int(w.Outcome.Window), "windows") })
	rebase := worker.Rebase
	switch {
	case c.AcceptGap:
		rebase = worker.AcceptGap
	case c.Restored:
		rebase = worker.Restored
	}
	done, err := rebase(ctx, graph.Client, engine, cfg, c.Why)
	switch {
	case err != nil:
		return fmt.Errorf("rebase: %w", err)
	case c.JSON:
		return json.NewEncoder(p.Out).Encode(done)
	case !done.Began && c.AcceptGap:
		_, err = fmt.Fprintf(p.Out, "%snothing is gone that is needed: epoch %d goes on\n", graph.Label(), done.Epoch)
	case !done.Began && c.Restored:
		_, err = fmt.Fprintf(p.Out, "%sthe inputs have the offsets that the ledger says\n", graph.Label())
	case !done.Began:
		_, err = fmt.Fprintf(p.Out, "%snothing differs: epoch %d goes on. Start 'gvbll work' with these flags; to "+
			"begin an epoch, give the new model or settings here\n", graph.Label(), done.Epoch)
	default:
		_, err = fmt.Fprintf(p.Out, "%sepoch %d begins at window %d, in %v: %s\n", graph.Label(), done.Epoch, done.Window,
			done.Took.Round(time.Millisecond), done.Why)
		if done.Some() && err == nil {
			_, err = fmt.Fprintf(p.Out, "behind a gap: %s; its state is that before window %d and what is left since, "+
				"and every start needs the one before window %d or a later one\n",
				done.Gap.Describe(done.Window), done.Checkpoint, done.Window+1)
		}
	}
	return err
}

// takeOver makes the ledger the owner of its folder of bases.
func (c rebaseCmd) takeOver(ctx context.Context, p flags.Process, g look.Graph) error {
	store, err := service.OpenBases(p.Log, c.State.Base, g.Names)
	if err != nil {
		return err
	}
	owner, err := replay.Owner(ctx, g.Client, g.Names)
	if err != nil {
		return err
	}
	before, err := base.OwnerOf(ctx, store)
	switch {
	case err != nil:
		return err
	case before != nil && *before == owner:
		_, err = fmt.Fprintf(p.Out, "%v is of this ledger already\n", store)
		return err
	}
	if err := owner.Own(ctx, store); err != nil {
		return err
	}
	was := "nobody"
	if before != nil {
		was = before.String()
	}
	_, err = fmt.Fprintf(p.Out, "%v is of this ledger now, and was of %s: workers of that one write and delete there no more\n", store, was)
	return err
}
