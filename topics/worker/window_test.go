package worker

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// echo serves a prediction of 40 classes for every node, from memory of its own,
// which it uses again for every other window.
type echo struct{ out, last event.Outcome }

func (e *echo) Step(w *event.Window) *event.Outcome {
	e.out, e.last = e.last, e.out
	p := e.out.Predictions[:0]
	probs := make([]float32, 40)
	for i := range w.Nodes {
		p = append(p, event.Prediction{Node: w.Nodes[i].ID, Class: "class", Probabilities: probs})
	}
	e.out = event.Outcome{Window: w.Number, Predictions: p, Refused: w.Refused, Heads: []event.Head{{}}}
	return &e.out
}

// line is a worker with its stages up to the encoder, which drops what it has
// encoded.
type line struct {
	*worker
	decoder wire.Decoder
	block   *block[event.Node]
	size    int // of a window
}

// newLine prepares a fetch of n node events in four partitions.
func newLine(tb testing.TB, n, size int) *line {
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
	w := &worker{
		cfg: Config{Names: names, Model: "model", Settings: "none"}, engine: &echo{},
		nodes:    &input[event.Node]{source: source[event.Node]{topic: names.Nodes, decode: (*wire.Decoder).Node}, spare: make(chan *block[event.Node], 1)},
		labels:   &input[event.Label]{source: source[event.Label]{topic: names.Labels, decode: (*wire.Decoder).Label}},
		commands: &input[event.Command]{source: source[event.Command]{topic: names.Commands, decode: (*wire.Decoder).Command}},
	}
	w.publisher = newPublisher(&w.cfg, p, nil)
	w.encoder = newEncoder(&w.cfg, map[string]int{names.Predictions: 4}, w.publisher)
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
	l := &line{worker: w, block: &block[event.Node]{}, size: size}
	for part := range int32(4) {
		w.nodes.parts = append(w.nodes.parts, &lane[event.Node]{partition: part})
		for i := range n / 4 {
			node := event.Node{ID: event.ID{Num: int64(4*i) + int64(part)}, Dense: make([]float32, 128), Neighbours: make([]event.ID, 14)}
			l.block.answer.Records = append(l.block.answer.Records, kafka.Record{
				Topic: names.Nodes, Partition: part, Offset: int64(i), Value: wire.AppendNode(nil, &node),
			})
		}
	}
	return l
}

// run takes the fetch through decoding, stepping and encoding.
func (l *line) run(tb testing.TB) {
	l.block.decode(&l.decoder, l.nodes.decode)
	if err := l.nodes.add(fetched[event.Node]{block: l.block}, time.Time{}); err != nil {
		tb.Fatal(err)
	}
	for l.nodes.held > 0 {
		if err := l.advance(context.Background(), Cut{Nodes: min(l.size, l.nodes.held), Cause: "count"}); err != nil {
			tb.Fatal(err)
		}
	}
	select {
	case <-l.nodes.spare:
	default:
		tb.Fatal("the block was not released")
	}
	for _, p := range l.nodes.parts {
		p.taken = 0 // the same records come again
	}
}

func TestWindowsTakeNoMemory(t *testing.T) {
	const n = 4000
	l := newLine(t, n, 500)
	got := testing.AllocsPerRun(20, func() { l.run(t) })
	if per := got / n; per > 0.1 {
		t.Errorf("%v allocations an event", per)
	}
}

func BenchmarkWindow(b *testing.B) {
	const n = 4000
	for _, stage := range []struct {
		name string
		run  func(l *line)
	}{
		{"decode", func(l *line) { l.block.decode(&l.decoder, l.nodes.decode) }},
		{"decode, step and, beside these, encode", func(l *line) { l.run(b) }},
	} {
		b.Run(stage.name, func(b *testing.B) {
			l := newLine(b, n, 500)
			stage.run(l)
			b.ReportAllocs()
			for b.Loop() {
				stage.run(l)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
		})
	}
}
