package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/bench"
	"github.com/gvbll/gvbll/cmd/gvbll/bench/stream"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

type benchCmd struct {
	Names []string `arg:"" optional:"" name:"name" help:"Benchmarks to run; all when left out: ${benchmarks}."`

	Nodes     int     `help:"Nodes in the graph before anything is measured." default:"169000"`
	Degree    int     `help:"Mean degree, even; degrees follow a power law." default:"14"`
	Features  int     `help:"Features of a node." default:"128"`
	Density   float64 `help:"Share of the features that are not zero; sparse vectors below 1." default:"1"`
	Hidden    int     `help:"Width of the encoder's hidden layer." default:"128"`
	Embedding int     `help:"Dimension of an embedding." default:"64"`
	Classes   int     `help:"Classes." default:"40"`
	Window    int     `help:"Arrivals a window." default:"500"`
	Encoder   string  `help:"Encoder: graphsage, gcn, gat or gin." enum:"graphsage,gcn,gat,gin" default:"graphsage" placeholder:"graphsage"`

	Brokers        []string      `help:"Measure the stream on this Kafka too, host:port." placeholder:"ADDR"`
	Events         int           `help:"Arrivals that go through a broker." default:"200000"`
	Partitions     int           `help:"Partitions of the topics." default:"4"`
	Workers        int           `help:"Threads that share the products of a window behind a broker, as in gvbll work." default:"1"`
	CommitInterval time.Duration `help:"Interval between transactions." default:"100ms"`

	Quick bool `help:"A short run on small graphs, to see that it works: its figures mean little."`
	JSON  bool `help:"Print a JSON array, an object for each figure." name:"json"`
}

// Help is shown by gvbll bench --help.
func (benchCmd) Help() string {
	return "What an arrival costs, in the graph, in the engine and through a broker, beside the bars that docs/performance.md explains. " +
		"Ratios are of two measurements in one run; close other programs. " +
		"Throughput is the best of two rounds; throughput-first is a round before them, in which the process has its memory to get from the system. " +
		"With GODEBUG=madvdontneed=0 in the environment, what a round gives back stays for the next: on a virtual machine a page can cost more than an arrival. " +
		"Latency is measured at half of latency-sustained, the rate of sender, worker and two readers together, and beside it (latency-alone) at half of what the worker takes without them."
}

// benchmarks are the names, in order. The one that takes the most memory is the
// last: what is given back has to be taken again, which some systems do slowly.
func benchmarks() (names []string) {
	const last = "size"
	for _, b := range bench.Engine {
		if b.Name != last {
			names = append(names, b.Name)
		}
	}
	return append(names, "wire", "throughput", "latency", "start", last)
}

// Run measures and prints.
func (c benchCmd) Run(ctx context.Context, s streams) error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"nodes", c.Nodes}, {"features", c.Features}, {"hidden", c.Hidden}, {"embedding", c.Embedding}, {"window", c.Window}, {"events", c.Events}, {"partitions", c.Partitions}, {"workers", c.Workers}} {
		if n.value < 1 {
			return usagef("--%s %d: give a positive number", n.flag, n.value)
		}
	}
	if c.Degree < 2 || c.Degree%2 == 1 || c.Classes < 2 || !(c.Density > 0 && c.Density <= 1) {
		return usagef("--degree %d --classes %d --density %v: give an even degree, at least 2 classes and a share up to 1", c.Degree, c.Classes, c.Density)
	}
	known := benchmarks()
	for _, name := range c.Names {
		if !slices.Contains(known, name) {
			return usagef("benchmark %s: give some of %s", name, strings.Join(known, ", "))
		}
	}
	if len(c.Names) == 0 {
		c.Names = known
	}
	if c.Quick {
		c.Nodes, c.Events = min(c.Nodes, 5000), min(c.Events, 5000)
	}
	var rows []bench.Row
	bar := newProgress(s.err, "bench", len(c.Names))
	for i, name := range c.Names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		more, err := c.run(ctx, name)
		if err != nil {
			return fmt.Errorf("bench %s: %w", name, err)
		}
		rows = append(rows, more...)
		bar.set(i+1, name)
	}
	if c.JSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		return e.Encode(rows)
	}
	return printRows(s.out, rows)
}

func printRows(w io.Writer, rows []bench.Row) error {
	fmt.Fprintf(w, "kernels: %s\n%-36s %14s  %-16s %-18s\n", kernel.Level(), "", "measured", "", "bar")
	for _, r := range rows {
		mark := ""
		if !r.Holds {
			mark = "missed"
		}
		if _, err := fmt.Fprintf(w, "%-36s %14.4g  %-16s %-18s %s\n", r.Name, r.Value, r.Unit, r.Bar, mark); err != nil {
			return err
		}
	}
	return nil
}

func (c benchCmd) run(ctx context.Context, name string) ([]bench.Row, error) {
	for _, b := range bench.Engine {
		if b.Name == name {
			return b.Run(c.workload(), c.Quick)
		}
	}
	switch name {
	case "wire":
		return c.wire(), nil
	case "throughput":
		return c.onBrokers(ctx, c.throughput)
	case "latency":
		return c.onBrokers(ctx, c.latency)
	default:
		return c.start(ctx)
	}
}

func (c benchCmd) workload() bench.Workload {
	return bench.Workload{
		Nodes: c.Nodes, Degree: c.Degree, Features: c.Features, Density: c.Density, Hidden: c.Hidden, Embedding: c.Embedding,
		Classes: c.Classes, Window: c.Window, Encoder: gnn.Kind(c.Encoder), Seed: 1,
	}
}

// wire compares the bytes of Cora-like features, sparse and written out.
func (c benchCmd) wire() []bench.Row {
	w := c.workload()
	w.Features, w.Density = 1433, 0.013
	sparse, dense := 0, 0
	for _, n := range w.Stream().Next(false).Nodes {
		n.Neighbours = nil
		sparse += len(wire.AppendNode(nil, &n))
		n.Dense = make([]float32, w.Features)
		for k, index := range n.Index {
			n.Dense[index] = n.Value[k]
		}
		n.Index, n.Value = nil, nil
		dense += len(wire.AppendNode(nil, &n))
	}
	return []bench.Row{bench.AtLeast("wire-sparse", float64(dense)/float64(sparse), "times", 10)}
}

// onBrokers measures on the embedded broker and on the Kafka that was given.
func (c benchCmd) onBrokers(ctx context.Context, measure func(context.Context, string, *stream.Setup) ([]bench.Row, error)) ([]bench.Row, error) {
	dir, err := os.MkdirTemp("", "gvbll-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	embedded, err := broker.Start(broker.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	defer embedded.Close()
	brokers := []string{embedded.Addr()}
	names := []string{"kfake"}
	if len(c.Brokers) > 0 {
		brokers, names = append(brokers, c.Brokers[0]), append(names, "kafka")
	}
	var rows []bench.Row
	for i, addr := range brokers {
		client, err := kafka.Dial(ctx, kafka.Config{Brokers: []string{addr}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, err
		}
		defer client.Close()
		setup, err := c.setup(client, addr)
		if err != nil {
			return nil, err
		}
		more, err := measure(ctx, names[i], setup)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// setup is the workload's stream, from an empty graph, and the real engine.
func (c benchCmd) setup(client *kafka.Client, addr string) (*stream.Setup, error) {
	w := c.workload()
	m, err := w.Model()
	if err != nil {
		return nil, err
	}
	var events *bench.Stream
	var window *event.Window
	return &stream.Setup{
		Client: client, Broker: addr, Classes: m.Classes, Partitions: c.Partitions, Window: c.Window, Interval: c.CommitInterval,
		Engine: fresh(pipeline.Config{Workers: c.Workers, Reserve: 2 * c.Events}, m),
		Node: func(i int) *event.Node {
			if i == 0 {
				events = w.Stream()
			}
			if i%c.Window == 0 {
				window = events.Next(false)
			}
			return &window.Nodes[i%c.Window]
		},
	}, nil
}

func (c benchCmd) throughput(ctx context.Context, name string, s *stream.Setup) ([]bench.Row, error) {
	t, err := s.Measure(ctx, c.Events)
	if err != nil {
		return nil, err
	}
	return []bench.Row{
		figure("throughput-"+name, t.Worker, "arrivals/s"),
		figure("throughput-first-"+name, t.First, "arrivals/s"),
		figure("bare-pass-through-"+name, t.Bare, "arrivals/s"),
		bench.AtLeast("throughput-against-bare-"+name, t.Worker/t.Bare, "times", 0.5),
		figure("bytes-in-"+name, t.BytesIn, "an arrival"),
		figure("bytes-out-"+name, t.BytesOut, "a prediction"),
	}, nil
}

// latency is measured at half of what sender, worker and readers sustain together,
// and at half of what the worker takes when it has the machine to itself.
func (c benchCmd) latency(ctx context.Context, name string, s *stream.Setup) ([]bench.Row, error) {
	events, long := max(c.Events/2, 1000), 5*time.Second
	if c.Quick {
		long = time.Second
	}
	t, err := s.Measure(ctx, events)
	if err != nil {
		return nil, err
	}
	sustained, err := s.Sustained(ctx, events)
	if err != nil {
		return nil, err
	}
	uncommitted, committed, err := s.Latency(ctx, sustained/2, long)
	if err != nil {
		return nil, err
	}
	early, late, err := s.Latency(ctx, t.Worker/2, long)
	if err != nil {
		return nil, err
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return []bench.Row{
		figure("latency-sustained-"+name, sustained, "arrivals/s"),
		bench.AtMost("latency-uncommitted-p99-"+name, ms(uncommitted.P99), "ms", 20),
		bench.AtMost("latency-committed-p99-"+name, ms(committed.P99), "ms", ms(c.CommitInterval)+20),
		figure("latency-uncommitted-p50-"+name, ms(uncommitted.P50), "ms"),
		figure("latency-committed-p50-"+name, ms(committed.P50), "ms"),
		figure("latency-alone-uncommitted-p99-"+name, ms(early.P99), "ms"),
		figure("latency-alone-committed-p99-"+name, ms(late.P99), "ms"),
	}, nil
}

// figure is a row that nothing is asked of.
func figure(name string, value float64, unit string) bench.Row {
	return bench.Row{Name: name, Value: value, Unit: unit, Bar: "none", Holds: true}
}

// start measures from the start of this binary, as a worker of a small model, to
// the first prediction that can be read.
func (c benchCmd) start(ctx context.Context) ([]bench.Row, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gvbll-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	w := bench.Workload{Features: 16, Hidden: 16, Embedding: 8, Classes: 5, Window: 1, Seed: 1}
	m, err := w.Model()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "model.safetensors")
	if err := m.Save(path); err != nil {
		return nil, err
	}
	embedded, err := broker.Start(broker.Config{})
	if err != nil {
		return nil, err
	}
	defer embedded.Close()
	client, err := kafka.Dial(ctx, kafka.Config{Brokers: []string{embedded.Addr()}})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var took []float64
	for i := range 5 {
		names, err := topics.Under(fmt.Sprintf("start-%d", i))
		if err != nil {
			return nil, err
		}
		if _, err := topics.Create(ctx, client, names, 1, -1); err != nil {
			return nil, err
		}
		d, err := c.startOnce(ctx, exe, path, embedded.Addr(), fmt.Sprintf("start-%d", i), client, names, w)
		if err != nil {
			return nil, err
		}
		took = append(took, float64(d.Microseconds())/1000)
	}
	slices.Sort(took)
	return []bench.Row{bench.AtMost("start", took[len(took)/2], "ms", 300)}, nil
}

func (c benchCmd) startOnce(ctx context.Context, exe, path, addr, prefix string, client *kafka.Client, names topics.Names, w bench.Workload) (time.Duration, error) {
	p, err := client.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	n := w.Stream().Next(false).Nodes[0]
	key := wire.AppendKey(nil, n.ID)
	if err := p.Send(ctx, []kafka.Record{{Topic: names.Nodes, Key: key, Value: wire.AppendNode(nil, &n)}}); err != nil {
		return 0, err
	}
	r := client.NewReader(map[kafka.TopicPartition]int64{{Topic: names.Predictions}: 0}, kafka.ReaderConfig{})
	defer r.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "work", "--model", path, "--brokers", addr, "--prefix", prefix, "--http", "127.0.0.1:0", "--linger", "0", "--commit-interval", "0", "--log-level", "error")
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for {
		records, err := r.Poll(ctx)
		if err != nil {
			return 0, fmt.Errorf("no prediction came from %s: %w", exe, err)
		}
		if len(records) > 0 {
			return time.Since(began), nil
		}
	}
}
