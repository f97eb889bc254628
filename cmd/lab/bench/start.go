package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// start measures the time from starting the program, as a worker with a small model,
// until its first prediction can be read.
func start(ctx context.Context, c Config) ([]Row, error) {
	dir, err := os.MkdirTemp("", "gvbll-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	w := Workload{Features: 16, Hidden: 16, Embedding: 8, Classes: 5, Window: 1, Seed: 1}
	m, err := w.Model()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "model.safetensors")
	if err := m.Save(file); err != nil {
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
	var times []float64
	for i := range 5 {
		prefix := fmt.Sprintf("start-%d", i)
		cmd := exec.CommandContext(ctx, c.Program, "work", "--model", file, "--brokers", embedded.Addr(), "--prefix", prefix,
			"--http", "127.0.0.1:0", "--linger", "0", "--commit-interval", "0", "--log-level", "error")
		took, err := firstPrediction(ctx, cmd, client, prefix, w)
		if err != nil {
			return nil, err
		}
		times = append(times, float64(took.Microseconds())/1000)
	}
	slices.Sort(times)
	return []Row{atMost("start", times[len(times)/2], "ms", 300)}, nil
}

// firstPrediction sends a node to new topics, starts the worker, and returns the time
// until the node's prediction can be read.
func firstPrediction(ctx context.Context, worker *exec.Cmd, client *kafka.Client, prefix string, w Workload) (time.Duration, error) {
	names, err := topics.Under(prefix)
	if err != nil {
		return 0, err
	}
	if _, err := topics.Create(ctx, client, names, topics.Layout{Partitions: 1, Replication: -1}); err != nil {
		return 0, err
	}
	p, err := client.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return 0, err
	}
	n := w.Stream().Next(false).Nodes[0]
	key := wire.AppendKey(nil, n.ID)
	if err := p.Send(ctx, []kafka.Record{{Topic: names.Nodes, Key: key, Value: wire.AppendNode(nil, &n)}}); err != nil {
		return 0, err
	}
	r := client.NewReader(map[kafka.TopicPartition]int64{{Topic: names.Predictions}: 0}, kafka.ReaderConfig{})
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	began := time.Now()
	if err := worker.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	}()
	for {
		records, err := r.Poll(ctx)
		if err != nil {
			return 0, fmt.Errorf("no prediction came from %s: %w", worker.Path, err)
		}
		if len(records) > 0 {
			return time.Since(began), nil
		}
	}
}
