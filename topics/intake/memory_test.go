package intake

import (
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// line is the inputs of a graph, and one fetch that comes again and again.
type line struct {
	Inputs
	decoder wire.Decoder
	block   *block[event.Node]
	ranges  []ledger.Range
	window  event.Window
}

// newLine prepares a fetch of n node events in four partitions.
func newLine(n int) *line {
	l := &line{block: &block[event.Node]{}}
	l.Nodes.source = source[event.Node]{topic: "nodes", decode: (*wire.Decoder).Node}
	l.Nodes.spare = make(chan *block[event.Node], 1)
	for part := range int32(4) {
		l.Nodes.buffers = append(l.Nodes.buffers, &buffer[event.Node]{partition: part})
		for i := range n / 4 {
			node := event.Node{ID: event.ID{Num: int64(4*i) + int64(part)}, Dense: make([]float32, 128), Neighbours: make([]event.ID, 14)}
			l.block.answer.Records = append(l.block.answer.Records, kafka.Record{
				Topic: "nodes", Partition: part, Offset: int64(i), Value: wire.AppendNode(nil, &node),
			})
		}
	}
	return l
}

func (l *line) decode() { l.block.decode(&l.decoder, l.Nodes.decode) }

// run decodes the fetch and makes windows of it, of the given size.
func (l *line) run(tb testing.TB, size int) {
	l.decode()
	if err := l.Nodes.Add(Fetched[event.Node]{block: l.block}, time.Time{}); err != nil {
		tb.Fatal(err)
	}
	for l.Nodes.held > 0 {
		l.ranges = l.Claim(Cut{Nodes: min(size, l.Nodes.held), Cause: "count"}, l.ranges[:0])
		l.Gather(&l.window)
		if len(l.window.Nodes) != size {
			tb.Fatalf("a window of %d nodes", len(l.window.Nodes))
		}
		l.Release()
	}
	select {
	case <-l.Nodes.spare:
	default:
		tb.Fatal("the block was not released")
	}
	for _, b := range l.Nodes.buffers {
		b.consumed = 0 // the same records come again
	}
}

func TestWindowsTakeNoMemory(t *testing.T) {
	const n = 4000
	l := newLine(n)
	got := testing.AllocsPerRun(20, func() { l.run(t, 500) })
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
		{"decode", (*line).decode},
		{"decode and cut", func(l *line) { l.run(b, 500) }},
	} {
		b.Run(stage.name, func(b *testing.B) {
			l := newLine(n)
			stage.run(l)
			b.ReportAllocs()
			for b.Loop() {
				stage.run(l)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
		})
	}
}
