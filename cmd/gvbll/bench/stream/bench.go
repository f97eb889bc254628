// Package stream measures the worker on a broker: how many arrivals it takes a
// second, beside a bare pass-through of the same bytes, and how long it is from a
// node to its prediction. The engine is the caller's.
package stream

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// Setup is what is measured, and where.
type Setup struct {
	Client *kafka.Client
	Broker string // an address, for the pass-through's own connections
	// Node is the i-th arrival; the value holds until the next call. An arrival
	// of its own is what an engine is asked about.
	Node func(i int) *event.Node
	// Engine returns a fresh engine, and what it was made of.
	Engine  func() (worker.Engine, error)
	Classes []string

	Partitions  int
	Window      int           // events a window
	Interval    time.Duration // between commits
	Compression string
}

// Throughput is how many events a second went through, on average after the first
// quarter, in which memory grows.
type Throughput struct {
	Worker, Bare float64 // events a second
	// First is the worker's in a process whose memory is new to it: on a virtual
	// machine, the first touch of a page can cost more than the arrivals that
	// stand on it.
	First    float64
	Read     int     // predictions read back, each once
	BytesIn  float64 // an event
	BytesOut float64 // a prediction
}

// rounds is how often either way is measured, behind a first time. Of these the
// best counts, for what others do on the machine only slows.
const rounds = 2

// Measure fills a topic with n nodes and lets the worker and a bare pass-through
// take them, in turns.
func (s *Setup) Measure(ctx context.Context, n int) (t Throughput, err error) {
	inputs, err := s.topics(ctx)
	if err != nil {
		return t, err
	}
	defer s.remove(ctx, inputs)
	bytesIn, err := s.fill(ctx, inputs.Nodes, n)
	if err != nil {
		return t, err
	}
	t.BytesIn = float64(bytesIn) / float64(n)
	for round := range 1 + rounds {
		names, worker, err := s.works(ctx, inputs, n)
		if err != nil {
			return t, err
		}
		value, err := s.readBack(ctx, names, n, &t)
		if err != nil {
			return t, err
		}
		bare, err := s.passes(ctx, inputs, n, value)
		if err != nil {
			return t, err
		}
		if round == 0 {
			t.First = worker
			continue
		}
		t.Worker, t.Bare = max(t.Worker, worker), max(t.Bare, bare)
	}
	return t, nil
}

// works lets a worker take the n events of the inputs into new topics, and
// returns how many a second it took.
func (s *Setup) works(ctx context.Context, inputs topics.Names, n int) (names topics.Names, rate float64, err error) {
	if names, err = s.topics(ctx); err != nil {
		return names, 0, err
	}
	into := names
	into.Nodes, into.Labels, into.Commands = inputs.Nodes, inputs.Labels, inputs.Commands
	runtime.GC()
	took, err := s.work(ctx, into, n)
	return names, float64(n-n/4) / took.Seconds(), err
}

// readBack reads the predictions, of which there must be one of each of the n
// arrivals, and deletes the topics. It returns the value of one.
func (s *Setup) readBack(ctx context.Context, names topics.Names, n int, t *Throughput) (value []byte, err error) {
	defer s.remove(ctx, names)
	// Kafka answers the end of a transaction before its markers are written, and
	// a new session only after.
	settled, err := s.Client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: names.Ledger})
	if err != nil {
		return nil, err
	}
	settled.Close()
	seen, bytes := make(map[string]bool, n), 0
	err = s.Client.ReadAll(ctx, names.Predictions, func(r *kafka.Record) {
		seen[string(r.Key)] = true
		bytes += len(r.Value)
		value = append(value[:0], r.Value...)
	})
	if err != nil {
		return nil, err
	}
	if len(seen) != n {
		return nil, fmt.Errorf("%d predictions of %d arrivals", len(seen), n)
	}
	t.Read, t.BytesOut = n, float64(bytes)/float64(n)
	return value, nil
}

// passes is works of the bare pass-through, whose predictions all have the value.
func (s *Setup) passes(ctx context.Context, inputs topics.Names, n int, value []byte) (rate float64, err error) {
	names, err := s.topics(ctx)
	if err != nil {
		return 0, err
	}
	defer s.remove(ctx, names)
	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()
	p := passThrough{
		transport: transport, client: &kafkago.Client{Addr: kafkago.TCP(s.Broker), Transport: transport}, id: names.Ledger,
		in: inputs.Nodes, out: names.Predictions, ledger: names.Ledger, parts: s.Partitions, value: value, window: s.Window, interval: s.Interval,
	}
	runtime.GC()
	took, err := p.run(ctx, n)
	return float64(n-n/4) / took.Seconds(), err
}

// graphs tells the topics of one measurement apart from those of the next.
var graphs atomic.Int64

func (s *Setup) topics(ctx context.Context) (topics.Names, error) {
	names, err := topics.Under(fmt.Sprintf("gvbll-bench-%d-%d", time.Now().UnixNano(), graphs.Add(1)))
	if err != nil {
		return names, err
	}
	_, err = topics.Create(ctx, s.Client, names, s.Partitions, 1)
	return names, err
}

// fill sends n nodes and returns how many bytes their values have.
func (s *Setup) fill(ctx context.Context, topic string, n int) (bytes int, err error) {
	p, err := s.Client.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	var records []kafka.Record
	for i := range n {
		records = append(records, s.record(topic, i))
		bytes += len(records[len(records)-1].Value)
		if len(records) == 2000 || i == n-1 {
			if err := p.Send(ctx, records); err != nil {
				return 0, err
			}
			records = records[:0]
		}
	}
	return bytes, nil
}

func (s *Setup) record(topic string, i int) kafka.Record {
	n := s.Node(i)
	key := wire.AppendKey(nil, n.ID)
	return kafka.Record{Topic: topic, Partition: kafka.PartitionFor(key, s.Partitions), Key: key, Value: wire.AppendNode(nil, n)}
}

func (s *Setup) config(names topics.Names) worker.Config {
	return worker.Config{
		Names: names, Model: "bench", Settings: "bench", Classes: s.Classes, CommitInterval: s.Interval, Compression: s.Compression,
		Policy: intake.CountOrLinger{Count: s.Window, Linger: 2 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
	}
}

// work lets a worker take n events, and returns how long all but the first
// quarter took, up to the last commit.
func (s *Setup) work(ctx context.Context, names topics.Names, n int) (took time.Duration, err error) {
	engine, err := s.Engine()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var began time.Time
	stepped := 0
	cfg := s.config(names)
	cfg.Hooks = worker.Hooks{
		Stepped: func(w worker.Stepped) {
			arrived := w.Outcome.Counts.Arrivals
			if stepped < n/4 && stepped+arrived >= n/4 {
				began = time.Now()
			}
			if stepped += arrived; stepped == n {
				cancel() // what was stepped is committed at once, the interval is not waited for
			}
		},
		Committed: func(worker.Committed) {
			if stepped == n && took == 0 {
				took = time.Since(began)
			}
		},
	}
	if err := worker.Run(ctx, s.Client, engine, cfg); err != nil {
		return 0, err
	}
	if took == 0 {
		return 0, fmt.Errorf("the worker ended after %d of %d events", stepped, n)
	}
	return took, nil
}

// remove deletes what a measurement made. What cannot be deleted stays behind, and is no
// reason to lose the figures.
func (s *Setup) remove(ctx context.Context, names topics.Names) {
	c := &kafkago.Client{Addr: kafkago.TCP(s.Broker), Timeout: 10 * time.Second}
	_, _ = c.DeleteTopics(context.WithoutCancel(ctx), &kafkago.DeleteTopicsRequest{
		Topics: names.All(),
	})
}
