package main

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// BenchmarkStart measures the time from starting the program, as a worker with a small model,
// until its first prediction can be read.
func BenchmarkStart(b *testing.B) {
	file := filepath.Join(b.TempDir(), "m.safetensors")
	must(b, pipelinetest.ModelOfWidth(b, rand.New(rand.NewPCG(1, 0)), gnn.KindSAGE, 16, 16, 8).Save(file))
	embedded, err := broker.Start(broker.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer embedded.Close()
	client, err := kafka.Dial(b.Context(), kafka.Config{Brokers: []string{embedded.Addr()}})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	n := event.Node{ID: event.ID{Num: 1}, Dense: make([]float32, 16)}
	node := kafka.Record{Key: wire.AppendKey(nil, n.ID), Value: wire.AppendNode(nil, &n)}
	for b.Loop() {
		b.StopTimer()
		prefix := "start-" + time.Now().Format("150405.000000")
		names, err := topics.Under(prefix)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := topics.Create(b.Context(), client, names, topics.Layout{Partitions: 1, Replication: -1}); err != nil {
			b.Fatal(err)
		}
		p, err := client.NewProducer(b.Context(), kafka.ProducerConfig{})
		if err != nil {
			b.Fatal(err)
		}
		node.Topic = names.Nodes
		if err := p.Send(b.Context(), []kafka.Record{node}); err != nil {
			b.Fatal(err)
		}
		r := client.NewReader(map[kafka.TopicPartition]int64{{Topic: names.Predictions}: 0}, kafka.ReaderConfig{})
		worker := exec.Command(program, "work", "--model", file, "--brokers", embedded.Addr(), "--prefix", prefix,
			"--http", "127.0.0.1:0", "--linger", "0", "--commit-interval", "0", "--log-level", "error")
		worker.Env = append(os.Environ(), asProgram+"=1")
		b.StartTimer()
		if err := worker.Start(); err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
		for records := 0; records == 0; {
			list, err := r.Poll(ctx)
			if err != nil {
				b.Fatalf("no prediction came: %v", err)
			}
			records = len(list)
		}
		b.StopTimer()
		cancel()
		_ = worker.Process.Kill()
		_ = worker.Wait()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/start")
}
