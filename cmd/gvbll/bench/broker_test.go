package bench

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/worker"
)

// ready is an engine that answers at once, so that the stream's own ceiling
// shows.
type ready struct {
	out, last event.Outcome
	probs     [40]float32
}

func (e *ready) Step(w *event.Window) *event.Outcome {
	e.out, e.last = e.last, e.out
	e.out.Window, e.out.Refused, e.out.Predictions = w.Number, w.Refused, e.out.Predictions[:0]
	e.out.Heads = []event.Head{{Name: "ready"}}
	e.out.Counts.Arrivals = len(w.Nodes)
	for i := range w.Nodes {
		e.out.Predictions = append(e.out.Predictions, event.Prediction{
			Node: w.Nodes[i].ID, Class: "class", ClassIndex: 7, Confidence: 0.5, Probabilities: e.probs[:],
			Total: 1, Aleatoric: 0.5, Epistemic: 0.5, Window: w.Number, Time: w.Nodes[i].Time, Model: "bench",
		})
	}
	return &e.out
}

// setups are on kfake, and on the Kafka of GVBLL_KAFKA where there is one: 128
// dense features and 14 neighbours in, 40 classes out, windows of 500, transactions
// of 100 ms.
func setups(t testing.TB, each func(name string, s *setup)) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	brokers := map[string]string{"kfake": c.ListenAddrs()[0]}
	if addr := os.Getenv("GVBLL_KAFKA"); addr != "" {
		brokers["kafka"] = addr
	}
	for name, addr := range brokers {
		client, err := kafka.Dial(t.Context(), kafka.Config{Brokers: []string{addr}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		cfg := Config{Workload: Workload{Degree: 28}, Partitions: 4, Interval: 100 * time.Millisecond}
		cfg.Engine = func(*model.Model) (worker.Engine, error) { return &ready{}, nil }
		s, err := cfg.setup(client, addr)
		if err != nil {
			t.Fatal(err)
		}
		each(name, s)
	}
}

// TestMeasure: every arrival's prediction is read back, and both ways have a rate.
func TestMeasure(t *testing.T) {
	setups(t, func(name string, s *setup) {
		got, err := s.measure(t.Context(), 4000)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !(got.worker > 0 && got.bare > 0 && got.first > 0 && got.bytesIn > 512 && got.bytesOut > 160) {
			t.Errorf("%s: %+v", name, got)
		}
	})
}

// TestLatency: predictions come to both kinds of readers.
func TestLatency(t *testing.T) {
	setups(t, func(name string, s *setup) {
		uncommitted, committed, err := s.ages(t.Context(), 1000, time.Second)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !(uncommitted.p50 > 0 && uncommitted.p50 <= uncommitted.p99 && committed.p50 > 0) {
			t.Errorf("%s: %+v and %+v", name, uncommitted, committed)
		}
	})
}

// TestSustained: a stream whose sender keeps ahead of the predictions has a rate.
func TestSustained(t *testing.T) {
	setups(t, func(name string, s *setup) {
		if rate, err := s.sustained(t.Context(), 4000); err != nil || !(rate > 0) {
			t.Errorf("%s: %v, %v", name, rate, err)
		}
	})
}

// BenchmarkStream is the worker with an engine that costs nothing, beside the
// bare pass-through, in turns.
func BenchmarkStream(b *testing.B) {
	setups(b, func(name string, s *setup) {
		b.Run(name, func(b *testing.B) {
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
		})
	})
}
