package bench

import (
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/worker"
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
func onBroker(t testing.TB) *setup {
	t.Helper()
	addr := kafkatest.Brokers(t, kfake.NumBrokers(1), kfake.DataDir(t.TempDir()))[0]
	client, err := kafka.Dial(t.Context(), kafka.Config{Brokers: []string{addr}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	cfg := Config{Workload: Workload{Degree: 28}, Partitions: 4, Linger: 2 * time.Millisecond, Interval: 100 * time.Millisecond}
	cfg.Engine = func(*model.Model) (worker.Engine, error) { return &instant{}, nil }
	s, err := cfg.setup(client, addr)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMeasure: measure reads back a prediction for each arrival, and returns rates of the
// worker and of the bare pass-through, and sizes that are plausible for the workload.
func TestMeasure(t *testing.T) {
	s := onBroker(t)
	got, err := s.measure(t.Context(), 4000)
	if err != nil {
		t.Fatal(err)
	}
	if !(got.worker > 0 && got.bare > 0 && got.first > 0 && got.bytesIn > 512 && got.bytesOut > 160) {
		t.Errorf("got %+v, want rates above 0, more than 512 bytes in and 160 out", got)
	}
}

// TestLatency: both readers see all predictions, and their ages are above 0 and in order.
func TestLatency(t *testing.T) {
	s := onBroker(t)
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
	s := onBroker(t)
	if rate, err := s.sustained(t.Context(), 4000); err != nil || !(rate > 0) {
		t.Errorf("got rate %v and error %v, want a rate above 0", rate, err)
	}
}

// BenchmarkStream compares the worker, with an engine that costs almost nothing, with the
// bare pass-through. The two run in turns.
func BenchmarkStream(b *testing.B) {
	s := onBroker(b)
	var worker, bare float64
	for b.Loop() {
		r, err := s.measure(b.Context(), 200_000)
		if err != nil {
			b.Fatal(err)
		}
		worker, bare = worker+1/r.worker, bare+1/r.bare
	}
	b.ReportMetric(float64(b.N)/worker, "worker-events/s")
	b.ReportMetric(float64(b.N)/bare, "bare-events/s")
	b.ReportMetric(bare/worker, "worker/bare")
	b.ReportMetric(0, "ns/op")
}
