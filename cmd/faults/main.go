// Command faults builds gvbll and tests its guarantees under faults. Package trial
// describes the trials.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gvbll/gvbll/cmd/faults/trial"
	"github.com/gvbll/gvbll/gnn"
)

type flags struct {
	Broker  string `help:"${broker}" enum:"kfake,kafka,kafka1" default:"kfake"`
	Tool    string `help:"Script that runs nodes of Apache Kafka, for --broker kafka." default:".ci/kafka-broker" type:"path"`
	Seed    uint64 `help:"Seed of everything random." default:"1"`
	Head    string `help:"What serves: pool (a pool of heads) or paper (the paper's head)." enum:"pool,paper" default:"pool"`
	Encoder string `help:"The model's encoder." enum:"graphsage,gcn" default:"graphsage"`
	Verbose bool   `help:"Print progress." short:"v"`

	Crash struct {
		Runs    int      `help:"Runs." default:"40"`
		Nodes   int      `help:"Nodes in a run." default:"600"`
		Bases   string   `help:"${crash_bases}" placeholder:"URL"`
		Promote bool     `help:"Run a second model in the shadow, and promote it half-way."`
		Flags   []string `help:"Flags of the engine, for the workers, such as --flags=--rescore=after=3." sep:" " placeholder:"FLAG"`
	} `cmd:"" help:"Kill workers at every point of the commit and checkpoint paths."`
	Chaos struct {
		Minutes float64 `help:"Duration." default:"1"`
	} `cmd:"" help:"Kill, halt and restart workers, and disturb the cluster, for a while."`
	Cells struct {
		Cells      int  `help:"Cells of the graph." default:"8"`
		Kills      int  `help:"Workers killed, before all are restarted in turn." default:"20"`
		Rate       int  `help:"Nodes sent a second, to the cells in turn." default:"400"`
		NoStandbys bool `help:"Cells have no standbys."`
	} `cmd:"" help:"Kill and restart three workers of a graph of many cells."`
	Soak struct {
		Minutes float64 `help:"Duration." default:"2"`
		Bases   string  `help:"${soak_bases}" placeholder:"URL"`
		Rate    int     `help:"Nodes sent a second." default:"3500"`
	} `cmd:"" help:"Send at a steady rate to workers whose nodes expire, and check that memory, files and goroutines do not grow."`
	Restarts struct {
		Times int           `help:"Restarts." default:"7"`
		Rate  int           `help:"Nodes sent a second." default:"60"`
		Away  time.Duration `help:"How long the last restart leaves its broker down." default:"40s"`
	} `cmd:"" help:"Restart brokers of Apache Kafka cleanly, under load."`
	World struct {
		Only string `help:"Only the scenarios whose names contain this." placeholder:"TEXT"`
	} `cmd:"" help:"Throttle workers, cut topics short, hold requests, forget nodes while models are tried, and compare what workers say."`
	Hostile struct {
		Size float64 `help:"${hostile_size}" default:"0.03"`
		Only string  `help:"Only the attacks whose names contain this." placeholder:"TEXT"`
	} `cmd:"" help:"Send floods of hostile records beside a stream, and measure what the worker takes."`
}

var flagsHelp = kong.Vars{
	"broker": "Cluster: kfake, or kafka for three nodes of Apache Kafka, or kafka1 for one.",
	"crash_bases": "Workers write bases to this folder or bucket and purge the ledger, inputs are deleted up to the oldest " +
		"one at each restart, and every second start has an empty state folder. There are no commands and no " +
		"epochs.",
	"soak_bases": "Two workers write bases to this folder or bucket, a folder of the trial's when left out, purge the ledger, and let " +
		"nodes expire; inputs are deleted up to the oldest base, and workers are killed and start on empty folders.",
	"hostile_size": "Share of the full size, which has a million commands, neighbours and nodes and ten million classes.",
}

func main() {
	var f flags
	cmd := kong.Parse(&f, kong.Name("faults"), kong.UsageOnError(), flagsHelp)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // brokers of Apache Kafka end with it
	defer stop()
	if err := f.run(ctx, cmd.Command()); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func (f *flags) run(ctx context.Context, command string) error {
	began := time.Now()
	report := func(what string) {
		if f.Verbose {
			fmt.Fprintf(os.Stderr, "%8.1f s  %s\n", time.Since(began).Seconds(), what)
		}
	}
	s := &trial.Setup{Head: f.Head, Flags: f.Crash.Flags, Bases: cmp.Or(f.Crash.Bases, f.Soak.Bases), Seed: f.Seed, Report: report}
	nodes := map[string]int{
		"crash": f.Crash.Nodes, "chaos": 2000, "cells": 6000, "soak": 2000, "restarts": 2000,
		"world": 600, "hostile": 600,
	}[command]
	s.Small = command == "soak"
	err := s.Prepare(ctx, f.Broker, f.Tool, gnn.Kind(f.Encoder), nodes, f.Crash.Promote)
	var found interface{ Err() error }
	if err == nil {
		switch command {
		case "crash":
			found, err = trial.Crash(ctx, s, f.Crash.Runs)
		case "chaos":
			found, err = trial.Chaos(ctx, s, time.Duration(f.Chaos.Minutes*float64(time.Minute)))
		case "cells":
			found, err = trial.Cells(ctx, s, f.Cells.Cells, f.Cells.Kills, f.Cells.Rate, f.Cells.NoStandbys)
		case "restarts":
			found, err = trial.Restarts(ctx, s, f.Restarts.Rate, f.Restarts.Times, f.Restarts.Away)
		case "world":
			found, err = trial.World(ctx, s, f.World.Only)
		case "hostile":
			found, err = trial.Hostile(ctx, s, f.Hostile.Size, f.Hostile.Only)
		case "soak":
			found, err = trial.Soak(ctx, s, f.Soak.Rate, time.Duration(f.Soak.Minutes*float64(time.Minute)))
		}
	}
	if err == nil {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		err = cmp.Or(out.Encode(found), found.Err())
	}
	return s.End(err)
}
