package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/worker"
)

type auditCmd struct {
	Kafka inputFlags `embed:""`

	Model      string `help:"Model file that the graph was served with." required:"" type:"path" placeholder:"FILE"`
	Shadow     string `help:"The other model file, where one was in the shadow or was promoted. Without it, predictions of that model are not compared." type:"path" placeholder:"FILE"`
	Checkpoint string `help:"Begin at this checkpoint instead of at the ledger's beginning." type:"path" placeholder:"FILE"`
	StateDir   string `help:"Folder for predictions that wait for their label, beyond 1 GiB of memory; removed at the end. Without it they are in memory." type:"path" placeholder:"DIR"`
	JSON       bool   `help:"Print the result as JSON." name:"json"`
}

// Help is shown by gvbll audit --help.
func (auditCmd) Help() string {
	return "Replays the ledger from its beginning and verifies that every published prediction and dead letter, byte by byte, and every posterior follows from the model and the inputs. If not, it names the first record that differs. The settings are the ledger's own. With --checkpoint the replay begins there. It writes nothing, and can run beside a live worker."
}

// Run replays the ledger and prints how much of what was published agrees.
func (a auditCmd) Run(ctx context.Context, s streams) error {
	models, err := openModels(a.Model, a.Shadow)
	if err != nil {
		return err
	}
	client, names, err := a.Kafka.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	cfg := worker.Config{
		Names: names, Model: models[0].ID, Shadow: shadowOf(models), Classes: models[0].Classes, SettingsOfLine: pipeline.SettingsOfLine,
	}
	settings, err := a.settings(ctx, client, cfg)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	cfg.Settings = settings.Settings()
	settings, removeFiles, err := withFiles(settings.Effective(models...), a.StateDir, pendingMemory)
	if err != nil {
		return err
	}
	defer removeFiles()
	cfg.Fresh, cfg.Checkpoints.Restore = fresh(settings, models...), restorer(settings, models...)
	engine, err := cfg.Fresh()
	if err != nil {
		return err
	}
	total, err := ledgerWindows(ctx, client, names)
	if err != nil {
		return err
	}
	bar := newProgress(s.err, "audit", total)
	found, err := worker.Audit(ctx, client, engine, cfg, a.Checkpoint, func(windows int64) { bar.set(int(windows), "windows") })
	if err != nil {
		return fmt.Errorf("audit, %d windows agree, then: %w", found.Windows, err)
	}
	if a.JSON {
		return json.NewEncoder(s.out).Encode(found)
	}
	if found.First > 0 {
		fmt.Fprintf(s.out, "from the checkpoint before window %d on: ", found.First)
	}
	if found.Elsewhere > 0 {
		fmt.Fprintf(s.out, "without the predictions of %d windows, which another model served: ", found.Elsewhere)
	}
	_, err = fmt.Fprintf(s.out, "%d windows, %d predictions and %d dead letters agree with the model, in %v; chain %s\n",
		found.Windows-found.First, found.Predictions, found.DeadLetters, found.Took.Round(time.Millisecond), found.Chain)
	return err
}

// ledgerWindows returns about how many windows the ledger has, for a progress bar.
func ledgerWindows(ctx context.Context, c *kafka.Client, names topics.Names) (n int, err error) {
	at, err := c.Offsets(ctx, names.Ledger)
	for _, b := range at {
		n += int(b.End - b.First)
	}
	return n, err
}

// settings returns the settings that the graph was served with, from the ledger or the
// checkpoint. If the ledger is empty they are the defaults: there is nothing to replay.
func (a auditCmd) settings(ctx context.Context, c *kafka.Client, cfg worker.Config) (pipeline.Config, error) {
	meta, err := checkpointMeta(a.Checkpoint)
	if err != nil {
		return pipeline.Config{}, err
	}
	there, err := worker.LedgerSettings(ctx, c, cfg, meta)
	if err != nil {
		return pipeline.Config{}, err
	}
	settings := pipeline.Config{}
	if there != "" {
		if settings, err = pipeline.ParseSettings(there); err != nil {
			return settings, fmt.Errorf("ledger %s: %w", cfg.Names.Ledger, err)
		}
	}
	settings.Unwatched = true
	return settings.WithDefaults()
}

// checkpointMeta returns the metadata that a worker stored in a checkpoint, nil if path is
// empty. The settings come from it, so the engine cannot be restored before.
func checkpointMeta(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	f, size, err := checkpoint.OpenFile(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	defer f.Close()
	r, err := safetensors.NewReader(f, size)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	return r.Metadata(), nil
}
