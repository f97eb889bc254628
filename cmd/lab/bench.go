package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/lab/bench"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel/level"
)

type benchCmd struct {
	Names []string `arg:"" optional:"" name:"name" help:"Benchmarks to run, all by default: ${benchmarks}."`

	Quick bool `help:"Run briefly on small graphs, as a check that it works. The figures mean little."`
	JSON  bool `help:"Print a JSON array, with an object for each figure." name:"json"`

	Nodes     int     `help:"Number of nodes of the graph before the measurement." default:"169000" group:"graph"`
	Degree    int     `help:"Mean degree, an even number. Degrees follow a power law." default:"14" group:"graph"`
	Features  int     `help:"Number of features of a node." default:"128" group:"graph"`
	Density   float64 `help:"Share of the features that are not zero. Vectors are sparse below 1." default:"1" group:"graph"`
	Classes   int     `help:"Number of classes." default:"40" group:"graph"`
	Window    int     `help:"Number of arrivals in a window." default:"500" group:"graph"`
	Encoder   string  `help:"Encoder: graphsage, gcn, gat or gin." enum:"graphsage,gcn,gat,gin" default:"graphsage" placeholder:"graphsage" group:"graph"`
	Hidden    int     `help:"Width of the encoder's hidden layer." default:"128" group:"graph"`
	Embedding int     `help:"Dimension of an embedding." default:"64" group:"graph"`

	Brokers        []string      `help:"Measure the stream on this Kafka too, host:port." placeholder:"ADDR" group:"kafka"`
	Events         int           `help:"Number of arrivals to send through a broker." default:"200000" group:"kafka"`
	Partitions     int           `help:"Number of partitions of the topics." default:"4" group:"kafka"`
	Workers        int           `help:"Threads that share the arithmetic of a window, as in 'gvbll work'." default:"1" group:"kafka"`
	Linger         time.Duration `help:"Cut a window when its first event has waited this long. 'gvbll work' waits for 100ms when left out." default:"2ms" group:"kafka"`
	CommitInterval time.Duration `help:"Time between transactions." default:"100ms" group:"kafka"`
}

// Help is shown by lab bench --help.
func (benchCmd) Help() string {
	return "Measures what an arrival costs in the graph, in the engine and through a broker, beside the bars that docs/performance.md explains. " +
		"A ratio compares two measurements of the same run; close other programs. " +
		"Throughput is the best of two rounds. throughput-first is a round before them, while the process still gets its memory from the system; " +
		"GODEBUG=madvdontneed=0 keeps the memory that a round frees for the next one, which helps on virtual machines. " +
		"Latency is measured at 40,000 arrivals a second, for which it has bars, and at half of latency-sustained, the rate that sender, worker and two readers reach together. " +
		"What is compared with PyTorch is compared with what PyTorch took on the machine of docs/performance.md, so it has no bar."
}

func benchmarkNames() (names []string) {
	for _, b := range bench.All {
		names = append(names, b.Name)
	}
	return names
}

// Run measures and prints.
func (c benchCmd) Run(ctx context.Context, p flags.Process) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	names := benchmarkNames()
	for _, name := range c.Names {
		if !slices.Contains(names, name) {
			return flags.Usagef("benchmark %s: give some of %s", name, strings.Join(names, ", "))
		}
	}
	if len(c.Names) == 0 {
		c.Names = names
	}
	var rows []bench.Row
	bar := flags.NewProgress(p.Err, "bench", len(c.Names))
	for i, name := range c.Names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		more, err := bench.All[slices.Index(names, name)].Run(ctx, cfg)
		if err != nil {
			return fmt.Errorf("bench %s: %w", name, err)
		}
		rows = append(rows, more...)
		bar.Set(i+1, name)
	}
	if c.JSON {
		return flags.PrintJSON(p.Out, rows)
	}
	return printRows(p.Out, rows)
}

func (c benchCmd) config() (cfg bench.Config, err error) {
	for _, n := range []struct {
		flag  string
		value int
	}{{"nodes", c.Nodes}, {"features", c.Features}, {"hidden", c.Hidden}, {"embedding", c.Embedding}, {"window", c.Window}, {"events", c.Events}, {"partitions", c.Partitions}, {"workers", c.Workers}} {
		if n.value < 1 {
			return cfg, flags.Usagef("--%s %d: give a positive number", n.flag, n.value)
		}
	}
	if c.Degree < 2 || c.Degree%2 == 1 || c.Classes < 2 || !(c.Density > 0 && c.Density <= 1) {
		return cfg, flags.Usagef("--degree %d --classes %d --density %v: give an even degree, at least 2 classes and a share up to 1", c.Degree, c.Classes, c.Density)
	}
	if c.Quick {
		c.Nodes, c.Events = min(c.Nodes, 5000), min(c.Events, 5000)
	}
	cfg = bench.Config{
		Workload: bench.Workload{
			Nodes: c.Nodes, Degree: c.Degree, Features: c.Features, Density: c.Density, Hidden: c.Hidden, Embedding: c.Embedding,
			Classes: c.Classes, Window: c.Window, Encoder: gnn.Kind(c.Encoder), Seed: 1,
		},
		Quick: c.Quick, Workers: c.Workers, Events: c.Events, Partitions: c.Partitions, Linger: c.Linger, Interval: c.CommitInterval,
	}
	if len(c.Brokers) > 0 {
		cfg.Broker = c.Brokers[0]
	}
	return cfg, nil
}

func printRows(w io.Writer, rows []bench.Row) error {
	fmt.Fprintf(w, "kernels: %s\n%-36s %14s  %-16s %-18s\n", level.Active, "", "measured", "", "bar")
	for _, r := range rows {
		last := r.Note
		if !r.Holds {
			last = "missed"
		}
		line := fmt.Sprintf("%-36s %14.4g  %-16s %-18s %s", r.Name, r.Value, r.Unit, r.Bar, last)
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}
