package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/service"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/setting"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

type workCmd struct {
	flags.Graph
	Rebase     bool `help:"@work_rebase"`
	BeginAgain bool `help:"@work_begin_again"`

	BaseEvery flags.BaseEvery `help:"@work_base_every" default:"1h,keep=3" placeholder:"1h,keep=3" group:"state"`
	Purge     bool            `help:"Delete the ledger's records before the oldest base: then the graph begins there." group:"state"`

	Models string `help:"@work_models" type:"existingdir" placeholder:"DIR"`

	HTTP    service.HTTPFlags `embed:"" group:"http"`
	Windows windowFlags       `embed:"" group:"windows"`
	Watch   bool              `help:"@work_watch" default:"true" negatable:"" group:"revisions"`

	CreateTopics   int           `help:"Create missing topics with this many partitions; 0 creates none." default:"1" group:"kafka"`
	Output         string        `help:"@work_output" default:"msgpack" placeholder:"msgpack" group:"kafka"`
	CopyHeaders    []string      `help:"@work_copy_headers" placeholder:"KEY" group:"kafka"`
	Compression    string        `help:"@work_compression" enum:"none,gzip,snappy,lz4,zstd" default:"none" placeholder:"none" group:"kafka"`
	Decide         bool          `help:"@work_decide" group:"http"`
	SessionTimeout time.Duration `help:"@work_session_timeout" default:"10s" group:"kafka"`
	Standbys       bool          `help:"@work_standbys" default:"true" negatable:"" group:"kafka"`
}

var workHelp = flags.Texts{
	"work_rebase": "Where the ledger is of another program, model or settings, begin an epoch as owner, instead of " +
		"ending (docs/upgrade.md).",
	"work_begin_again": "Begin the graph again although its ledger is gone: every node is predicted once more.",
	"work_base_every":  "Time between bases, and how many to keep.",
	"work_models": "Folder of model files, for 'gvbll retrain': from it the worker loads what a command or the " +
		"ledger names.",
	"work_watch":        "Run drift detectors on what is served and on its labels.",
	"work_output":       "Encoding of predictions: msgpack or json. With ,embedding they carry the embedding of their node.",
	"work_copy_headers": "Headers that predictions and dead letters take over from their records, such as traceparent.",
	"work_compression":  "Compression of the records that are written: none, gzip, snappy, lz4 or zstd.",
	"work_decide": "Answer POST /v1/decide: an event goes into the stream, and the call waits for its committed " +
		"prediction (docs/api.md).",
	"work_session_timeout": "Time without a sign of life from the owner after which a standby takes over.",
	"work_standbys":        "Have a standby for each cell; --no-standbys, of all workers, leaves the cores to owners (docs/reliability.md).",
}

// windowFlags set where windows are cut and when they are committed.
type windowFlags struct {
	Window         int           `help:"Cut a window after this many nodes, or labels." default:"500"`
	Linger         time.Duration `help:"Cut a window when its first event has waited this long." default:"100ms"`
	EventTime      time.Duration `help:"@window_event_time" default:"0"`
	Watermark      watermarkFlag `help:"@window_watermark" default:"lateness=10s,idle=10s" placeholder:"lateness=10s,idle=10s"`
	CommitInterval time.Duration `help:"Let the windows of this much time share a transaction; 0 commits each at once." default:"100ms"`
}

var windowHelp = flags.Texts{
	"window_event_time": "Cut tumbling windows of this width in event time, such as 1m, instead; off when 0.",
	"window_watermark": "With --event-time: how far events of a partition may be out of order, and when to stop " +
		"waiting for a silent one.",
}

// maxCommitInterval is the longest transaction that brokers allow by default
// (transaction.max.timeout.ms), less a minute to commit it.
const maxCommitInterval = 14 * time.Minute

// policy returns the policy that cuts the windows.
func (f windowFlags) policy() intake.Policy {
	if f.EventTime > 0 {
		return intake.EventTime{Width: f.EventTime, Lateness: f.Watermark.lateness, Idle: f.Watermark.idle}
	}
	return intake.CountOrLinger{Count: f.Window, Linger: f.Linger}
}

// watermarkFlag says when an interval of event time has ended.
type watermarkFlag struct{ lateness, idle time.Duration }

func (f *watermarkFlag) pairs() []setting.Pair {
	return []setting.Pair{{Name: "lateness", Value: flags.Duration(&f.lateness)}, {Name: "idle", Value: flags.Duration(&f.idle)}}
}

func (f watermarkFlag) String() string { return setting.JoinPairs(f.pairs()...) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *watermarkFlag) UnmarshalText(text []byte) error {
	*f = watermarkFlag{10 * time.Second, 10 * time.Second}
	if err := setting.ParsePairs(string(text), f.pairs()...); err != nil {
		return err
	}
	switch {
	case f.lateness < 0:
		return fmt.Errorf("lateness=%v: give a duration such as 10s, or 0s when events come in order", f.lateness)
	case f.idle < time.Millisecond:
		return fmt.Errorf("idle=%v: give a duration such as 10s, 1ms or more", f.idle)
	}
	return nil
}

// check refuses values out of range, and flags without an effect whatever the model.
func (w workCmd) check(g flags.Given) error {
	f := w.Windows
	switch {
	case f.Window < 1:
		return flags.Usagef("--window %d: give at least 1", f.Window)
	case f.Linger < 0:
		return flags.Usagef("--linger %v: give a duration such as 100ms, or 0 to cut at every fetch", f.Linger)
	case f.EventTime < 0 || f.EventTime > 0 && f.EventTime < time.Millisecond:
		return flags.Usagef("--event-time %v: give the width of a window, 1ms or more, such as 1m, or 0 for none", f.EventTime)
	case f.CommitInterval < 0 || f.CommitInterval > maxCommitInterval:
		return flags.Usagef("--commit-interval %v: give a duration such as 100ms, up to %v, or 0", f.CommitInterval, maxCommitInterval)
	case w.SessionTimeout < time.Millisecond:
		return flags.Usagef("--session-timeout %v: give a duration such as 10s", w.SessionTimeout)
	case slices.Contains(w.CopyHeaders, wire.ContentType) || slices.Contains(w.CopyHeaders, ""):
		return flags.Usagef("--copy-headers %s: give keys of headers other than %s, which is gvbll's own",
			strings.Join(w.CopyHeaders, ","), wire.ContentType)
	case !slices.Contains([]string{"msgpack", "json", "msgpack," + embedding, "json," + embedding}, w.Output):
		return flags.Usagef("--output %s: give msgpack or json, and after a comma %s or nothing", w.Output, embedding)
	case w.CreateTopics < 0:
		return flags.Usagef("--create-topics %d: give a number of partitions, or 0 to create none", w.CreateTopics)
	}
	if err := w.Graph.Check(g); err != nil {
		return err
	}
	return g.Check(
		flags.NoEffect(f.EventTime > 0, "no effect with --event-time: leave out one of them", "window", "linger"),
		flags.NoEffect(f.EventTime == 0, "no effect without --event-time: add it, or leave this out", "watermark"),
		flags.NoEffect(w.State.Base == "", "no effect without --base: add it, or leave this out", "base-every", "purge"),
	)
}

// embedding is what --output may add to predictions.
const embedding = "embedding"

// Run serves until it is interrupted, and then commits the windows that are stepped.
func (w workCmd) Run(ctx context.Context, p flags.Process, k *kong.Context, g flags.Given) error {
	if err := w.check(g); err != nil {
		return err
	}
	cfg, models, err := w.Open(g)
	if err != nil {
		return err
	}
	encoding, what, _ := strings.Cut(w.Output, ",")
	cfg.Local.Unwatched, cfg.Local.Embeddings = !w.Watch, what == embedding
	if err := pipeline.Compatible(models...); err != nil {
		return err
	}
	by, err := parts.ParseBy(cfg.By)
	if err != nil {
		return err
	}
	if unknown := by.Unknown(models[0]); unknown != "" {
		p.Log.Warn(unknown)
	}
	schemas, err := w.Registry.Open(ctx, p)
	if err != nil {
		return err
	}
	web, err := service.Listen(p, w.HTTP.HTTP, w.HTTP.HTTPConfig)
	if err != nil {
		return err
	}
	defer web.Close()
	if w.Decide && !web.Guarded() {
		return flags.Usagef("--decide: whoever reaches --http %s could send events: ask for passwords with "+
			"--http-config, or listen on 127.0.0.1", w.HTTP.HTTP)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- web.Serve(ctx) }()
	create := topics.Create
	if w.BeginAgain {
		create = topics.Recreate
	}
	client, names, err := connectOrCreate(ctx, p, w.Kafka, w.CreateTopics, create)
	for away := (*kafka.AwayError)(nil); errors.As(err, &away) && ctx.Err() == nil; {
		p.Log.Warn("this start waits for Kafka", "err", away)
		web.WaitFor("waiting for Kafka: " + away.Error())
		client, names, err = connectOrCreate(ctx, p, w.Kafka, w.CreateTopics, create)
	}
	web.WaitFor("")
	if err != nil {
		return err
	}
	defer client.Close()
	if names, err = topics.Divided(ctx, client, names); err != nil {
		return err
	}
	set := service.Setup{
		Process: p, Graph: w.Kafka.Prefix, InForce: flags.InForce(k, g), Web: web, Names: names,
		State: w.State, Config: cfg, Rebase: w.Rebase, Models: models, Decide: w.Decide,
	}
	if w.Models != "" {
		set.Folder = service.NewModelFolder(w.Models)
	}
	if schemas != nil && cfg.Reading.First {
		return flags.Usagef("--registry: gvbll 1.0.0 began this ledger, and read no records in Avro or Protobuf: begin an epoch " +
			"with 'gvbll rebase' first (docs/upgrade.md)")
	}
	configure := func(work *worker.Config) {
		work.Terms.Registry = schemas
		work.Policy, work.Publishing.CommitInterval, work.Session = w.Windows.policy(), w.Windows.CommitInterval, w.SessionTimeout
		work.Publishing.Compression, work.Rebase, work.Publishing.Output = w.Compression, w.Rebase, wire.Encoding("application/"+encoding)
		work.BeginAgain, work.Publishing.CopyHeaders = w.BeginAgain, w.CopyHeaders
		bases := &work.Checkpoints.Bases
		bases.Every, bases.Keep, bases.Purge = w.BaseEvery.Every, w.BaseEvery.Keep, w.Purge
	}
	var run func(context.Context) error
	if names.Cells > 0 {
		set.Config.Local.Workers = max(w.Workers, 1) // cells share the machine
		f := service.NewFleet(client, set, configure)
		run = func(ctx context.Context) error { return f.Run(ctx, w.SessionTimeout, !w.Standbys) }
		p.Log.Info("working", "model", models[0].ID, "cells", names.Cells, "topics", names.Nodes, "http", web.URL())
	} else {
		if !w.Standbys {
			return flags.Usagef("--no-standbys: this graph has no cells, so a worker beside its owner has nothing to do: leave it out")
		}
		s, err := service.New(ctx, client, set)
		if err != nil {
			return err
		}
		defer s.Close()
		work := s.Terms()
		configure(&work)
		run = func(ctx context.Context) error { return s.Run(ctx, client, work) }
		p.Log.Info("working", "model", work.Terms.Model, "shadow", work.Terms.Shadow, "classes",
			len(work.Terms.Classes), "topics", names.Nodes, "http", web.URL())
	}
	if w.Kafka.InputsPrefix != "" && w.Kafka.InputsPrefix != w.Kafka.Prefix {
		p.Log.Info("windows are cut anew, not where the other deployment cut them: scores are on equal terms with "+
			"those of other workers that read its inputs so, not with its own",
			"prefix", w.Kafka.Prefix, "inputs-prefix", w.Kafka.InputsPrefix)
	}
	err = run(ctx)
	stop()
	if e := <-served; err == nil {
		err = e
	}
	if err == nil {
		p.Log.Info("ended, everything is committed")
	}
	return err
}

// connectOrCreate connects to Kafka, and creates missing topics with so many partitions, none if 0.
func connectOrCreate(
	ctx context.Context, p flags.Process, f flags.Inputs, partitions int,
	create func(context.Context, *kafka.Client, topics.Names, topics.Layout) ([]string, error),
) (*kafka.Client, topics.Names, error) {
	client, names, err := f.Connect(ctx, p)
	if err != nil || partitions == 0 {
		return client, names, err
	}
	if _, err := create(ctx, client, names, topics.Layout{Partitions: partitions, Replication: -1}); err != nil {
		client.Close()
		return nil, names, err
	}
	return client, names, nil
}
