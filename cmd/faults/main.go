// Command faults builds gvbll and tests its guarantees under faults. Package trial
// describes the trials.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gvbll/gvbll/cmd/faults/trial"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
)

type flags struct {
	Broker  string `help:"Cluster: kfake, or kafka for three nodes of Apache Kafka, or kafka1 for one." enum:"kfake,kafka,kafka1" default:"kfake"`
	Tool    string `help:"Script that runs nodes of Apache Kafka, for --broker kafka." default:".ci/kafka-broker" type:"path"`
	Seed    uint64 `help:"Seed of everything random." default:"1"`
	Head    string `help:"What serves: pool (a pool of heads) or paper (the paper's head)." enum:"pool,paper" default:"pool"`
	Encoder string `help:"The model's encoder." enum:"graphsage,gcn" default:"graphsage"`
	Shards  int    `help:"Shards of the graphs of crash, spread, chaos and restarts, 0 for graphs without." default:"0"`
	Verbose bool   `help:"Print progress." short:"v"`

	Crash struct {
		Runs    int      `help:"Runs." default:"40"`
		Nodes   int      `help:"Nodes in a run." default:"600"`
		Promote bool     `help:"Run a second model in the shadow, and promote it half-way."`
		Flags   []string `help:"Flags of the engine, for the workers, such as --flags=--rescore=after=3." sep:" " placeholder:"FLAG"`
	} `cmd:"" help:"Kill workers at every point of the commit and checkpoint paths."`
	Spread struct{} `cmd:"" help:"Spread the tasks of a sharded graph over different numbers of processes, and compare what they publish."`
	Chaos  struct {
		Minutes float64 `help:"Duration." default:"1"`
	} `cmd:"" help:"Kill, halt and restart workers, and disturb the cluster, for a while."`
	Upgrade struct {
		Old string `help:"The old program: a gvbll binary." required:"" type:"existingfile"`
	} `cmd:"" help:"Replace the workers of an old program by new ones under load, and measure the pause."`
	Soak struct {
		Minutes float64 `help:"Duration." default:"2"`
	} `cmd:"" help:"Send at a steady rate, and check that the worker's memory, files and goroutines do not grow."`
	Restarts struct {
		Times int           `help:"Restarts." default:"7"`
		Rate  int           `help:"Nodes sent a second." default:"60"`
		Away  time.Duration `help:"How long the last restart leaves its broker down." default:"40s"`
	} `cmd:"" help:"Restart brokers of Apache Kafka cleanly, under load."`
	World struct {
		Only string `help:"Only the scenarios whose names contain this." placeholder:"TEXT"`
	} `cmd:"" help:"Delete, recreate and shorten topics, send batches that cannot be read, and compare what workers say."`
	Hostile struct {
		Size float64 `help:"Share of the full size, which has a million commands, neighbours and nodes and ten million classes." default:"0.03"`
		Only string  `help:"Only the attacks whose names contain this." placeholder:"TEXT"`
	} `cmd:"" help:"Send floods of hostile records beside a stream, and measure what the worker takes."`
}

func main() {
	var f flags
	cmd := kong.Parse(&f, kong.Name("faults"), kong.UsageOnError())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := f.run(ctx, cmd.Command()); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func (f *flags) run(ctx context.Context, command string) error {
	dir, err := os.MkdirTemp("", "gvbll-faults-")
	if err != nil {
		return err
	}
	s := &trial.Setup{Program: filepath.Join(dir, "gvbll"), Model: filepath.Join(dir, "model.safetensors"), Dir: dir, Head: f.Head, Shards: f.Shards}
	nodes := map[string]int{"crash": f.Crash.Nodes, "spread": 600, "chaos": 2000, "upgrade": 2000, "soak": 20_000, "restarts": 2000, "world": 600, "hostile": 600}[command]
	if err := f.prepare(ctx, s, nodes); err != nil {
		return err
	}
	cluster, err := trial.NewCluster(f.Broker, f.Tool, filepath.Join(dir, "kafka"))
	if err != nil {
		return err
	}
	defer cluster.Close()
	s.Brokers = cluster.Addresses()
	if s.Client, err = kafka.Dial(ctx, kafka.Config{Brokers: s.Brokers, ClientID: "faults"}); err != nil {
		return err
	}
	defer s.Client.Close()
	began := time.Now()
	report := func(what string) {
		if f.Verbose {
			fmt.Fprintf(os.Stderr, "%8.1f s  %s\n", time.Since(began).Seconds(), what)
		}
	}
	var found interface{ Err() error }
	switch command {
	case "crash":
		found, err = trial.Crash(ctx, s, f.Crash.Runs, f.Seed, func(done int) { report(fmt.Sprintf("%d of %d runs", done, f.Crash.Runs)) })
	case "spread":
		found, err = trial.Spread(ctx, s, f.Seed, report)
	case "chaos":
		found, err = trial.Chaos(ctx, s, cluster, f.Seed, time.Duration(f.Chaos.Minutes*float64(time.Minute)), report)
	case "restarts":
		found, err = trial.Restarts(ctx, s, cluster, f.Restarts.Rate, f.Restarts.Times, f.Restarts.Away, report)
	case "world":
		found, err = trial.World(ctx, s, cluster, f.World.Only, report)
	case "hostile":
		found, err = trial.Hostile(ctx, s, f.Hostile.Size, f.Hostile.Only, report)
	case "upgrade":
		found, err = trial.Upgrade(ctx, s, f.Upgrade.Old, report)
	case "soak":
		found, err = trial.Soak(ctx, s, time.Duration(f.Soak.Minutes*float64(time.Minute)), report)
	}
	if err == nil {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		err = cmp.Or(out.Encode(found), found.Err())
	}
	if err != nil {
		return fmt.Errorf("%w (logs are in %s)", err, dir)
	}
	return os.RemoveAll(dir)
}

// prepare builds the program, trains small models, and sets the nodes that the trial
// sends.
func (f *flags) prepare(ctx context.Context, s *trial.Setup, nodes int) error {
	build := exec.CommandContext(ctx, "go", "build", "-tags", "crashpoints", "-o", s.Program, "./cmd/gvbll")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the program: %w: %s", err, out)
	}
	cfg, err := dataset.DriftPreset("moderate")
	if err != nil {
		return err
	}
	cfg.Nodes, cfg.Steps, cfg.Seed = 4*nodes+500, 10, f.Seed // most of them for the training
	d, split, err := dataset.Drift(cfg)
	if err != nil {
		return err
	}
	data := model.Data{Name: d.Name, Dim: d.Dim, Classes: d.Classes}
	for _, v := range split.Train {
		data.X, data.Labels = append(data.X, d.Features[v]), append(data.Labels, d.Labels[v])
	}
	data.Src, data.Dst = d.Subgraph(split.Train)
	if _, err := f.train(ctx, data, model.Config{Seed: f.Seed}, s.Model); err != nil {
		return err
	}
	s.Flags = f.Crash.Flags
	if f.Crash.Promote {
		s.Shadow = filepath.Join(s.Dir, "shadow.safetensors")
		s.ShadowID, err = f.train(ctx, data, model.Config{Seed: f.Seed + 1, Encoder: gnn.KindGCN, Embedding: 8}, s.Shadow)
		if err != nil {
			return err
		}
	}
	neighbours := d.Arrivals(split.Steps)
	for _, step := range split.Steps {
		for _, v := range step {
			if len(s.Items) == nodes {
				return nil
			}
			x := d.Features[v]
			n := event.Node{ID: event.ID{Num: int64(v)}, Dense: x.Dense, Index: x.Index, Value: x.Value}
			for _, u := range neighbours[v] {
				n.Neighbours = append(n.Neighbours, event.ID{Num: int64(u)})
			}
			s.Items = append(s.Items, trial.Item{Node: n, Class: d.Classes[d.Labels[v]]})
		}
	}
	if len(s.Items) < nodes {
		return fmt.Errorf("the stream of the data set has %d nodes, and the trial needs %d", len(s.Items), nodes)
	}
	return nil
}

// train trains a model, saves it as the file and returns its id.
func (f *flags) train(ctx context.Context, data model.Data, cfg model.Config, file string) (id string, err error) {
	cfg.Epochs, cfg.Pool, cfg.Encoder = 20, f.Head == pipeline.HeadPool, cmp.Or(cfg.Encoder, gnn.Kind(f.Encoder))
	m, err := model.Train(ctx, data, cfg, nil)
	if err != nil {
		return "", err
	}
	if err := m.Save(file); err != nil {
		return "", err
	}
	if m, err = model.Open(file); err != nil { // the id is the file's hash
		return "", err
	}
	return m.ID, nil
}
