package intake

import (
	"context"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// repeater decodes the same fetch of node events again and again, and cuts windows of
// it.
type repeater struct {
	Inputs
	decoder wire.Decoder
	block   *block[event.Node]
	ranges  []ledger.Range
	window  event.Window
}

// newRepeater returns a repeater of n node events in four partitions.
func newRepeater(n int) *repeater {
	r := &repeater{block: &block[event.Node]{}}
	r.Nodes.fetcher.source = nodeSource(Config{Names: topics.Names{Nodes: "nodes"}})
	r.Nodes.fetcher.spare = make(chan *block[event.Node], 1)
	for part := range int32(4) {
		r.Nodes.store.buffers = append(r.Nodes.store.buffers, &buffer[event.Node]{partition: part})
		for i := range n / 4 {
			node := event.Node{ID: event.ID{Num: int64(4*i) + int64(part)}, Dense: make([]float32, 128), Neighbours: make([]event.ID, 14)}
			r.block.answer.Records = append(r.block.answer.Records, kafka.Record{
				Topic: "nodes", Partition: part, Offset: int64(i), Value: wire.AppendNode(nil, &node),
			})
		}
	}
	return r
}

func (r *repeater) decode() { r.block.decode(&r.decoder, &r.Nodes.fetcher.source) }

// run decodes the fetch, and cuts and releases windows of the given size. The block
// must be free for reuse afterwards.
func (r *repeater) run(tb testing.TB, size int) {
	tb.Helper()
	r.decode()
	if err := r.Nodes.Add(fetched[event.Node]{block: r.block}, time.Time{}); err != nil {
		tb.Fatal(err)
	}
	for r.Nodes.store.held > 0 {
		r.ranges = r.Claim(Cut{Nodes: min(size, r.Nodes.store.held), Cause: "count"}, r.ranges[:0])
		r.Gather(&r.window)
		if len(r.window.Nodes) != size {
			tb.Fatalf("a window has %d nodes, want %d", len(r.window.Nodes), size)
		}
		r.Release()
	}
	select {
	case <-r.Nodes.fetcher.spare:
	default:
		tb.Fatal("the block is not released though all of its records are")
	}
	for _, b := range r.Nodes.store.buffers {
		b.consumed = 0 // for the next run, with the same offsets
	}
}

// TestWindowAllocations: decoding an event and cutting its window reuses memory, so
// that garbage does not grow with the rate of events.
func TestWindowAllocations(t *testing.T) {
	const n, most = 4000, 0.1
	r := newRepeater(n)
	got := testing.AllocsPerRun(20, func() { r.run(t, 500) })
	if perEvent := got / n; perEvent > most {
		t.Errorf("%v allocations per event, want at most %v", perEvent, most)
	}
}

func BenchmarkWindow(b *testing.B) {
	const n = 4000
	for _, stage := range []struct {
		name string
		run  func(r *repeater)
	}{
		{"decode", (*repeater).decode},
		{"decode and cut", func(r *repeater) { r.run(b, 500) }},
	} {
		b.Run(stage.name, func(b *testing.B) {
			r := newRepeater(n)
			stage.run(r)
			b.ReportAllocs()
			for b.Loop() {
				stage.run(r)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
		})
	}
}

// TestMemoryAfterFlood: blocks that a flood of small records has made large are given back: one at its next fetch, if that is small, and
// those that wait to be reused while the topic is quiet.
func TestMemoryAfterFlood(t *testing.T) {
	t.Run("little follows", func(t *testing.T) {
		r := newRepeater(40_000)
		r.run(t, 500) // fails unless the block is reused
		r.block.answer.Records = r.block.answer.Records[:4]
		r.decode()
		r.Nodes.free(r.block, len(r.block.answer.Records))
		if len(r.Nodes.fetcher.spare) != 0 {
			t.Errorf("a block with room for %d records is kept after a fetch of 4", cap(r.block.answer.Records))
		}
	})
	t.Run("nothing follows", func(t *testing.T) {
		onTopics(t, 0, func(t *testing.T, h *harness) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in, err := Open(ctx, h.client, Config{Names: h.names}, Position{})
			if err != nil {
				t.Fatal(err)
			}
			for range spareBlocks {
				in.Nodes.fetcher.spare <- &block[event.Node]{events: make([]event.Node, 40_000)}
			}
			time.Sleep(time.Minute)
			if n := len(in.Nodes.fetcher.spare); n != 0 {
				t.Errorf("%d blocks are kept for the fetches of a topic that has been quiet for a minute", n)
			}
		})
	})
}

// TestFetchesOfSmallRecords: of records that take many times their bytes once they are decoded, fewer bytes are fetched, so that a
// block has not much more than blockBytes; and again as many as before once records are large.
func TestFetchesOfSmallRecords(t *testing.T) {
	for _, small := range []int{1, 3, 300} { // partitions
		ask := bytesOf(small)
		for range 100 { // blocks of 15 times what was fetched
			ask = askFor(small, ask, 15*ask)
		}
		if block, least := 15*ask, 15*small*leastPartitionBytes; block > max(blockBytes, least) {
			t.Errorf("%d partitions: a block has %d bytes, want at most %d", small, block, max(blockBytes, least))
		}
		if ask = askFor(small, ask, ask); ask < min(bytesOf(small), blockBytes/15) {
			t.Errorf("%d partitions: after a block of large records %d bytes are asked for", small, ask)
		}
		if ask = askFor(small, ask, ask); ask != bytesOf(small) {
			t.Errorf("%d partitions: after two blocks of large records %d bytes are asked for, want %d", small, ask, bytesOf(small))
		}
	}
	if got := askFor(3, 3*leastPartitionBytes, 0); got != bytesOf(3) {
		t.Errorf("after an empty block %d bytes are asked for, want %d", got, bytesOf(3))
	}
}

// TestFullOfBytes: a topic of few records that take much is not fetched beyond maxHeldBytes, and is again once they are released.
func TestFullOfBytes(t *testing.T) {
	r := newRepeater(4)
	in := &r.Nodes
	for _, bytes := range []int{10 * maxHeldBytes, maxHeldBytes / 100} { // at once, and one by one
		var blocks []*block[event.Node]
		for !in.full() {
			b := &block[event.Node]{left: 1, bytes: bytes}
			in.bytes += b.bytes
			blocks = append(blocks, b)
		}
		if want := max(1, maxHeldBytes/bytes+1); len(blocks) != want {
			t.Errorf("%d blocks of %d bytes are held, want %d", len(blocks), bytes, want)
		}
		for _, b := range blocks {
			in.free(b, 1)
		}
		if in.full() || in.bytes != 0 {
			t.Errorf("%d bytes are held of blocks that are released", in.bytes)
		}
	}
}
