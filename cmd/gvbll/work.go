package main

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
)

type workCmd struct {
	graphFlags
	Rebase bool `help:"If the ledger is of another program, model or settings, begin an epoch of these when this worker becomes the owner, instead of ending: docs/upgrade.md."`

	HTTP    httpFlags   `embed:"" group:"http"`
	Windows windowFlags `embed:"" group:"windows"`
	Watch   bool        `help:"Run drift detectors on what is served and on its labels." default:"true" negatable:"" group:"revisions"`

	CreateTopics   int           `help:"Create missing topics with this many partitions; 0 creates none." default:"1" group:"kafka"`
	Compression    string        `help:"Compression of the records that are written: none, gzip, snappy, lz4 or zstd." enum:"none,gzip,snappy,lz4,zstd" default:"none" placeholder:"none" group:"kafka"`
	SessionTimeout time.Duration `help:"Time without a sign of life from the owner of the graph after which a standby takes over. Brokers allow 6s and more by default." default:"10s" group:"kafka"`

	Reserve int `help:"Allocate memory for this many nodes at the start, about 2 KB each; 0 allocates as nodes come." default:"0" group:"machine"`
}

// windowFlags set where windows are cut and when they are committed.
type windowFlags struct {
	Window         int           `help:"Cut a window after this many nodes, or labels." default:"500"`
	Linger         time.Duration `help:"Cut a window when its first event has waited this long." default:"100ms"`
	EventTime      time.Duration `help:"Cut tumbling windows of this width in event time, instead of by --window and --linger; 0 for none." default:"0s"`
	Lateness       time.Duration `help:"With --event-time: how far events of a partition may be out of order." default:"10s"`
	IdleTimeout    time.Duration `help:"With --event-time: stop waiting for a partition that has brought nothing for this long." default:"10s"`
	CommitInterval time.Duration `help:"Let the windows of this much time share a transaction; 0 commits each at once." default:"100ms"`
}

// maxCommitInterval is the longest transaction that brokers allow by default
// (transaction.max.timeout.ms), less a minute to commit it.
const maxCommitInterval = 14 * time.Minute

// policy returns the policy that cuts the windows.
func (f windowFlags) policy() intake.Policy {
	if f.EventTime > 0 {
		return intake.EventTime{Width: f.EventTime, Lateness: f.Lateness, Idle: f.IdleTimeout}
	}
	return intake.CountOrLinger{Count: f.Window, Linger: f.Linger}
}

// check refuses values out of range, and flags without an effect whatever the model.
func (w workCmd) check(g given) error {
	f := w.Windows
	switch {
	case w.Reserve < 0 || w.Reserve > math.MaxInt32:
		return usagef("--reserve %d: give a number of nodes, or 0 for none", w.Reserve)
	case f.Window < 1:
		return usagef("--window %d: give at least 1", f.Window)
	case f.Linger < 0:
		return usagef("--linger %v: give a duration such as 100ms, or 0 to cut at every fetch", f.Linger)
	case f.EventTime != 0 && f.EventTime < time.Millisecond:
		return usagef("--event-time %v: give the width of a window, 1ms or more, or 0 to cut by --window and --linger", f.EventTime)
	case f.Lateness < 0:
		return usagef("--lateness %v: give a duration such as 10s, or 0 when events come in order", f.Lateness)
	case f.IdleTimeout < time.Millisecond:
		return usagef("--idle-timeout %v: give a duration such as 10s, 1ms or more", f.IdleTimeout)
	case f.CommitInterval < 0 || f.CommitInterval > maxCommitInterval:
		return usagef("--commit-interval %v: give a duration such as 100ms, up to %v, or 0", f.CommitInterval, maxCommitInterval)
	case w.SessionTimeout < time.Millisecond:
		return usagef("--session-timeout %v: give a duration such as 10s", w.SessionTimeout)
	case w.CreateTopics < 0:
		return usagef("--create-topics %d: give a number of partitions, or 0 to create none", w.CreateTopics)
	}
	if err := w.graphFlags.check(g); err != nil {
		return err
	}
	return g.check(
		noEffect{f.EventTime == 0, "no effect without --event-time: add it, or leave this out", []string{"lateness", "idle-timeout"}},
		noEffect{f.EventTime > 0, "no effect with --event-time: leave out one of them", []string{"window", "linger"}},
	)
}

// Run serves until it is interrupted, and then commits the windows that are stepped.
func (w workCmd) Run(ctx context.Context, g given) error {
	if err := w.check(g); err != nil {
		return err
	}
	cfg, models, err := w.engine(g)
	if err != nil {
		return err
	}
	cfg.Reserve, cfg.Unwatched = w.Reserve, !w.Watch
	cfg, removeFiles, err := withFiles(cfg, w.State.StateDir, w.State.Pending.Memory)
	if err != nil {
		return err
	}
	defer removeFiles()
	reg := newRegistry()
	s, err := newService(cfg, reg, models...)
	if err != nil {
		return err
	}
	if s.web, err = listenHTTP(w.HTTP.HTTP, w.HTTP.HTTPConfig, reg, s.page); err != nil {
		return err
	}
	client, names, err := w.Kafka.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if w.CreateTopics > 0 {
		if _, err := topics.Create(ctx, client, names, w.CreateTopics, -1); err != nil {
			return err
		}
	}
	slog.Info("working", "model", models[0].ID, "shadow", shadowOf(models), "classes", len(models[0].Classes), "head", s.engine.Serving().Summaries()[0].Head, "topics", names.Nodes, "http", s.web.url())
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- s.web.serve(ctx) }()
	work := terms(names, cfg, models...)
	work.Policy, work.CommitInterval, work.Session = w.Windows.policy(), w.Windows.CommitInterval, w.SessionTimeout
	work.Compression, work.Rebase = w.Compression, w.Rebase
	work.Checkpoints = w.State.checkpoints(cfg, models...)
	err = s.run(ctx, client, work)
	stop()
	if e := <-served; err == nil {
		err = e
	}
	if err == nil {
		slog.Info("ended, everything is committed")
	}
	return err
}
