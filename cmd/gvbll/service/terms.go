package service

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/base"
	"github.com/gvbll/gvbll/topics/blocks"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// Terms returns the part of a worker's configuration that follows from the engine's
// settings and the models.
func Terms(p flags.Process, names topics.Names, cfg pipeline.Config, models ...*model.Model) worker.Config {
	return worker.Config{
		Terms: replay.Terms{
			Names: names, Model: models[0].ID, Shadow: shadowOf(models), Classes: models[0].Classes, Features: models[0].Encoder.In(),
			Settings: cfg.Effective(models...).Settings(), Effective: effective(models...), Program: p.Version,
		},
		Models: replay.Models{Fresh: fresh(cfg, models...), Room: roomForEngine},
		Logger: p.Log,
	}
}

// AsWritten returns the settings with which a ledger goes on: those given, by the clock of 1.0.0 if the ledger is of them
// and of that. Other settings begin an epoch, which has the clock of now.
func AsWritten(
	ctx context.Context, c *kafka.Client, names topics.Names, cfg pipeline.Config, models ...*model.Model,
) (pipeline.Config, error) {
	before := cfg
	before.Keep.Median = false
	now, old := cfg.Effective(models...).Settings(), before.Effective(models...).Settings()
	if now == old {
		return cfg, nil
	}
	newest, err := ledger.Newest(ctx, c, names.LedgerAt())
	if newest == nil || newest.Settings == now.Hash() || err != nil {
		return cfg, err
	}
	if newest.Settings == old.Hash() {
		return before, nil
	}
	terms, err := ledger.FindSettings(ctx, c, names.LedgerAt(), newest.Settings)
	if terms != nil && effective(models...)(terms.Configuration) == old {
		return before, err
	}
	return cfg, err
}

// Checkpoints returns where checkpoints and bases of an engine are written and read.
func Checkpoints(f flags.State, names topics.Names, cfg pipeline.Config, models ...*model.Model) (c replay.Checkpoints, err error) {
	c = replay.Checkpoints{Dir: f.StateDir, Every: f.Checkpoints.Every, Keep: f.Checkpoints.Keep, Restore: Restorer(cfg, models...)}
	c.Bases.Store, err = OpenBases(f.Base, names)
	return c, err
}

// warnOfStore warns of a store whose requests go over the network unencrypted.
func warnOfStore(log *slog.Logger, address string) {
	if away := base.InTheClear(address); away != "" {
		log.Warn(fmt.Sprintf("--base %s: the graph's features and labels go to %s in the clear: give https:// in "+
			"AWS_ENDPOINT_URL", address, away))
	}
}

// OpenBases returns the store of a graph's bases at an address, nil for none.
func OpenBases(address string, names topics.Names) (base.Store, error) {
	if address == "" {
		return nil, nil
	}
	s, err := base.Open(address, names.Ledger)
	if err != nil {
		return nil, flags.Usagef("--base %v", err)
	}
	return s, nil
}

// WithFiles returns cfg for an engine that keeps what was served in files beyond some memory, as
// the flags say, and a function that removes them. Without a folder, everything is in memory.
func WithFiles(cfg pipeline.Config, state flags.State, log *slog.Logger) (pipeline.Config, func(), error) {
	if state.StateDir == "" {
		return cfg, func() {}, nil
	}
	files, err := blocks.Open(state.StateDir)
	if err != nil {
		return cfg, nil, flags.Usagef("--state-dir %s: %v", state.StateDir, err)
	}
	cfg.PendingMemory, cfg.Blocks = int64(state.Pending.Memory), files
	return cfg, func() {
		if err := files.Close(); err != nil {
			log.Warn("files in --state-dir were not removed", "err", err)
		}
	}, nil
}
