package bench

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

var (
	partitions = flag.Int("partitions", 4, "partitions of the topics of a stream")
	workers    = flag.Int("workers", runtime.GOMAXPROCS(0), "threads that share the arithmetic of a window, as in 'gvbll work'")
	linger     = flag.Duration("linger", 2*time.Millisecond, "cut a window when its first event has waited this long; 'gvbll work' waits for 100ms when left out")
	interval   = flag.Duration("commit-interval", 100*time.Millisecond, "time between transactions")
)

// setup is a workload on a broker. The graph begins empty.
type setup struct {
	w      Workload
	model  *model.Model
	client *kafka.Client
	addr   string // of the broker, for connections beside the client
	engine func() (replay.Engine, error)

	stream *Stream       // the source of node
	window *event.Window // the current one of stream
}

// onBroker returns a setup on kfake, or on Apache Kafka. With the pool, every arrival has a label.
func onBroker(t testing.TB, pooled bool) *setup {
	t.Helper()
	addr := kafkatest.Brokers(t, kfake.NumBrokers(1), kfake.DataDir(t.TempDir()))[0]
	client, err := kafka.Dial(t.Context(), kafka.Config{Brokers: []string{addr}, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(client.Close)
	s := &setup{w: given.WithDefaults(), client: client, addr: addr}
	s.w.Pool = pooled
	s.model, err = s.w.Model()
	must(t, err)
	s.engine = func() (replay.Engine, error) {
		e, err := pipeline.New(s.model, pipeline.Config{Local: pipeline.Local{Workers: *workers, Reserve: 2 * *events, Run: flags.Beside}})
		return &recycling{Engine: e}, err
	}
	return s
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
		s.stream = s.w.Stream()
	}
	if i%s.w.Window == 0 {
		s.window = s.stream.Next(false)
	}
	return &s.window.Nodes[i%s.w.Window]
}

// spent is what some events took of this process.
type spent struct{ wall, cpu time.Duration }

// meter measures what is spent from its start.
type meter struct {
	at  time.Time
	cpu int64
}

func startMeter() meter { return meter{time.Now(), processTime()} }

func (m meter) spent() spent {
	return spent{time.Since(m.at), time.Duration(processTime() - m.cpu)}
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
	_, err = topics.Create(ctx, s.client, names, topics.Layout{Partitions: *partitions, Replication: 1})
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
		if s.w.Pool {
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
	return kafka.Record{Topic: topic, Partition: kafka.PartitionFor(key, *partitions), Key: key, Value: wire.AppendNode(nil, n)}
}

// label returns the record of the i-th node's label.
func (s *setup) label(topic string, i int) kafka.Record {
	l := event.Label{Node: event.ID{Num: int64(i)}, Index: int32(i * 7 % s.w.Classes)}
	key := wire.AppendKey(nil, l.Node)
	return kafka.Record{Topic: topic, Partition: kafka.PartitionFor(key, *partitions), Key: key, Value: wire.AppendLabel(nil, &l)}
}

// config returns the worker's configuration.
func (s *setup) config(names topics.Names) worker.Config {
	return worker.Config{
		Terms:      replay.Terms{Names: names, Model: "bench", Settings: `{"engine":"bench"}`, Classes: s.model.Classes},
		Publishing: publish.Config{CommitInterval: *interval},
		Policy:     intake.CountOrLinger{Count: s.w.Window, Linger: *linger},
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
			arrived := w.Outcome.Figures.Int(event.Arrivals)
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
