package bench

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// setup is a workload on a broker. The graph begins empty.
type setup struct {
	cfg    Config
	model  *model.Model
	client *kafka.Client
	addr   string // of the broker, for connections beside the client
	engine func() (replay.Engine, error)

	stream *Stream       // the source of node
	window *event.Window // the current one of stream
}

// setup returns a setup of the config's workload on the client's broker.
func (c Config) setup(client *kafka.Client, addr string) (*setup, error) {
	c.Workload = c.WithDefaults()
	m, err := c.Model()
	s := &setup{cfg: c, model: m, client: client, addr: addr}
	s.engine = s.newEngine
	return s, err
}

// newEngine returns a new engine for a worker, with memory for the graph.
func (s *setup) newEngine() (replay.Engine, error) {
	e, err := pipeline.New(s.model, pipeline.Config{Workers: s.cfg.Workers, Reserve: 2 * s.cfg.Events})
	return &recycling{Engine: e}, err
}

// recycling is an engine that takes each outcome back two steps later, when the worker has
// published it.
type recycling struct {
	*pipeline.Engine
	before, last *event.Outcome
}

// Step implements replay.Engine.
func (e *recycling) Step(w *event.Window) *event.Outcome {
	if e.before != nil {
		e.Recycle(e.before)
	}
	e.before, e.last = e.last, e.Engine.Step(w)
	return e.last
}

// node returns the i-th arrival, whose id is i. It must be called with 0, 1, 2 and so on;
// 0 starts again. The node is valid until the next call.
func (s *setup) node(i int) *event.Node {
	if i == 0 {
		s.stream = s.cfg.Stream()
	}
	if i%s.cfg.Window == 0 {
		s.window = s.stream.Next(false)
	}
	return &s.window.Nodes[i%s.cfg.Window]
}

// onBrokers measures on the embedded broker, and on the config's Kafka if it has one.
func (c Config) onBrokers(ctx context.Context, measure func(ctx context.Context, broker string, s *setup) ([]Row, error)) ([]Row, error) {
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
	var rows []Row
	for _, b := range []struct{ name, addr string }{{"kfake", embedded.Addr()}, {"kafka", c.Broker}} {
		if b.addr == "" {
			continue
		}
		client, err := kafka.Dial(ctx, kafka.Config{Brokers: []string{b.addr}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, err
		}
		defer client.Close()
		s, err := c.setup(client, b.addr)
		if err != nil {
			return nil, err
		}
		more, err := measure(ctx, b.name, s)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// throughput measures the arrivals per second that a worker processes.
func throughput(ctx context.Context, c Config) ([]Row, error) {
	measure := func(of string) func(context.Context, string, *setup) ([]Row, error) {
		return func(ctx context.Context, broker string, s *setup) ([]Row, error) {
			r, err := s.measure(ctx, s.cfg.Events)
			return []Row{
				figure("throughput-"+of+broker, r.worker, "arrivals/s"),
				figure("throughput-first-"+of+broker, r.first, "arrivals/s"),
				figure("throughput-cpu-"+of+broker, r.cpu, "µs/arrival"),
				figure("bytes-in-"+of+broker, r.bytesIn, "an arrival"),
				figure("bytes-out-"+of+broker, r.bytesOut, "a prediction"),
			}, err
		}
	}
	rows, err := c.onBrokers(ctx, measure(""))
	if err != nil {
		return nil, err
	}
	c.Pool = true // with a label for each arrival
	pooled, err := c.onBrokers(ctx, measure("pool-"))
	return append(rows, pooled...), err
}

// rates are events per second. The first quarter of the events, in which memory grows,
// is not measured.
type rates struct {
	worker float64
	// first is the worker's rate in the first round, while the process gets its memory
	// from the system: on a virtual machine, the first access to a page can cost more
	// than the arrivals whose state it holds.
	first             float64
	cpu               float64 // CPU time of this process, in microseconds an event; the embedded broker's is in it
	bytesIn, bytesOut float64 // mean sizes of an event and of a prediction
}

// spent is what some events took of this process.
type spent struct{ wall, cpu time.Duration }

// rate returns n events by their time, in events per second.
func (s spent) rate(n int) float64 { return float64(n) / s.wall.Seconds() }

// each returns the CPU time of each of n events, in microseconds.
func (s spent) each(n int) float64 { return float64(s.cpu.Nanoseconds()) / 1000 / float64(n) }

// meter measures what is spent from its start.
type meter struct {
	at  time.Time
	cpu int64
}

func startMeter() meter { return meter{time.Now(), processTime()} }

func (m meter) spent() spent {
	return spent{time.Since(m.at), time.Duration(processTime() - m.cpu)}
}

// rounds is how often the worker is measured after the first round. The best round counts,
// because other load on the machine can only slow it down.
const rounds = 2

// measure fills a topic with n nodes, which a worker then processes several times.
func (s *setup) measure(ctx context.Context, n int) (r rates, err error) {
	inputs, err := s.topics(ctx)
	if err != nil {
		return r, err
	}
	defer s.remove(ctx, inputs)
	bytesIn, err := s.fill(ctx, inputs, n)
	if err != nil {
		return r, err
	}
	r.bytesIn, r.cpu = float64(bytesIn)/float64(n), math.Inf(1)
	counted := n - n/4
	for round := range 1 + rounds {
		names, took, err := s.runWorker(ctx, inputs, n)
		if err != nil {
			return r, err
		}
		_, bytesOut, err := s.readBack(ctx, names, n)
		if err != nil {
			return r, err
		}
		r.bytesOut = float64(bytesOut) / float64(n)
		if round == 0 {
			r.first = took.rate(counted)
			continue
		}
		r.worker, r.cpu = max(r.worker, took.rate(counted)), min(r.cpu, took.each(counted))
	}
	return r, nil
}

// runWorker runs a worker over the n events of the inputs. It writes to new topics, whose
// names are returned.
func (s *setup) runWorker(ctx context.Context, inputs topics.Names, n int) (names topics.Names, took spent, err error) {
	if names, err = s.topics(ctx); err != nil {
		return names, took, err
	}
	into := names
	into.Nodes, into.Labels, into.Commands = inputs.Nodes, inputs.Labels, inputs.Commands
	runtime.GC()
	took, err = s.work(ctx, into, n)
	return names, took, err
}

// readBack reads the predictions, checks that each of the n arrivals has one, and deletes
// the topics. It returns the value of one prediction, and the size of all values.
func (s *setup) readBack(ctx context.Context, names topics.Names, n int) (value []byte, bytes int, err error) {
	defer s.remove(ctx, names)
	// Kafka confirms the end of a transaction before its markers are written. It opens a
	// new producer session only after they are.
	if _, err := s.client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: names.Ledger}); err != nil {
		return nil, 0, err
	}
	seen := make(map[string]bool, n)
	err = s.client.ReadAll(ctx, names.Predictions, func(r *kafka.Record) {
		seen[string(r.Key)] = true
		bytes += len(r.Value)
		value = append(value[:0], r.Value...)
	})
	if err == nil && len(seen) != n {
		err = fmt.Errorf("%d nodes have a prediction, want %d", len(seen), n)
	}
	return value, bytes, err
}

// topics creates topics for one measurement.
func (s *setup) topics(ctx context.Context) (topics.Names, error) {
	names, err := topics.Under(fmt.Sprintf("gvbll-bench-%d", time.Now().UnixNano()))
	if err != nil {
		return names, err
	}
	_, err = topics.Create(ctx, s.client, names, topics.Layout{Partitions: s.cfg.Partitions, Replication: 1})
	return names, err
}

// fill sends n nodes, and with Pool their labels behind them. It returns the size of the nodes' values.
func (s *setup) fill(ctx context.Context, names topics.Names, n int) (bytes int, err error) {
	p, err := s.client.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return 0, err
	}
	var records, labels []kafka.Record
	for i := range n {
		records = append(records, s.record(names.Nodes, i))
		bytes += len(records[len(records)-1].Value)
		if s.cfg.Pool {
			labels = append(labels, s.label(names.Labels, i))
		}
		if len(records) == 2000 || i == n-1 {
			for _, batch := range []*[]kafka.Record{&records, &labels} {
				if err := p.Send(ctx, *batch); err != nil {
					return 0, err
				}
				*batch = (*batch)[:0]
			}
		}
	}
	return bytes, nil
}

// record returns the i-th node's record; see node.
func (s *setup) record(topic string, i int) kafka.Record {
	n := s.node(i)
	key := wire.AppendKey(nil, n.ID)
	return kafka.Record{Topic: topic, Partition: kafka.PartitionFor(key, s.cfg.Partitions), Key: key, Value: wire.AppendNode(nil, n)}
}

// label returns the record of the i-th node's label.
func (s *setup) label(topic string, i int) kafka.Record {
	l := event.Label{Node: event.ID{Num: int64(i)}, Index: int32(i * 7 % s.cfg.Classes)}
	key := wire.AppendKey(nil, l.Node)
	return kafka.Record{Topic: topic, Partition: kafka.PartitionFor(key, s.cfg.Partitions), Key: key, Value: wire.AppendLabel(nil, &l)}
}

// config returns the worker's configuration.
func (s *setup) config(names topics.Names) worker.Config {
	return worker.Config{
		Terms:      replay.Terms{Names: names, Model: "bench", Settings: `{"engine":"bench"}`, Classes: s.model.Classes},
		Publishing: publish.Config{CommitInterval: s.cfg.Interval},
		Policy:     intake.CountOrLinger{Count: s.cfg.Window, Linger: s.cfg.Linger},
		Logger:     slog.New(slog.DiscardHandler),
	}
}

// work runs a worker until it has processed n events, and returns the time for all but the
// first quarter, up to the last commit.
func (s *setup) work(ctx context.Context, names topics.Names, n int) (took spent, err error) {
	engine, err := s.engine()
	if err != nil {
		return took, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var began meter
	stepped := 0
	cfg := s.config(names)
	cfg.Events = replay.Join(
		replay.On(func(w replay.Stepped) {
			arrived := w.Outcome.Counts.Arrivals
			if stepped < n/4 && stepped+arrived >= n/4 {
				began = startMeter()
			}
			if stepped += arrived; stepped == n {
				cancel() // the worker then commits all stepped windows
			}
		}),
		replay.On(func(replay.Committed) {
			if stepped == n && took.wall == 0 {
				took = began.spent()
			}
		}),
	)
	if err := worker.Run(ctx, s.client, engine, cfg); err != nil {
		return took, err
	}
	if took.wall == 0 {
		return took, fmt.Errorf("the worker ended after %d of %d events", stepped, n)
	}
	return took, nil
}

// remove deletes the topics of a measurement. An error is ignored: the figures are good,
// and topics that remain have unique names.
func (s *setup) remove(ctx context.Context, names topics.Names) {
	c := &kafkago.Client{Addr: kafkago.TCP(s.addr), Timeout: 10 * time.Second}
	_, _ = c.DeleteTopics(context.WithoutCancel(ctx), &kafkago.DeleteTopicsRequest{
		Topics: names.All(),
	})
}
