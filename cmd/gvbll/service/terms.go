package service

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/base"
	"github.com/gvbll/gvbll/topics/blocks"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// Prepare returns the configuration of a worker of a graph, as far as it follows from the engine's settings, the flags of
// state and the models; the settings, of an engine that keeps what was served in files beyond some memory if there is a
// folder; and a function that removes these files.
func Prepare(
	p flags.Process, names topics.Names, cfg pipeline.Config, state flags.State, models ...*model.Model,
) (worker.Config, pipeline.Config, func(), error) {
	release := func() {}
	if state.StateDir != "" {
		files, err := blocks.Open(state.StateDir)
		if err != nil {
			return worker.Config{}, cfg, nil, flags.Usagef("--state-dir %s: %v", state.StateDir, err)
		}
		cfg.Local.PendingMemory, cfg.Local.Blocks = int64(state.Pending.Memory), files
		release = func() {
			if err := files.Close(); err != nil {
				p.Log.Warn("files in --state-dir were not removed", "err", err)
			}
		}
	}
	work := terms(p, names, cfg, models...)
	work.Checkpoints = replay.Checkpoints{
		Dir: state.StateDir, Every: state.Checkpoints.Every, Keep: state.Checkpoints.Keep, Restore: restorer(cfg, models...),
	}
	var err error
	if work.Checkpoints.Bases.Store, err = OpenBases(p.Log, state.Base, names); err != nil {
		release()
		return work, cfg, nil, err
	}
	return work, cfg, release, nil
}

// terms returns the part of a worker's configuration that follows from the engine's
// settings and the models.
func terms(p flags.Process, names topics.Names, cfg pipeline.Config, models ...*model.Model) worker.Config {
	return worker.Config{
		Terms: replay.Terms{
			Names: names, Model: models[0].ID, Shadow: shadowOf(models), Classes: models[0].Classes, Features: models[0].Encoder.In(),
			Settings: cfg.Effective(models...).Settings(), Effective: effective(models...), Program: p.Version,
		},
		Models: replay.Models{Fresh: fresh(cfg, models...), Room: roomForEngine},
		Logger: p.Log,
	}
}

// AsWritten returns the settings with which a ledger goes on behind its newest record: those given, but one that 1.0.0 began keeps its rules of
// reading events, its clock of --keep and its sets. An epoch that begins for another reason, with rebase, has those of this program.
func AsWritten(
	ctx context.Context, c *kafka.Client, p flags.Process, names topics.Names, newest *ledger.Record, cfg pipeline.Config, rebase bool,
	models ...*model.Model,
) (pipeline.Config, error) {
	first := cfg
	first.Reading.First, first.Keep.Median = true, false
	if first.Coverage.Per == parts.PerFloor {
		first.Coverage.Per = parts.PerNone
	}
	then := terms(p, names, first, models...)
	if newest == nil || newest.Settings == cfg.Effective(models...).Settings().Hash() {
		return cfg, nil
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

// OpenBases returns the store of a graph's bases at an address, nil for none. It warns of one in the clear.
func OpenBases(log *slog.Logger, address string, names topics.Names) (base.Store, error) {
	if address == "" {
		return nil, nil
	}
	if away := base.InTheClear(address); away != "" {
		log.Warn(fmt.Sprintf("--base %s: the graph's features and labels go to %s in the clear: give https:// in "+
			"AWS_ENDPOINT_URL", address, away))
	}
	s, err := base.Open(address, names.Own())
	if err != nil {
		return nil, flags.Usagef("--base %v", err)
	}
	return s, nil
}
