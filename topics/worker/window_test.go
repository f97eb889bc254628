package worker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// preallocated is an engine that serves size predictions of 40 classes for every window. It
// reuses the memory of an outcome after one window more, as the real engine does, so that
// allocations in a test are those of the worker.
type preallocated struct {
	size      int
	out, last event.Outcome
}

func (e *preallocated) Err() error { return nil }

func (e *preallocated) Step(w *event.Window) *event.Outcome {
	e.out, e.last = e.last, e.out
	p := e.out.Predictions[:0]
	probs := make([]float32, 40)
	for i := range e.size {
		p = append(p, event.Prediction{Node: event.ID{Num: int64(i)}, Class: "class", Probabilities: probs})
	}
	e.out = event.Outcome{Window: w.Number, Predictions: p, Refused: w.Refused, Heads: []event.Head{{}}}
	return &e.out
}

// newDiscardingOwner returns an owner that steps, but discards the effects instead of publishing
// them. Its windows have no events and size predictions.
func newDiscardingOwner(tb testing.TB, size int) *owner {
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
	names, err := topics.Under("window-test")
	if err != nil {
		tb.Fatal(err)
	}
	p, err := c.NewProducer(tb.Context(), kafka.ProducerConfig{TransactionalID: names.Ledger})
	if err != nil {
		tb.Fatal(err)
	}
	cfg := &Config{Terms: replay.Terms{Names: names, Model: "model", Settings: `{"model":"none"}`}}
	cfg.setDefaults()
	r := replay.New(nil, cfg.Replay(), &preallocated{size: size})
	r.Inputs, r.Ledger = &intake.Inputs{}, &ledger.Ledger{}
	o := newOwner(&worker{cfg: cfg, replay: r, partitions: map[string]int{names.Predictions: 4}}, p)
	go func() {
		for range o.pipeline.In {
		}
	}()
	tb.Cleanup(func() { close(o.pipeline.In) })
	return o
}

func (o *owner) advanceBy(tb testing.TB, windows int) {
	tb.Helper()
	for range windows {
		if err := o.advance(tb.Context(), intake.Cut{Cause: "count"}, 0); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestOutputAllocations: handing predictions over reuses memory, so that
// the garbage collector does not limit the throughput of a worker.
func TestOutputAllocations(t *testing.T) {
	const n, size = 4000, 500
	o := newDiscardingOwner(t, size)
	got := testing.AllocsPerRun(20, func() { o.advanceBy(t, n/size) })
	if per := got / n; per > 0.1 {
		t.Errorf("%v allocations per prediction, want at most 0.1", per)
	}
}
