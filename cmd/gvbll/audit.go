package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/cmd/gvbll/service"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/replay"
)

type auditCmd struct {
	Kafka flags.Inputs `embed:""`
	Cell  flags.Cell   `embed:""`

	Model      string `help:"Model file that the graph was served with." required:"" type:"path" placeholder:"FILE"`
	Shadow     string `help:"@audit_shadow" type:"path" placeholder:"FILE"`
	Checkpoint string `help:"Begin at this checkpoint instead of at the ledger's beginning." type:"path" placeholder:"FILE"`
	From       string `help:"@audit_from" placeholder:"BASE"`
	Base       string `help:"With --from, where bases are." placeholder:"URL"`
	StateDir   string `help:"@audit_state_dir" type:"path" placeholder:"DIR"`
	JSON       bool   `help:"Print the result as JSON." name:"json"`
}

var auditHelp = flags.Texts{
	"audit_shadow":    "The other model file, where one was in the shadow or was promoted.",
	"audit_from":      "Begin at a base instead: latest, or its name or first window. Its state is taken on trust.",
	"audit_state_dir": "Folder for what is fetched of a base, and for predictions that wait beyond 1 GiB of memory.",
}

// Help is shown by gvbll audit --help.
func (auditCmd) Help() string {
	return "Replays the ledger from its beginning, or from --checkpoint or --from, and verifies that every " +
		"published prediction and dead letter, byte by byte, and every posterior follows from the model and the " +
		"inputs. If not, it names the first record that differs. The settings are the ledger's own. It writes " +
		"nothing, and can run beside a live worker.\n\n" +
		"Windows of another engine or another model cannot be proved: of these the audit checks that they took each " +
		"record once, and that each arrival has one prediction or dead letter (docs/upgrade.md)."
}

// Run replays the ledger, or that of each cell, and prints how much of what was published agrees.
func (a auditCmd) Run(ctx context.Context, p flags.Process) error {
	switch {
	case (a.From == "") != (a.Base == ""):
		return flags.Usagef("--from and --base: give both, the name of a base and where it is, or neither")
	case a.From != "" && a.Checkpoint != "":
		return flags.Usagef("--from and --checkpoint: an audit begins at one of them: leave the other out")
	}
	models, err := flags.OpenModels(a.Model, a.Shadow)
	if err != nil {
		return err
	}
	graphs, done, err := look.ConnectAll(ctx, p, a.Kafka, a.Cell)
	if err != nil {
		return err
	}
	defer done()
	if a.Checkpoint != "" && len(graphs) > 1 {
		return flags.Usagef("--checkpoint: it is of one cell: give --cell, 0 to %d", len(graphs)-1)
	}
	for _, g := range graphs {
		found, err := a.audit(ctx, p, g, models)
		switch {
		case err != nil:
			err = fmt.Errorf("%s%w", g.Label(), err)
		case a.JSON && g.Label() == "":
			err = json.NewEncoder(p.Out).Encode(found)
		case a.JSON:
			err = json.NewEncoder(p.Out).Encode(struct {
				Cell int32 `json:"cell"`
				audit.Result
			}{g.Names.Cell, found})
		default:
			if err = printAudit(p.Out, g.Label(), found); err == nil {
				err = printWaiting(ctx, p.Out, g)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printWaiting says how many events an audit cannot speak of.
func printWaiting(ctx context.Context, w io.Writer, g look.Graph) error {
	n, err := look.Waiting(ctx, g)
	if n > 0 && err == nil {
		_, err = fmt.Fprintf(w, "%s%s events wait: no window has them yet\n", g.Label(), look.Grouped(int(n)))
	}
	return err
}

// audit audits a graph.
func (a auditCmd) audit(ctx context.Context, p flags.Process, g look.Graph, models []*model.Model) (found audit.Result, err error) {
	total, err := look.LedgerWindows(ctx, g.Client, g.Names)
	if err != nil {
		return found, err
	}
	if total == 0 && g.Label() != "" { // nothing has come to this cell
		return found, nil
	}
	from := audit.From{Checkpoint: a.Checkpoint}
	if a.From != "" {
		if from.Base, err = replay.FindBase(ctx, g.Client, g.Names.LedgerAt(), a.From); err != nil {
			return found, err
		}
	}
	all, err := a.settings(ctx, g.Client, g.Names, models, from)
	if err != nil {
		return found, fmt.Errorf("audit: %w", err)
	}
	if total == 0 {
		return found, fmt.Errorf("audit: the ledger %s has no windows, so there is nothing to prove: is --prefix right, and has a worker "+
			"served?", g.Names.Ledger)
	}
	for i, settings := range all {
		settings.Local.Embeddings = true // compared where they were published
		state := flags.State{StateDir: a.StateDir, Base: a.Base, Pending: flags.Pending{Memory: flags.PendingMemory}}
		cfg, _, removeFiles, err := service.Prepare(p, g.Names, settings, state, models...)
		if err != nil {
			return found, err
		}
		defer removeFiles()
		engine, err := cfg.Models.Fresh()
		if err != nil {
			return found, err
		}
		bar := flags.NewProgress(p.Err, g.Label()+"audit", total)
		more, err := audit.Run(ctx, g.Client, engine, cfg.Replay(), from, func(windows int64) { bar.Set(int(windows), "windows") })
		if err != nil {
			return found, fmt.Errorf("audit, %d windows agree, then: %w", more.Windows, err)
		}
		if i == 0 {
			found = more
		} else {
			found.Merge(more)
		}
	}
	return found, nil
}

// printAudit prints a line for the whole ledger, behind what the graph is called, after one for each epoch if there are
// several or one is not proved.
func printAudit(w io.Writer, label string, found audit.Result) error {
	if len(found.Epochs) == 0 {
		_, err := fmt.Fprintf(w, "%sno windows: nothing has come to it\n", label)
		return err
	}
	proved := int64(0)
	for _, e := range found.Epochs {
		proved += e.Proved
	}
	for _, e := range found.Epochs {
		if len(found.Epochs) == 1 && e.Proved == e.Windows {
			break
		}
		var parts []string
		if e.Proved > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d windows proved", e.Proved, e.Windows))
		}
		if left := e.Windows - e.Proved; left > 0 {
			parts = append(parts, fmt.Sprintf("%d windows of another program, settings or model: each record is in "+
				"one window, each arrival has one of %d predictions", left, e.Checked))
		}
		fmt.Fprintf(w, "%sepoch %d, from window %d on (%s): %s\n", label, e.Number, e.First, cmp.Or(e.Why, "the first"),
			strings.Join(parts, "; "))
	}
	fmt.Fprint(w, label)
	if found.Base != "" {
		fmt.Fprintf(w, "taken on trust: the state before window %d, which is base %s; the ledger names its hash, "+
			"and has its chain\nfrom there on: ", found.First, found.Base)
	} else if found.First > 0 {
		fmt.Fprintf(w, "from the checkpoint before window %d on: ", found.First)
	}
	if found.Elsewhere > 0 {
		fmt.Fprintf(w, "without the predictions of %d windows, which another program, settings or model served: ", found.Elsewhere)
	}
	_, err := fmt.Fprintf(w, "%d windows, %d predictions and %d dead letters agree with the model, in %v; chain %s\n",
		proved, found.Predictions, found.DeadLetters, found.Took.Round(time.Millisecond), found.Chain)
	return err
}

// settings returns the settings to replay with: those of the state that it begins with or, each once, of the
// epochs that this program's engine and one of the models served. If there are none they
// are the defaults, with which nothing is proved.
func (a auditCmd) settings(
	ctx context.Context, c *kafka.Client, names topics.Names, models []*model.Model, from audit.From,
) (list []pipeline.Config, err error) {
	var there event.Settings // of the state that it begins with
	switch {
	case from.Base != nil:
		at, err := replay.ReadReached(ctx, c, names.LedgerAt(), from.Base)
		if err != nil {
			return nil, err
		}
		there = at.Settings
	case a.Checkpoint != "":
		if there, err = checkpointSettings(a.Checkpoint); err != nil {
			return nil, fmt.Errorf("checkpoint %s: %w", a.Checkpoint, err)
		}
	}
	if there != "" {
		cfg, err := flags.ParseSettings(there, models)
		return []pipeline.Config{cfg}, err
	}
	epochs, err := replay.Epochs(ctx, c, names)
	if err != nil {
		return nil, err
	}
	var others []pipeline.Config // of epochs of this engine and other models
	for _, e := range epochs {
		cfg, err := flags.ParseSettings(e.Settings, models)
		switch {
		case err != nil: // another engine's
		case slices.ContainsFunc(models, func(m *model.Model) bool { return slices.Contains(e.Models, m.ID) }):
			if !slices.ContainsFunc(list, func(c pipeline.Config) bool { return c.Settings() == cfg.Settings() }) {
				list = append(list, cfg)
			}
		default:
			others = append(others, cfg)
		}
	}
	if list == nil && others != nil {
		return others[:1], nil
	}
	if list == nil {
		cfg, err := pipeline.Config{Local: pipeline.Local{Unwatched: true}}.WithDefaults()
		return []pipeline.Config{cfg.Effective(models...)}, err
	}
	return list, nil
}

// checkpointSettings returns the settings of a checkpoint. The engine needs them to be
// restored from the rest.
func checkpointSettings(path string) (event.Settings, error) {
	f, size, err := checkpoint.OpenFile(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	r, err := safetensors.NewReader(f, size)
	if err != nil {
		return "", err
	}
	return replay.CheckpointSettings(r.Metadata())
}
