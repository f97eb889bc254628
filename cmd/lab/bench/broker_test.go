package bench

import (
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
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
	e.out.Figures.Set(event.Arrivals, float64(len(w.Nodes)))
	for i := range w.Nodes {
		e.out.Predictions = append(e.out.Predictions, event.Prediction{
			Node: w.Nodes[i].ID, Class: "class", ClassIndex: 7, Confidence: 0.5, Probabilities: e.probs[:],
			Total: 1, Aleatoric: 0.5, Epistemic: 0.5, Window: w.Number, Time: w.Nodes[i].Time, Model: "bench",
		})
	}
	return &e.out
}

// TestPooled: with the pool, a worker learns from a label of each arrival, but for the last ones: those of the
// first 2,000 nodes are sent before the others.
func TestPooled(t *testing.T) {
	s := onBroker(t, true)
	learned, plain := 0, s.engine
	s.engine = func() (replay.Engine, error) {
		e, err := plain()
		return &counting{Engine: e, learned: &learned}, err
	}
	inputs, _ := s.filled(t, 4000)
	if _, _, err := s.runWorker(t.Context(), inputs, 4000); err != nil || learned == 0 {
		t.Fatalf("%d labels were learned, with error %v", learned, err)
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
	s := instantly(onBroker(t, false))
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
	s := instantly(onBroker(t, false))
	if rate, err := s.sustained(t.Context(), 4000); err != nil || !(rate > 0) {
		t.Errorf("got rate %v and error %v, want a rate above 0", rate, err)
	}
}

// BenchmarkStream compares the worker, with an engine that costs almost nothing, with the paper's
// head, and with the pool and a label for each arrival, with the bare pass-through. They run in turns.
// The first turn, in which the process gets its memory, is not counted.
func BenchmarkStream(b *testing.B) {
	for _, name := range []string{"instant", "engine", "pool"} {
		b.Run(name, func(b *testing.B) {
			n := *events
			s := onBroker(b, name == "pool")
			if name == "instant" {
				instantly(s)
			}
			inputs, bytesIn := s.filled(b, n)
			defer s.remove(b.Context(), inputs)
			s.compare(b, inputs, n)
			var worker, bare, cpu float64 // seconds
			for b.Loop() {
				w, p, bytesOut := s.compare(b, inputs, n)
				worker, bare, cpu = worker+w.wall.Seconds(), bare+p.wall.Seconds(), cpu+w.cpu.Seconds()
				b.ReportMetric(float64(bytesOut)/float64(n), "B/prediction")
			}
			counted := float64(b.N) * float64(n-n/4)
			b.ReportMetric(float64(bytesIn)/float64(n), "B/event")
			b.ReportMetric(counted/worker, "worker-events/s")
			b.ReportMetric(counted/bare, "bare-events/s")
			b.ReportMetric(bare/worker, "worker/bare")
			b.ReportMetric(1e6*cpu/counted, "µs/event") // CPU time of this process, with an embedded broker's
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestPassThrough: the bare pass-through moves all of a stream, as the worker does, whose events
// and predictions are as large as they should be.
func TestPassThrough(t *testing.T) {
	const n = 4000
	s := instantly(onBroker(t, false))
	inputs, bytesIn := s.filled(t, n)
	defer s.remove(t.Context(), inputs)
	worker, bare, bytesOut := s.compare(t, inputs, n)
	if worker.wall <= 0 || worker.cpu <= 0 || bare.wall <= 0 || bytesIn < 512*n || bytesOut < 160*n {
		t.Errorf("got %+v for the worker, %v for the pass-through, and %d bytes in and %d out, want times above 0, 512 bytes in and 160 out each", worker, bare.wall, bytesIn, bytesOut)
	}
}

// instantly has the worker of a setup drive an engine that costs almost nothing.
func instantly(s *setup) *setup {
	s.engine = func() (replay.Engine, error) { return &instant{}, nil }
	return s
}

// filled creates topics with n nodes, of so many bytes.
func (s *setup) filled(t testing.TB, n int) (inputs topics.Names, bytes int) {
	t.Helper()
	inputs, err := s.topics(t.Context())
	must(t, err)
	bytes, err = s.fill(t.Context(), inputs, n)
	must(t, err)
	return inputs, bytes
}

// compare runs a worker, which publishes so many bytes, and then the pass-through over the n events
// of the inputs.
func (s *setup) compare(t testing.TB, inputs topics.Names, n int) (worker, bare spent, bytes int) {
	t.Helper()
	names, worker, err := s.runWorker(t.Context(), inputs, n)
	must(t, err)
	value, bytes, err := s.readBack(t.Context(), names, n)
	must(t, err)
	bare, err = s.runBare(t.Context(), inputs, n, value)
	must(t, err)
	return worker, bare, bytes
}
