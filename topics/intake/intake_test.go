package intake

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// place is where a record stands, and when its event was.
type place struct {
	partition int32
	offset    int64
	time      int64
}

// cutAt is what a window was made of.
type cutAt struct {
	cause         string
	nodes, labels []place // in the window's order
	ranges        []ledger.Range
}

// theatre makes inputs whose records come from a script, without a broker.
type theatre struct {
	client *kafka.Client
	names  topics.Names
}

func newTheatre(t *testing.T) *theatre {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: cluster.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	names, err := topics.Under("theatre")
	if err != nil {
		t.Fatal(err)
	}
	return &theatre{c, names}
}

// stage is inputs, a policy, and the windows that came of both.
type stage struct {
	*Inputs
	policy  Policy
	window  event.Window
	windows []cutAt
}

// inputs returns inputs that begin behind what is consumed.
func (h *theatre) inputs(policy Policy, parts int, consumed []ledger.Range) *stage {
	w := &stage{Inputs: &Inputs{}, policy: policy}
	played(h, &w.Nodes, source[event.Node]{
		topic: h.names.Nodes, decode: (*wire.Decoder).Node, time: func(n *event.Node) int64 { return n.Time }, ahead: time.Hour,
	}, parts, consumed)
	played(h, &w.Labels, source[event.Label]{
		topic: h.names.Labels, decode: (*wire.Decoder).Label, time: func(l *event.Label) int64 { return l.Time }, ahead: time.Hour,
	}, parts, consumed)
	return w
}

func played[E any](h *theatre, in *Input[E], s source[E], parts int, consumed []ledger.Range) {
	in.source, in.decoded, in.spare = s, make(chan Fetched[E]), make(chan *block[E], 1)
	start := make(map[kafka.TopicPartition]int64)
	for i := range parts {
		at := kafka.TopicPartition{Topic: s.topic, Partition: int32(i)}
		b := newBuffer[E](at.Partition, 0)
		b.skip(ofPartition(consumed, at))
		start[at] = b.consumed
		in.buffers = append(in.buffers, b)
	}
	in.reader = h.client.NewReader(start, kafka.ReaderConfig{})
}

// step writes down the window that is claimed, and releases it.
func (w *stage) step() *cutAt {
	w.Gather(&w.window)
	var c cutAt
	for _, n := range w.window.Nodes {
		c.nodes = append(c.nodes, place{n.Origin.Partition, n.Origin.Offset, n.Time})
	}
	for _, l := range w.window.Labels {
		c.labels = append(c.labels, place{l.Origin.Partition, l.Origin.Offset, l.Time})
	}
	for _, r := range w.window.Refused {
		c.nodes = append(c.nodes, place{r.Origin.Partition, r.Origin.Offset, 0})
	}
	w.Release()
	w.windows = append(w.windows, c)
	return &w.windows[len(w.windows)-1]
}

// streams are the records of one topic's partitions.
type streams struct {
	node  bool
	parts [][]place
}

// block makes a fetch of the next n records of each of the partitions at next,
// which it moves.
func fetch[E any](in *Input[E], s *streams, next []int, n []int) Fetched[E] {
	b := &block[E]{}
	for part, places := range s.parts {
		from := next[part]
		next[part] = min(from+n[part], len(places))
		for _, p := range places[from:next[part]] {
			id := event.ID{Num: p.offset}
			value := wire.AppendLabel(nil, &event.Label{Node: id, Class: "a", Time: p.time})
			if s.node {
				value = wire.AppendNode(nil, &event.Node{ID: id, Dense: []float32{1}, Time: p.time})
			}
			b.answer.Records = append(b.answer.Records, kafka.Record{Topic: in.topic, Partition: p.partition, Offset: p.offset, Value: value})
		}
	}
	var d wire.Decoder
	b.decode(&d, in.decode)
	return Fetched[E]{block: b}
}

// random is how much a random fetch brings of each partition.
func random(rng *rand.Rand, parts int) []int {
	n := make([]int, parts)
	for i := range n {
		if rng.IntN(2) == 0 {
			n[i] = rng.IntN(40)
		}
	}
	return n
}

// play brings both topics' records in a random order, and cuts after each fetch.
func play(t *testing.T, w *stage, rng *rand.Rand, nodes, labels *streams) {
	t.Helper()
	nextNode, nextLabel := make([]int, len(nodes.parts)), make([]int, len(labels.parts))
	for left(nodes, nextNode)+left(labels, nextLabel) > 0 {
		if rng.IntN(2) == 0 {
			if err := w.Nodes.Add(fetch(&w.Nodes, nodes, nextNode, random(rng, len(nextNode))), time.Now()); err != nil {
				t.Fatal(err)
			}
		} else if err := w.Labels.Add(fetch(&w.Labels, labels, nextLabel, random(rng, len(nextLabel))), time.Now()); err != nil {
			t.Fatal(err)
		}
		drain(t, w)
	}
}

// drain cuts for as long as the policy wants.
func drain(t *testing.T, w *stage) {
	t.Helper()
	for {
		c := w.Cut(w.policy, int64(len(w.windows)))
		if c.Cause == "" {
			return
		}
		ranges := w.Claim(c, nil)
		last := w.step()
		last.cause, last.ranges = c.Cause, ranges
		if len(last.nodes)+len(last.labels) == 0 {
			t.Fatalf("an empty window, by %s", c.Cause)
		}
	}
}

func left(s *streams, next []int) (n int) {
	for i, p := range s.parts {
		n += len(p) - next[i]
	}
	return n
}

// replayed has other inputs replay windows, whose fetches come in another order,
// and holds their windows to the first ones.
func replayed(t *testing.T, h *theatre, rng *rand.Rand, windows []cutAt, nodes, labels *streams, consumed []ledger.Range) {
	t.Helper()
	w := h.inputs(nil, len(nodes.parts), consumed)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	feed(ctx, &w.Nodes, nodes, rand.New(rand.NewPCG(rng.Uint64(), 1)))
	feed(ctx, &w.Labels, labels, rand.New(rand.NewPCG(rng.Uint64(), 2)))
	for i, want := range windows {
		if err := w.Replay(ctx, want.ranges); err != nil {
			t.Fatal(err)
		}
		got := w.step()
		if !reflect.DeepEqual(got.nodes, want.nodes) || !reflect.DeepEqual(got.labels, want.labels) {
			t.Fatalf("window %d is replayed as\n%v\n%v\nand was\n%v\n%v", i, got.nodes, got.labels, want.nodes, want.labels)
		}
	}
}

// feed brings the records behind what is consumed.
func feed[E any](ctx context.Context, in *Input[E], s *streams, rng *rand.Rand) {
	next := make([]int, len(s.parts))
	for part, b := range in.buffers {
		next[part], _ = slices.BinarySearchFunc(s.parts[part], b.consumed, func(p place, offset int64) int { return cmp.Compare(p.offset, offset) })
	}
	go func() {
		for left(s, next) > 0 {
			f := fetch(in, s, next, random(rng, len(next)))
			if len(f.block.answer.Records) == 0 {
				continue
			}
			select {
			case in.decoded <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
}

// stream is partitions whose times rise by step a record, with a disorder of up
// to jitter, and offsets with gaps; and a last record that ends all windows.
func stream(rng *rand.Rand, node bool, parts, n int, step, jitter, end int64) *streams {
	s := &streams{node: node}
	for part := range parts {
		var places []place
		offset := int64(0)
		for i := range n {
			offset += 1 + rng.Int64N(3)/2
			places = append(places, place{int32(part), offset, began + int64(i)*step + rng.Int64N(jitter+1)})
		}
		s.parts = append(s.parts, append(places, place{int32(part), offset + 1, began + end}))
	}
	return s
}

const began = 1_700_000_000_000

// sorted is what sorting by time gives: windows by their number, each in
// canonical order.
func sorted(width int64, until int64, s *streams) map[int64][]place {
	windows := make(map[int64][]place)
	for _, part := range s.parts {
		for _, p := range part {
			if p.time < until {
				windows[p.time/width] = append(windows[p.time/width], p)
			}
		}
	}
	return windows
}

// TestInAnyOrder has streams out of order over several partitions come in random
// fetches. Within the lateness the windows are those that sorting gives, and
// nothing is late. Beyond it every event is in one window, even when the policy
// changes. A replay agrees, from the beginning and from the middle.
func TestInAnyOrder(t *testing.T) {
	h := newTheatre(t)
	lates, apart := 0, 0
	for seed := range uint64(60) {
		for _, beyond := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(seed, 0))
			width, lateness := 1+rng.Int64N(3000), rng.Int64N(2000)
			jitter := lateness
			if beyond {
				jitter += 1 + rng.Int64N(4000)
			}
			parts, n := 1+rng.IntN(3), 200+rng.IntN(200)
			const step = 20
			end := int64(n)*step + jitter + lateness + 2*width
			nodes, labels := stream(rng, true, parts, n, step, jitter, end), stream(rng, false, parts, n, step, jitter, end)
			policy := EventTime{Width: time.Duration(width) * time.Millisecond, Lateness: time.Duration(lateness) * time.Millisecond, Idle: time.Hour}
			w := h.inputs(policy, parts, nil)
			if beyond && seed%2 == 0 {
				w.policy = moody{rng, policy}
			}
			late := 0
			w.untimely = func(_ string, n, early int) { late += n + early }
			play(t, w, rng, nodes, labels)
			name := fmt.Sprintf("seed %d, width %d, lateness %d, disorder %d, %d partitions", seed, width, lateness, jitter, parts)
			if !beyond {
				if late > 0 {
					t.Errorf("%s: %d events were late", name, late)
				}
				wantNodes, wantLabels := sorted(width, began+end, nodes), sorted(width, began+end, labels)
				last := int64(0)
				for _, c := range w.windows {
					k := append(slices.Clone(c.nodes), c.labels...)[0].time / width
					if k <= last || !slices.Equal(c.nodes, wantNodes[k]) || !slices.Equal(c.labels, wantLabels[k]) {
						t.Fatalf("%s: window %d behind %d is\n%v\n%v\nand should be\n%v\n%v", name, k, last, c.nodes, c.labels, wantNodes[k], wantLabels[k])
					}
					last = k
					delete(wantNodes, k)
					delete(wantLabels, k)
				}
				if len(wantNodes)+len(wantLabels) > 0 {
					t.Errorf("%s: %d and %d windows were not cut", name, len(wantNodes), len(wantLabels))
				}
			} else if n, all := once(t, w.windows)+w.Nodes.held+w.Labels.held, 2*parts*(n+1); n != all {
				t.Errorf("%s: %d events are in windows or held, of %d", name, n, all)
			}
			replayed(t, h, rng, w.windows, nodes, labels, nil)
			// What is consumed after half of the windows is where to begin for the
			// other half.
			half := len(w.windows) / 2
			m := h.inputs(nil, parts, nil)
			consume(t, &m.Nodes, nodes, w.windows[:half])
			consume(t, &m.Labels, labels, w.windows[:half])
			consumed := m.Consumed()
			if len(consumed) > 2*parts {
				apart++
			}
			replayed(t, h, rng, w.windows[half:], nodes, labels, consumed)
			lates += late
		}
	}
	if lates == 0 || apart == 0 {
		t.Errorf("%d events were late, %d times ranges were consumed apart: nothing was tried", lates, apart)
	}
}

// moody goes by event time or by count, as it likes.
type moody struct {
	rng *rand.Rand
	EventTime
}

func (p moody) Cut(b Buffered) Cut {
	if p.rng.IntN(8) == 0 {
		return CountOrLinger{Count: 1 + p.rng.IntN(30), Linger: time.Hour}.Cut(b)
	}
	return p.EventTime.Cut(b)
}

// consume replays one topic's side of windows.
func consume[E any](t *testing.T, in *Input[E], s *streams, windows []cutAt) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	feed(ctx, in, s, rand.New(rand.NewPCG(0, 0)))
	for _, c := range windows {
		if err := in.Replay(ctx, only(c.ranges, in.topic)); err != nil {
			t.Fatal(err)
		}
		in.Release()
	}
}

func only(ranges []ledger.Range, topic string) (of []ledger.Range) {
	for _, g := range ranges {
		if g.Topic == topic {
			of = append(of, g)
		}
	}
	return of
}

// once counts the events in windows, of which none is there twice.
func once(t *testing.T, windows []cutAt) int {
	t.Helper()
	nodes, labels := make(map[place]bool), make(map[place]bool)
	for _, w := range windows {
		for _, p := range w.nodes {
			if nodes[p] {
				t.Errorf("%v is in two windows", p)
			}
			nodes[p] = true
		}
		for _, p := range w.labels {
			if labels[p] {
				t.Errorf("%v is in two windows", p)
			}
			labels[p] = true
		}
	}
	return len(nodes) + len(labels)
}

// TestTimesNotToGoBy has events whose time must not move the watermark: they go
// with the next window, and those too far ahead are counted.
func TestTimesNotToGoBy(t *testing.T) {
	h := newTheatre(t)
	const s = 1000
	year30000 := time.Date(30000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	w := h.inputs(EventTime{Width: 10 * time.Second, Idle: time.Hour}, 1, nil)
	late, early := 0, 0
	w.untimely = func(_ string, l, e int) { late, early = late+l, early+e }
	nodes := &streams{node: true, parts: [][]place{{
		{0, 0, began + 1*s}, {0, 1, year30000}, {0, 2, 0}, {0, 3, began + 9*s}, {0, 4, -1 << 62}, // one window, still open
		{0, 5, began + 30*s}, // ends it
		{0, 6, began + 2*s},  // late
		{0, 7, began + 45*s},
	}}}
	labels := &streams{parts: [][]place{{{0, 0, began + 100*s}}}}
	next, nextLabel := []int{0}, []int{0}
	if err := w.Labels.Add(fetch(&w.Labels, labels, nextLabel, []int{1}), time.Now()); err != nil {
		t.Fatal(err)
	}
	var windows []int
	for range nodes.parts[0] {
		if err := w.Nodes.Add(fetch(&w.Nodes, nodes, next, []int{1}), time.Now()); err != nil {
			t.Fatal(err)
		}
		drain(t, w)
		windows = append(windows, len(w.windows))
	}
	if want := []int{0, 0, 0, 0, 0, 1, 1, 2}; !slices.Equal(windows, want) {
		t.Errorf("windows after each event: %v, want %v", windows, want)
	}
	want := [][]place{nodes.parts[0][:5], nodes.parts[0][5:7]}
	for i, c := range w.windows {
		if !slices.Equal(c.nodes, want[i]) {
			t.Errorf("window %d has %v, want %v", i, c.nodes, want[i])
		}
	}
	if late != 1 || early != 1 {
		t.Errorf("%d late and %d early, want 1 and 1", late, early)
	}
}

// TestFull has one partition hold the watermark back while the other one brings
// more than is held: windows are cut all the same, all is in one of them, and
// the memory comes back.
func TestFull(t *testing.T) {
	h := newTheatre(t)
	w := h.inputs(EventTime{Width: time.Second, Idle: time.Hour}, 2, nil)
	const n = maxHeld + 5000
	nodes := &streams{node: true, parts: [][]place{nil, nil}}
	for i := range int64(n) {
		nodes.parts[1] = append(nodes.parts[1], place{1, i, began + i})
	}
	next := []int{0, 0}
	for next[1] < n {
		if w.Nodes.Ready() == nil {
			t.Fatal("nothing is fetched any more")
		}
		if err := w.Nodes.Add(fetch(&w.Nodes, nodes, next, []int{0, 1000}), time.Now()); err != nil {
			t.Fatal(err)
		}
		drain(t, w)
	}
	if len(w.windows) == 0 || w.windows[0].cause != "full" || len(w.windows[0].nodes) != 1000 || w.Nodes.held >= maxHeld {
		t.Errorf("%d windows, %d records are held", len(w.windows), w.Nodes.held)
	}
	// The other one begins: what is left is cut.
	nodes.parts[0] = []place{{0, 0, began + n + 1000}}
	nodes.parts[1] = append(nodes.parts[1], place{1, n, began + n + 1000})
	labels := &streams{parts: [][]place{{{0, 0, began + n + 1000}}, {{1, 0, began + n + 1000}}}}
	play(t, w, rand.New(rand.NewPCG(0, 0)), &streams{node: true, parts: [][]place{nodes.parts[0], nodes.parts[1][n:]}}, labels)
	if got := once(t, w.windows); got != n {
		t.Errorf("%d events are in windows, of %d", got, n)
	}
	if w.Nodes.held != 2 || w.Nodes.bytes > 4*recordBytes {
		t.Errorf("%d records of %d bytes are held, and should be 2", w.Nodes.held, w.Nodes.bytes)
	}
}

// TestPinned has one record of each fetch lie in a window that is not cut: what
// it keeps of memory counts.
func TestPinned(t *testing.T) {
	h := newTheatre(t)
	w := h.inputs(EventTime{Width: time.Second, Lateness: time.Minute, Idle: time.Hour}, 1, nil)
	labels := &streams{parts: [][]place{{{0, 0, began + 1e9}}}}
	if err := w.Labels.Add(fetch(&w.Labels, labels, []int{0}, []int{1}), time.Now()); err != nil {
		t.Fatal(err)
	}
	const fetches, each = 20, 100
	nodes := &streams{node: true, parts: [][]place{nil}}
	for i := range int64(fetches * each) {
		at := began + i*10
		if i%each == 0 {
			at += 50_000
		}
		nodes.parts[0] = append(nodes.parts[0], place{0, i, at})
	}
	nodes.parts[0][fetches*each-1].time = began + 109_000 // up to began + 49 s
	next := []int{0}
	for range fetches {
		if err := w.Nodes.Add(fetch(&w.Nodes, nodes, next, []int{each}), time.Now()); err != nil {
			t.Fatal(err)
		}
		drain(t, w)
	}
	if w.Nodes.held != fetches+1 || w.Nodes.bytes < fetches*each*recordBytes {
		t.Errorf("%d records are held, and %d bytes", w.Nodes.held, w.Nodes.bytes)
	}
	if b := w.Nodes.buffers[0]; b.consumed != 0 || len(b.beyond) != fetches {
		t.Errorf("consumed up to %d, and %d ranges beyond", b.consumed, len(b.beyond))
	}
}

// TestManyPieces has a window in more pieces than a ledger record may have
// ranges: it is cut in parts.
func TestManyPieces(t *testing.T) {
	h := newTheatre(t)
	const n = 5 * maxRanges
	nodes := &streams{node: true, parts: [][]place{nil}}
	for i := range int64(n) {
		nodes.parts[0] = append(nodes.parts[0], place{0, 2 * i, began + (i%2)*1000})
	}
	nodes.parts[0] = append(nodes.parts[0], place{0, 2 * n, began + 10_000})
	labels := &streams{parts: [][]place{{{0, 0, began + 10_000}}}}
	w := h.inputs(EventTime{Width: time.Second, Lateness: time.Second, Idle: time.Hour}, 1, nil)
	rng := rand.New(rand.NewPCG(0, 0))
	play(t, w, rng, nodes, labels)
	if got := once(t, w.windows); got != n {
		t.Errorf("%d events are in windows, of %d", got, n)
	}
	for i, c := range w.windows {
		record := ledger.Record{Version: ledger.Version, Ranges: c.ranges}
		if _, err := ledger.Decode(record.Append(nil)); err != nil || len(c.ranges) > maxRanges {
			t.Errorf("window %d has %d ranges: %v", i, len(c.ranges), err)
		}
	}
	if len(w.windows) != 6 {
		t.Errorf("%d windows, want 3 of the first second and 3 of the next", len(w.windows))
	}
	replayed(t, h, rng, w.windows, nodes, labels, nil)
}

// TestLedgerNamesTwice has ranges that no worker writes.
func TestLedgerNamesTwice(t *testing.T) {
	h := newTheatre(t)
	nodes := stream(rand.New(rand.NewPCG(0, 0)), true, 1, 50, 1, 0, 100)
	of := func(from, to int64) ledger.Range {
		return ledger.Range{Topic: h.names.Nodes, From: from, To: to}
	}
	for _, ranges := range [][]ledger.Range{
		{of(0, 10), of(5, 12)},
		{of(10, 20), of(0, 5)},
	} {
		w := h.inputs(nil, 1, nil)
		ctx, stop := context.WithCancel(t.Context())
		feed(ctx, &w.Nodes, nodes, rand.New(rand.NewPCG(0, 0)))
		if err := w.Nodes.Replay(ctx, ranges); err == nil {
			t.Errorf("%v: no error", ranges)
		}
		stop()
	}
	w := h.inputs(nil, 1, []ledger.Range{of(0, 5), of(7, 9)})
	for _, g := range []ledger.Range{of(4, 6), of(8, 10), of(6, 12)} {
		if err := w.Nodes.Replay(t.Context(), []ledger.Range{g}); err == nil {
			t.Errorf("%v: no error", g)
		}
	}
}

// filled has a topic of three partitions with records on a broker.
func filled(t *testing.T, n int) (*theatre, *kfake.Cluster, func(parts int32, n int)) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: cluster.ListenAddrs(), DialFor: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	names, err := topics.Under("filled")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topics.Create(t.Context(), c, names, 3, 1); err != nil {
		t.Fatal(err)
	}
	p, err := c.NewProducer(t.Context(), kafka.ProducerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	send := func(parts int32, n int) {
		t.Helper()
		var records []kafka.Record
		for part := range parts {
			for i := range n {
				value := wire.AppendNode(nil, &event.Node{ID: event.ID{Num: int64(i)}, Dense: []float32{1}})
				records = append(records, kafka.Record{Topic: names.Nodes, Partition: part, Value: value})
			}
		}
		if err := p.Send(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	send(3, n)
	return &theatre{c, names}, cluster, send
}

// TestBehindWhatIsConsumed has inputs begin behind what was consumed before, ranges
// apart from the beginning among it.
func TestBehindWhatIsConsumed(t *testing.T) {
	h, cluster, _ := filled(t, 20)
	topic := h.names.Nodes
	consumed := []ledger.Range{
		{Topic: topic, Partition: 0, From: 0, To: 20},
		{Topic: topic, Partition: 1, From: 0, To: 5},
		{Topic: topic, Partition: 1, From: 7, To: 9},
		{Topic: topic, Partition: 1, From: 12, To: 20},
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w, err := Open(ctx, h.client, Config{Names: h.names}, consumed)
	if err != nil {
		t.Fatal(err)
	}
	for w.Nodes.buffers[1].fetched < 20 || w.Nodes.buffers[2].fetched < 20 {
		if err := w.Nodes.Add(<-w.Nodes.Ready(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	ranges := w.Nodes.claimOldest(w.Nodes.held, nil)
	want := []ledger.Range{
		{Topic: topic, Partition: 1, From: 5, To: 7},
		{Topic: topic, Partition: 1, From: 9, To: 12},
		{Topic: topic, Partition: 2, From: 0, To: 20},
	}
	if !slices.Equal(ranges, want) {
		t.Errorf("%v is left, want %v", ranges, want)
	}
	want = []ledger.Range{{Topic: topic, Partition: 0, To: 20}, {Topic: topic, Partition: 1, To: 20}, {Topic: topic, Partition: 2, To: 20}}
	if got := w.Nodes.consumed(nil); !slices.Equal(got, want) {
		t.Errorf("%v is consumed, want %v", got, want)
	}
	// More than there is was consumed, or what is left is gone.
	if _, err := Open(ctx, h.client, Config{Names: h.names}, []ledger.Range{{Topic: topic, From: 0, To: 21}}); err == nil {
		t.Error("a log that is shorter than what was consumed of it is no error")
	}
	if err := cluster.DeleteRecords(topic, 1, 6); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, h.client, Config{Names: h.names}, consumed); err == nil {
		t.Error("records that are gone before they were consumed are no error")
	}
}

// TestUnknownPartition has a replay come to a partition that was added after the
// inputs were opened, to one that does not exist, and to the end of one too early.
func TestUnknownPartition(t *testing.T) {
	h, cluster, send := filled(t, 3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w, err := Open(ctx, h.client, Config{Names: h.names}, nil)
	if err != nil {
		t.Fatal(err)
	}
	topic := h.names.Nodes
	admin := kafkago.Client{Addr: kafkago.TCP(cluster.ListenAddrs()[0])}
	res, err := admin.CreatePartitions(t.Context(), &kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: topic, Count: 5}}})
	if err != nil || res.Errors[topic] != nil {
		t.Fatal(err, res)
	}
	send(5, 2)
	if err := w.Nodes.Replay(ctx, []ledger.Range{{Topic: topic, Partition: 0, From: 0, To: 4}, {Topic: topic, Partition: 4, From: 0, To: 2}}); err != nil {
		t.Fatal(err)
	}
	if n := len(w.Nodes.claimed); w.Nodes.claimed[n-1].partition() != 4 {
		t.Errorf("%d chunks were claimed, the last of partition %d", n, w.Nodes.claimed[n-1].partition())
	}
	w.Nodes.Release()
	for _, g := range []ledger.Range{{Topic: topic, Partition: 7, From: 0, To: 1}, {Topic: topic, Partition: 4, From: 2, To: 3}} {
		if err := w.Nodes.Replay(ctx, []ledger.Range{g}); err == nil || !strings.Contains(err.Error(), "anew") {
			t.Errorf("%v: %v", g, err)
		}
	}
}
