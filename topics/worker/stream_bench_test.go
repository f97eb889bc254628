package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// A stream as wide as the one that the bars speak of: 128 dense features and
// 14 neighbours in, 40 classes out, windows of 500, transactions of 100 ms.
const (
	benchPartitions = 4
	benchEvents     = 200_000
	benchWindow     = 500
	benchInterval   = 100 * time.Millisecond
)

// ready is an engine that answers at once, so that the stream's own ceiling
// shows.
type ready struct {
	out   event.Outcome
	probs []float32
}

func (e *ready) Step(w *event.Window) *event.Outcome {
	if e.probs == nil {
		e.probs = make([]float32, 40)
		for i := range e.probs {
			e.probs[i] = 1.0 / 40
		}
		e.out.Heads = []event.Head{{Name: "ready"}}
	}
	e.out.Window, e.out.Refused, e.out.Predictions = w.Number, w.Refused, e.out.Predictions[:0]
	e.out.Counts.Arrivals = len(w.Nodes)
	for i := range w.Nodes {
		e.out.Predictions = append(e.out.Predictions, event.Prediction{
			Node: w.Nodes[i].ID, Class: "class", ClassIndex: 7, Confidence: 0.5, Probabilities: e.probs,
			Total: 1, Aleatoric: 0.5, Epistemic: 0.5, Window: w.Number, Time: w.Nodes[i].Time, Model: "0123456789abcdef0123456789abcdef",
		})
	}
	return &e.out
}

// brokers runs a benchmark on kfake, and on the Kafka of GVBLL_KAFKA when there
// is one.
func brokers(b *testing.B, run func(b *testing.B, addr string)) {
	b.Run("kfake", func(b *testing.B) {
		// In files: what grows in memory is copied again and again.
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(b.TempDir()))
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		run(b, c.ListenAddrs()[0])
	})
	if addr := os.Getenv("GVBLL_KAFKA"); addr != "" {
		b.Run("kafka", func(b *testing.B) { run(b, addr) })
	}
}

func dialBench(b *testing.B, addr string) *kafka.Client {
	b.Helper()
	c, err := kafka.Dial(b.Context(), kafka.Config{Brokers: []string{addr}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

// benchTopics creates the topics of a graph. With inputs, it gets only its own
// outputs and reads those.
func benchTopics(b *testing.B, c *kafka.Client, inputs *topics.Names) topics.Names {
	b.Helper()
	names, err := topics.Under(fmt.Sprintf("bench-%d-%d", time.Now().UnixNano(), worlds.Add(1)))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := topics.Create(b.Context(), c, names, benchPartitions, 1); err != nil {
		b.Fatal(err)
	}
	if inputs != nil {
		names.Nodes, names.Labels = inputs.Nodes, inputs.Labels
	}
	return names
}

// node is the record of the i-th arrival.
func nodeRecord(topic string, i int, dense []float32, at int64) kafka.Record {
	id := event.ID{Num: int64(i)}
	n := event.Node{ID: id, Dense: dense, Time: at}
	for k := range 14 {
		n.Neighbours = append(n.Neighbours, event.ID{Num: int64(i*(k+1)) % 100_003})
	}
	key := wire.AppendKey(nil, id)
	return kafka.Record{Topic: topic, Partition: kafka.PartitionFor(key, benchPartitions), Key: key, Value: wire.AppendNode(nil, &n)}
}

func fill(b *testing.B, c *kafka.Client, topic string, n int) {
	b.Helper()
	p, err := c.NewProducer(b.Context(), kafka.ProducerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	dense := make([]float32, 128)
	for i := range dense {
		dense[i] = float32(i) / 128
	}
	var records []kafka.Record
	for i := range n {
		if records = append(records, nodeRecord(topic, i, dense, 1)); len(records) == 2000 || i == n-1 {
			if err := p.Send(b.Context(), records); err != nil {
				b.Fatal(err)
			}
			records = records[:0]
		}
	}
}

func benchConfig(names topics.Names) worker.Config {
	return worker.Config{
		Names: names, Model: "ready", Settings: "none", Classes: []string{"a"}, CommitInterval: benchInterval,
		Policy: worker.CountOrLinger{Count: benchWindow, Linger: 2 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
	}
}

// work lets a worker take n events. Returned are the time that all but the first
// quarter took, up to the last commit, and the allocations an event: at the
// beginning memory grows.
func work(b *testing.B, c *kafka.Client, cfg worker.Config, n int) (took time.Duration, allocs float64) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var began time.Time
	var before, after runtime.MemStats
	stepped := 0
	cfg.Hooks = worker.Join(cfg.Hooks, worker.Hooks{
		Stepped: func(s worker.Stepped) {
			if stepped < n/4 && stepped+s.Outcome.Counts.Arrivals >= n/4 {
				runtime.ReadMemStats(&before)
				began = time.Now()
			}
			stepped += s.Outcome.Counts.Arrivals
			if stepped == n {
				runtime.ReadMemStats(&after)
				cancel() // what was stepped is committed at once, the interval is not waited for
			}
		},
		Committed: func(worker.Committed) {
			if stepped == n && took == 0 {
				took = time.Since(began)
			}
		},
	})
	if err := worker.Run(ctx, c, &ready{}, cfg); err != nil {
		b.Fatal(err)
	}
	return took, float64(after.Mallocs-before.Mallocs) / float64(n-n/4)
}

// BenchmarkStream compares the worker with a bare pass-through of the same
// bytes, on the same broker, in turns. Processor time and allocations are the
// process's: the broker's too where it is kfake.
func BenchmarkStream(b *testing.B) {
	brokers(b, func(b *testing.B, addr string) {
		c := dialBench(b, addr)
		inputs := benchTopics(b, c, nil)
		fill(b, c, inputs.Nodes, benchEvents)
		e := &ready{}
		out := e.Step(&event.Window{Nodes: []event.Node{{Time: 1}}})
		value := wire.AppendPrediction(nil, &out.Predictions[0])
		var ours, theirs, ourCPU, theirCPU time.Duration
		var allocs float64
		for b.Loop() {
			runtime.GC()
			used := cpu()
			took, n := work(b, c, benchConfig(benchTopics(b, c, &inputs)), benchEvents)
			ours += took
			ourCPU += cpu() - used
			allocs += n

			runtime.GC()
			used = cpu()
			names := benchTopics(b, c, &inputs)
			t := &kafkago.Transport{}
			p := passThrough{
				transport: t, client: &kafkago.Client{Addr: kafkago.TCP(addr), Transport: t}, id: names.Ledger,
				in: names.Nodes, out: names.Predictions, ledger: names.Ledger, parts: benchPartitions, value: value, interval: benchInterval,
			}
			took, err := p.run(b.Context(), benchEvents)
			if err != nil {
				b.Fatal(err)
			}
			theirs += took
			theirCPU += cpu() - used
			t.CloseIdleConnections()
		}
		n := float64(b.N) * benchEvents
		b.ReportMetric(n*3/4/ours.Seconds(), "worker-events/s")
		b.ReportMetric(n*3/4/theirs.Seconds(), "bare-events/s")
		b.ReportMetric(theirs.Seconds()/ours.Seconds(), "worker/bare")
		b.ReportMetric(float64(ourCPU.Nanoseconds())/n, "worker-cpu-ns/event")
		b.ReportMetric(float64(theirCPU.Nanoseconds())/n, "bare-cpu-ns/event")
		b.ReportMetric(allocs/float64(b.N), "allocs/event")
		b.ReportMetric(0, "ns/op")
	})
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
