package bench

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/replay"
)

// instant is an engine that costs almost nothing, so that only the stream's own cost is
// measured. It reuses an outcome two steps later.
type instant struct {
	out, last event.Outcome
	probs     [40]float32
}

func (e *instant) Err() error { return nil }

func (e *instant) Step(w *event.Window) *event.Outcome {
	e.out, e.last = e.last, e.out
	e.out.Window, e.out.Refused, e.out.Predictions = w.Number, w.Refused, e.out.Predictions[:0]
	e.out.Heads = []event.Head{{Name: "instant"}}
	e.out.Counts.Arrivals = len(w.Nodes)
	for i := range w.Nodes {
		e.out.Predictions = append(e.out.Predictions, event.Prediction{
			Node: w.Nodes[i].ID, Class: "class", ClassIndex: 7, Confidence: 0.5, Probabilities: e.probs[:],
			Total: 1, Aleatoric: 0.5, Epistemic: 0.5, Window: w.Number, Time: w.Nodes[i].Time, Model: "bench",
		})
	}
	return &e.out
}

// onBroker returns a setup on kfake, or on Apache Kafka. Arrivals have 128 dense features and
// 14 neighbours, there are 40 classes, windows have 500 arrivals, and a transaction takes
// 100 ms.
func onBroker(t testing.TB, pooled bool) *setup {
	t.Helper()
	addr := kafkatest.Brokers(t, kfake.NumBrokers(1), kfake.DataDir(t.TempDir()))[0]
	client, err := kafka.Dial(t.Context(), kafka.Config{Brokers: []string{addr}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	cfg := Config{Workload: Workload{Degree: 28, Pool: pooled}, Partitions: 4, Linger: 2 * time.Millisecond, Interval: 100 * time.Millisecond}
	s, err := cfg.setup(client, addr)
	if err != nil {
		t.Fatal(err)
	}
	s.engine = func() (replay.Engine, error) { return &instant{}, nil }
	return s
}

// TestMeasure: measure reads back a prediction for each arrival, and returns rates of the
// worker, and sizes that are plausible for the workload.
func TestMeasure(t *testing.T) {
	s := onBroker(t, false)
	got, err := s.measure(t.Context(), 4000)
	if err != nil {
		t.Fatal(err)
	}
	if !(got.worker > 0 && got.cpu > 0 && got.first > 0 && got.bytesIn > 512 && got.bytesOut > 160) {
		t.Errorf("got %+v, want rates above 0, more than 512 bytes in and 160 out", got)
	}
}

// TestPooled: with the pool, a worker learns from a label of each arrival, but for the last ones: those of the
// first 2,000 nodes are sent before the others.
func TestPooled(t *testing.T) {
	s := onBroker(t, true)
	s.cfg.Workers = 1
	learned := 0
	s.engine = func() (replay.Engine, error) {
		e, err := s.newEngine()
		return &counting{Engine: e, learned: &learned}, err
	}
	if got, err := s.measure(t.Context(), 4000); err != nil || !(got.worker > 0) {
		t.Fatalf("got %+v and error %v, want a rate above 0", got, err)
	}
	if learned == 0 {
		t.Error("no label was learned")
	}
	learned = 0
	if _, _, err := s.ages(t.Context(), 1000, time.Second); err != nil || learned == 0 {
		t.Errorf("%d labels were learned of a live stream, with error %v", learned, err)
	}
}

// counting counts the labels that an engine joins.
type counting struct {
	replay.Engine
	learned *int
}

func (c *counting) Step(w *event.Window) *event.Outcome {
	out := c.Engine.Step(w)
	*c.learned += len(out.Labelled)
	return out
}

// TestLatency: both readers see all predictions, and their ages are above 0 and in order.
func TestLatency(t *testing.T) {
	s := onBroker(t, false)
	uncommitted, committed, err := s.ages(t.Context(), 1000, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if !(uncommitted.p50 > 0 && uncommitted.p50 <= uncommitted.p99 && committed.p50 > 0) {
		t.Errorf("got ages %+v uncommitted and %+v committed, want 0 < p50 <= p99", uncommitted, committed)
	}
}

// TestSustained: a sender that stays a fixed number of nodes ahead of the predictions
// reaches the end, and the rate is above 0.
func TestSustained(t *testing.T) {
	s := onBroker(t, false)
	if rate, err := s.sustained(t.Context(), 4000); err != nil || !(rate > 0) {
		t.Errorf("got rate %v and error %v, want a rate above 0", rate, err)
	}
}

// BenchmarkStream compares the worker, with an engine that costs almost nothing, with the paper's
// head, and with the pool and a label for each arrival, with the bare pass-through. They run in turns.
func BenchmarkStream(b *testing.B) {
	for _, name := range []string{"instant", "engine", "pool"} {
		b.Run(name, func(b *testing.B) {
			const n = 200_000
			s := onBroker(b, name == "pool")
			if name != "instant" {
				s.cfg.Workers, s.cfg.Events, s.engine = 1, n, s.newEngine
			}
			inputs, err := s.filled(b.Context(), n)
			if err != nil {
				b.Fatal(err)
			}
			defer s.remove(b.Context(), inputs)
			var worker, bare float64 // seconds of wall-clock time
			for b.Loop() {
				w, p, err := s.compare(b.Context(), inputs, n)
				if err != nil {
					b.Fatal(err)
				}
				worker, bare = worker+w.wall.Seconds(), bare+p.wall.Seconds()
			}
			events := float64(b.N) * (n - n/4)
			b.ReportMetric(events/worker, "worker-events/s")
			b.ReportMetric(events/bare, "bare-events/s")
			b.ReportMetric(bare/worker, "worker/bare")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestPassThrough: the bare pass-through moves all of a stream, as the worker does.
func TestPassThrough(t *testing.T) {
	const n = 4000
	s := onBroker(t, false)
	inputs, err := s.filled(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	defer s.remove(t.Context(), inputs)
	if worker, bare, err := s.compare(t.Context(), inputs, n); err != nil || worker.wall <= 0 || bare.wall <= 0 {
		t.Errorf("got %v for the worker, %v for the pass-through and error %v, want times above 0", worker.wall, bare.wall, err)
	}
}

// filled creates topics with n nodes.
func (s *setup) filled(ctx context.Context, n int) (topics.Names, error) {
	inputs, err := s.topics(ctx)
	if err == nil {
		_, err = s.fill(ctx, inputs, n)
	}
	return inputs, err
}

// compare runs a worker and then the pass-through over the n events of the inputs.
func (s *setup) compare(ctx context.Context, inputs topics.Names, n int) (worker, bare spent, err error) {
	names, worker, err := s.runWorker(ctx, inputs, n)
	if err != nil {
		return worker, bare, err
	}
	value, _, err := s.readBack(ctx, names, n)
	if err == nil {
		bare, err = s.runBare(ctx, inputs, n, value)
	}
	return worker, bare, err
}
