package worker

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
)

// echo serves size predictions of 40 classes for every window, from memory of its
// own, which it uses again for every other window.
type echo struct {
	size      int
	out, last event.Outcome
}

func (e *echo) Step(w *event.Window) *event.Outcome {
	e.out, e.last = e.last, e.out
	p := e.out.Predictions[:0]
	probs := make([]float32, 40)
	for i := range e.size {
		p = append(p, event.Prediction{Node: event.ID{Num: int64(i)}, Class: "class", Probabilities: probs})
	}
	e.out = event.Outcome{Window: w.Number, Predictions: p, Refused: w.Refused, Heads: []event.Head{{}}}
	return &e.out
}

// newLine returns a worker with its stages from stepping to encoding; what is
// encoded is dropped. Its windows are empty, and have size predictions.
func newLine(tb testing.TB, size int) *owner {
	tb.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		tb.Fatal(err)
	}
	defer cluster.Close()
	c, err := kafka.Dial(tb.Context(), kafka.Config{Brokers: cluster.ListenAddrs()})
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close()
	names, err := topics.Under("line")
	if err != nil {
		tb.Fatal(err)
	}
	p, err := c.NewProducer(tb.Context(), kafka.ProducerConfig{TransactionalID: names.Ledger})
	if err != nil {
		tb.Fatal(err)
	}
	w := newOwner(&worker{
		replayer:   &replayer{cfg: &Config{Names: names, Model: "model", Settings: `{"model":"none"}`}, engine: &echo{size: size}, inputs: &intake.Inputs{}},
		partitions: map[string]int{names.Predictions: 4},
	}, p)
	go func() {
		for e := range w.encoder.in {
			if err := w.encoder.encode(e); err != nil {
				tb.Error(err)
			}
			w.encoder.output.windows = 0
			w.encoder.output.batch.Reset()
		}
	}()
	tb.Cleanup(func() { close(w.encoder.in) })
	return w
}

func (o *owner) advanceBy(tb testing.TB, windows int) {
	for range windows {
		if err := o.advance(context.Background(), intake.Cut{Cause: "count"}); err != nil {
			tb.Fatal(err)
		}
	}
}

func TestOutputsTakeNoMemory(t *testing.T) {
	const n, size = 4000, 500
	w := newLine(t, size)
	got := testing.AllocsPerRun(20, func() { w.advanceBy(t, n/size) })
	if per := got / n; per > 0.1 {
		t.Errorf("%v allocations an event", per)
	}
}

// BenchmarkWindow steps and, beside that, encodes.
func BenchmarkWindow(b *testing.B) {
	const n, size = 4000, 500
	w := newLine(b, size)
	w.advanceBy(b, n/size)
	b.ReportAllocs()
	for b.Loop() {
		w.advanceBy(b, n/size)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
}
