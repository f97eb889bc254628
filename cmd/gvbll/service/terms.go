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

// AsWritten returns the settings with which a ledger goes on: those given, but one that 1.0.0 began keeps its rules of
// reading events and its clock of --keep. An epoch that begins for another reason, with rebase, has those of this program.
func AsWritten(
	ctx context.Context, c *kafka.Client, p flags.Process, names topics.Names, cfg pipeline.Config, rebase bool, models ...*model.Model,
) (pipeline.Config, error) {
	newest, err := ledger.Newest(ctx, c, names.LedgerAt())
	first := cfg
	first.Reading.First, first.Keep.Median = true, false
	then := Terms(p, names, first, models...)
	if newest == nil || err != nil || newest.Settings == cfg.Effective(models...).Settings().Hash() {
		return cfg, err
	}
	r := replay.NewStretch(c, &then.Terms)
	if err := r.Read(ctx, &newest.Terms); err != nil {
		return cfg, err
	}
	switch s := r.Settings(); {
	case s.Own && (!rebase || then.Terms.Has(newest.Serves())), !rebase && s.All != "" && s.All.FirstReading():
		p.Log.Info("events are read as by gvbll 1.0.0, which began this ledger: an epoch reads them by new rules (docs/upgrade.md)")
		return first, nil
	}
	return cfg, nil
}

// Checkpoints returns where checkpoints and bases of an engine are written and read.
func Checkpoints(log *slog.Logger, f flags.State, names topics.Names, cfg pipeline.Config,
	models ...*model.Model,
) (c replay.Checkpoints, err error) {
	c = replay.Checkpoints{Dir: f.StateDir, Every: f.Checkpoints.Every, Keep: f.Checkpoints.Keep, Restore: Restorer(cfg, models...)}
	c.Bases.Store, err = OpenBases(log, f.Base, names)
	return c, err
}

// warnOfStore warns of a store whose requests go over the network unencrypted.
func warnOfStore(log *slog.Logger, address string) {
	if away := base.InTheClear(address); away != "" {
		log.Warn(fmt.Sprintf("--base %s: the graph's features and labels go to %s in the clear: give https:// in "+
			"AWS_ENDPOINT_URL", address, away))
	}
}

// OpenBases returns the store of a graph's bases at an address, nil for none. It warns of one in the clear.
func OpenBases(log *slog.Logger, address string, names topics.Names) (base.Store, error) {
	if address == "" {
		return nil, nil
	}
	warnOfStore(log, address)
	s, err := base.Open(address, names.Own())
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
	cfg.Local.PendingMemory, cfg.Local.Blocks = int64(state.Pending.Memory), files
	return cfg, func() {
		if err := files.Close(); err != nil {
			log.Warn("files in --state-dir were not removed", "err", err)
		}
	}, nil
}
