package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/topics/worker"
)

type auditCmd struct {
	Kafka  kafkaFlags  `embed:""`
	Engine engineFlags `embed:""`

	Model      string `help:"Model file that the graph was served with." required:"" type:"path" placeholder:"FILE"`
	Shadow     string `help:"The other model file, where one was in the shadow or was promoted; without it, what that one served is not looked at." type:"path" placeholder:"FILE"`
	BFloat16   bool   `help:"The graph was served with --bfloat16." name:"bfloat16"`
	Checkpoint string `help:"Begin behind this checkpoint instead of at the beginning." type:"path" placeholder:"FILE"`
	JSON       bool   `help:"Print the result as JSON." name:"json"`
}

// Help is shown by gvbll audit --help.
func (auditCmd) Help() string {
	return "Replays the ledger from its beginning and proves, byte by byte, that every published prediction and dead letter, and every posterior, is what the model says of the inputs; or names the first record that differs. With --checkpoint the replay begins there. It writes nothing, and can run beside a live worker."
}

// Run audits.
func (a auditCmd) Run(ctx context.Context, s streams) error {
	cfg := a.Engine.settings()
	cfg.BFloat16, cfg.Unwatched = a.BFloat16, true
	cfg, err := validSettings(cfg)
	if err != nil {
		return err
	}
	models, err := openModels(a.Model, a.Shadow)
	if err != nil {
		return err
	}
	client, names, err := a.Kafka.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	engine, err := fresh(cfg, models...)()
	if err != nil {
		return err
	}
	at, err := client.Offsets(ctx, names.Ledger)
	if err != nil {
		return err
	}
	total := 0
	for _, b := range at {
		total += int(b.End - b.First)
	}
	bar := newProgress(s.err, "audit", total)
	found, err := worker.Audit(ctx, client, engine, worker.Config{
		Names: names, Model: models[0].ID, Shadow: shadowOf(models), Settings: engine.(*keeper).Serving().Config().String(), Classes: models[0].Classes,
		Checkpoints: worker.Checkpoints{Restore: restorer(cfg, models...)}, Fresh: fresh(cfg, models...),
	}, a.Checkpoint, func(windows int64) { bar.set(int(windows), "windows") })
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
