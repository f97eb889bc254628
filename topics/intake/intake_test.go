package intake

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// record is the partition, offset and event time of a record, in milliseconds; its
// other contents follow from these.
type record struct {
	partition int32
	offset    int64
	time      int64
}

// cutWindow is a window that was cut or replayed.
type cutWindow struct {
	cause, taken  string
	nodes, labels []record // in the window's order
	ranges        []ledger.Range
}

// harness has a broker, a client of it and the names of a graph's topics.
type harness struct {
	on     *kafkatest.Kafka
	client *kafka.Client
	names  topics.Names
}

// onFake runs a test on kfake.
func onFake(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Helper()
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: k.Addrs, Dialer: k.Dial, DialFor: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		names, err := topics.Under("intake")
		if err != nil {
			t.Fatal(err)
		}
		test(t, &harness{k, c, names})
	}, kfake.NumBrokers(1))
}

// driver plays the worker's loop: it cuts windows with a policy and keeps them.
type driver struct {
	*Inputs
	policy  Policy
	window  event.Window
	windows []cutWindow
}

// inputs returns inputs that begin behind the consumed ranges. Nothing fetches for
// them: a test passes blocks to Add, or sends them to the decoded channels.
func (h *harness) inputs(policy Policy, parts int, consumed []ledger.Range) *driver {
	d := &driver{Inputs: &Inputs{}, policy: policy}
	cfg := Config{Names: h.names}
	initInput(h, &d.Nodes, nodeSource(cfg), parts, consumed)
	initInput(h, &d.Labels, labelSource(cfg), parts, consumed)
	return d
}

// initInput does what open does, except for fetching and decoding.
func initInput[E any](h *harness, in *input[E], s source[E], parts int, consumed []ledger.Range) {
	in.store.topic = s.topic
	in.fetcher.source, in.fetcher.decoded, in.fetcher.spare = s, make(chan fetched[E]), make(chan *block[E], 1)
	start := make(map[kafka.TopicPartition]int64)
	for i := range parts {
		at := kafka.TopicPartition{Topic: s.topic, Partition: int32(i)}
		b := newBuffer[E](at.Partition, 0)
		b.skip(ofPartition(consumed, at))
		start[at] = b.consumed
		in.store.buffers = append(in.store.buffers, b)
	}
	in.fetcher.reader = h.client.NewReader(start, kafka.ReaderConfig{}) // sends no requests; Quiet is asked
}

// collect appends the claimed window to d.windows and releases its records. Refused
// records count as nodes without an event time.
func (d *driver) collect() *cutWindow {
	d.Gather(&d.window)
	var c cutWindow
	for _, n := range d.window.Nodes {
		c.nodes = append(c.nodes, record{n.Origin.Partition, n.Origin.Offset, n.Time})
	}
	for _, l := range d.window.Labels {
		c.labels = append(c.labels, record{l.Origin.Partition, l.Origin.Offset, l.Time})
	}
	for _, r := range d.window.Refused {
		c.nodes = append(c.nodes, record{r.Origin.Partition, r.Origin.Offset, 0})
	}
	c.taken = d.Taken()
	d.Release()
	d.windows = append(d.windows, c)
	return &d.windows[len(d.windows)-1]
}

// topicRecords are all records of one topic, by partition.
type topicRecords struct {
	node  bool // they are node events, otherwise label events
	parts [][]record
}

// remaining returns the number of records at or behind the indices next.
func (s *topicRecords) remaining(next []int) (n int) {
	for i, records := range s.parts {
		n += len(records) - next[i]
	}
	return n
}

// nextBlock returns a decoded block with at most n[i] records of each partition i,
// from index next[i] on, and advances next behind them.
func nextBlock[E any](in *input[E], s *topicRecords, next, n []int) fetched[E] {
	b := &block[E]{}
	for part, records := range s.parts {
		from := next[part]
		next[part] = min(from+n[part], len(records))
		for _, r := range records[from:next[part]] {
			id := event.ID{Num: r.offset}
			value := wire.AppendLabel(nil, &event.Label{Node: id, Class: "a", Time: r.time})
			if s.node {
				value = wire.AppendNode(nil, &event.Node{ID: id, Dense: []float32{1}, Time: r.time})
			}
			b.answer.Records = append(b.answer.Records, kafka.Record{Topic: in.store.topic, Partition: r.partition, Offset: r.offset, Value: value})
		}
	}
	var d wire.Decoder
	b.decode(&d, &in.fetcher.source)
	return fetched[E]{block: b}
}

// addNext adds the next block, see nextBlock.
func addNext[E any](t *testing.T, in *input[E], s *topicRecords, next, n []int) {
	t.Helper()
	if err := in.Add(nextBlock(in, s, next, n), time.Now()); err != nil {
		t.Fatal(err)
	}
}

// randomCounts returns random numbers of records to fetch of each partition, about
// half of them 0.
func randomCounts(rng *rand.Rand, parts int) []int {
	n := make([]int, parts)
	for i := range n {
		if rng.IntN(2) == 0 {
			n[i] = rng.IntN(40)
		}
	}
	return n
}

// addAll adds the records of both topics in random blocks, and cuts windows after
// each block.
func (d *driver) addAll(t *testing.T, rng *rand.Rand, nodes, labels *topicRecords) {
	t.Helper()
	nextNode, nextLabel := make([]int, len(nodes.parts)), make([]int, len(labels.parts))
	for nodes.remaining(nextNode)+labels.remaining(nextLabel) > 0 {
		if rng.IntN(2) == 0 {
			addNext(t, &d.Nodes, nodes, nextNode, randomCounts(rng, len(nextNode)))
		} else {
			addNext(t, &d.Labels, labels, nextLabel, randomCounts(rng, len(nextLabel)))
		}
		d.cutAll(t)
	}
}

// cutAll cuts windows until the policy cuts no more. None of them may be empty.
func (d *driver) cutAll(t *testing.T) {
	t.Helper()
	for {
		c := d.Cut(d.policy, int64(len(d.windows)))
		if c.Cause == "" {
			return
		}
		ranges := d.Claim(c, nil)
		last := d.collect()
		last.cause, last.ranges = c.Cause, ranges
		if len(last.nodes)+len(last.labels) == 0 {
			t.Fatalf("window %d, cut by %s, is empty", len(d.windows)-1, c.Cause)
		}
	}
}

// checkReplay replays the ranges of windows with new inputs, which begin behind the
// consumed ranges and receive the records in other blocks, and compares the events.
func checkReplay(t *testing.T, h *harness, rng *rand.Rand, windows []cutWindow, nodes, labels *topicRecords, consumed []ledger.Range) {
	t.Helper()
	d := h.inputs(nil, len(nodes.parts), consumed)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	feed(ctx, &d.Nodes, nodes, rand.New(rand.NewPCG(rng.Uint64(), 1)))
	feed(ctx, &d.Labels, labels, rand.New(rand.NewPCG(rng.Uint64(), 2)))
	for i, want := range windows {
		if err := d.Replay(ctx, want.ranges); err != nil {
			t.Fatal(err)
		}
		got := d.collect()
		if consumed == nil && got.taken != want.taken {
			t.Fatalf("window %d: replay has taken %s, want %s", i, got.taken, want.taken)
		}
		if !reflect.DeepEqual(got.nodes, want.nodes) || !reflect.DeepEqual(got.labels, want.labels) {
			t.Fatalf("window %d: replay gives nodes %v, labels %v, want nodes %v, labels %v", i, got.nodes, got.labels, want.nodes, want.labels)
		}
	}
}

// feed sends the records behind the consumed beginning of each partition to the
// input in random blocks, from another goroutine, until the context ends.
func feed[E any](ctx context.Context, in *input[E], s *topicRecords, rng *rand.Rand) {
	next := make([]int, len(s.parts))
	for part, b := range in.store.buffers {
		next[part], _ = slices.BinarySearchFunc(s.parts[part], b.consumed, func(r record, offset int64) int { return cmp.Compare(r.offset, offset) })
	}
	go func() {
		for s.remaining(next) > 0 {
			f := nextBlock(in, s, next, randomCounts(rng, len(next)))
			if len(f.block.answer.Records) == 0 {
				continue
			}
			select {
			case in.fetcher.decoded <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
}

// baseTime is about the event time of the first records, in milliseconds since 1970.
const baseTime = 1_700_000_000_000

// randomRecords returns n records for each partition, with gaps between their
// offsets. Event times rise by step from record to record, plus a random disorder of
// up to jitter. One more record in each partition has the time baseTime+end, which
// lets the watermark pass all windows of the others.
func randomRecords(rng *rand.Rand, node bool, parts, n int, step, jitter, end int64) *topicRecords {
	s := &topicRecords{node: node}
	for part := range parts {
		var records []record
		offset := int64(0)
		for i := range n {
			offset += 1 + rng.Int64N(3)/2
			records = append(records, record{int32(part), offset, baseTime + int64(i)*step + rng.Int64N(jitter+1)})
		}
		s.parts = append(s.parts, append(records, record{int32(part), offset + 1, baseTime + end}))
	}
	return s
}

// tumbling returns the records with an event time before until by the number of their
// tumbling window, time/width; each window in canonical order.
func tumbling(width, until int64, s *topicRecords) map[int64][]record {
	windows := make(map[int64][]record)
	for _, records := range s.parts {
		for _, r := range records {
			if r.time < until {
				windows[r.time/width] = append(windows[r.time/width], r)
			}
		}
	}
	return windows
}

// TestEventTimeOutOfOrder cuts windows of streams whose event times are out of order,
// over several partitions and in random blocks.
//
// If the disorder is within the lateness, the windows must be those of sorting all
// events by time, and no event may be late. If it is beyond, or the policy changes in
// between, every event must still be in exactly one window or held. In all cases a
// replay of the ranges must give the same windows, from the beginning and from what
// was consumed after half of them: the ledger depends on it.
func TestEventTimeOutOfOrder(t *testing.T) {
	onFake(t, func(t *testing.T, h *harness) {
		lateEvents, gaps := 0, 0
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
				nodes, labels := randomRecords(rng, true, parts, n, step, jitter, end), randomRecords(rng, false, parts, n, step, jitter, end)
				policy := EventTime{Width: time.Duration(width) * time.Millisecond, Lateness: time.Duration(lateness) * time.Millisecond, Idle: time.Hour}
				d := h.inputs(policy, parts, nil)
				if beyond && seed%2 == 0 {
					d.policy = mixedPolicy{rng, policy}
				}
				untimely := 0
				d.untimely = func(_ string, late, early int) { untimely += late + early }
				d.addAll(t, rng, nodes, labels)
				name := fmt.Sprintf("seed %d, width %d, lateness %d, disorder %d, %d partitions", seed, width, lateness, jitter, parts)
				if !beyond {
					if untimely > 0 {
						t.Errorf("%s: %d events are late or early, want 0", name, untimely)
					}
					checkTumbling(t, name, d.windows, width, tumbling(width, baseTime+end, nodes), tumbling(width, baseTime+end, labels))
				} else if got, want := countOnce(t, d.windows)+d.Nodes.store.held+d.Labels.store.held, 2*parts*(n+1); got != want {
					t.Errorf("%s: %d events are in windows or held, want %d", name, got, want)
				}
				checkReplay(t, h, rng, d.windows, nodes, labels, nil)
				half := len(d.windows) / 2
				first := h.inputs(nil, parts, nil)
				replayWindows(t, &first.Nodes, nodes, d.windows[:half])
				replayWindows(t, &first.Labels, labels, d.windows[:half])
				consumed := first.Position().Consumed
				if len(consumed) > 2*parts { // more than one range in a partition
					gaps++
				}
				checkReplay(t, h, rng, d.windows[half:], nodes, labels, consumed)
				lateEvents += untimely
			}
		}
		if lateEvents == 0 || gaps == 0 {
			t.Errorf("%d late events, %d times gaps between consumed ranges: want both above 0, else the test covers neither", lateEvents, gaps)
		}
	})
}

// checkTumbling compares windows with those that are wanted, by number. Their numbers
// must ascend.
func checkTumbling(t *testing.T, name string, windows []cutWindow, width int64, wantNodes, wantLabels map[int64][]record) {
	t.Helper()
	last := int64(0)
	for _, c := range windows {
		k := slices.Concat(c.nodes, c.labels)[0].time / width
		if k <= last {
			t.Fatalf("%s: window %d is cut after window %d", name, k, last)
		}
		if !slices.Equal(c.nodes, wantNodes[k]) || !slices.Equal(c.labels, wantLabels[k]) {
			t.Fatalf("%s: window %d has nodes %v, labels %v, want nodes %v, labels %v", name, k, c.nodes, c.labels, wantNodes[k], wantLabels[k])
		}
		last = k
		delete(wantNodes, k)
		delete(wantLabels, k)
	}
	if len(wantNodes)+len(wantLabels) > 0 {
		t.Errorf("%s: %d windows of nodes and %d of labels were not cut", name, len(wantNodes), len(wantLabels))
	}
}

// mixedPolicy cuts by event time, and at random by count.
type mixedPolicy struct {
	rng *rand.Rand
	EventTime
}

func (p mixedPolicy) Cut(b Buffered) Cut {
	if p.rng.IntN(8) == 0 {
		return CountOrLinger{Count: 1 + p.rng.IntN(30), Linger: time.Hour}.Cut(b)
	}
	return p.EventTime.Cut(b)
}

// replayWindows replays the ranges of one topic in windows.
func replayWindows[E any](t *testing.T, in *input[E], s *topicRecords, windows []cutWindow) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	feed(ctx, in, s, rand.New(rand.NewPCG(0, 0)))
	for _, c := range windows {
		if err := in.Replay(ctx, ofTopic(c.ranges, in.store.topic)); err != nil {
			t.Fatal(err)
		}
		in.Release()
	}
}

func ofTopic(ranges []ledger.Range, topic string) (of []ledger.Range) {
	for _, g := range ranges {
		if g.Topic == topic {
			of = append(of, g)
		}
	}
	return of
}

// countOnce returns the number of events in windows. None may be in two of them.
func countOnce(t *testing.T, windows []cutWindow) int {
	t.Helper()
	nodes, labels := make(map[record]bool), make(map[record]bool)
	add := func(seen map[record]bool, records []record) {
		for _, r := range records {
			if seen[r] {
				t.Errorf("%+v is in two windows", r)
			}
			seen[r] = true
		}
	}
	for _, c := range windows {
		add(nodes, c.nodes)
		add(labels, c.labels)
	}
	return len(nodes) + len(labels)
}

// TestResumeAfterLongReplay: after a replay that lasted so long that all partitions count as
// idle, windows are closed up to the watermark of the replayed events.
func TestResumeAfterLongReplay(t *testing.T) {
	policy := EventTime{Width: time.Second, Lateness: time.Second, Idle: time.Minute}
	onFake(t, func(t *testing.T, h *harness) {
		d := h.inputs(policy, 2, nil)
		d.Nodes.fetcher.inFlight.Add(1) // so that Quiet is not asked
		d.Labels.fetcher.inFlight.Add(1)
		const s = 1000
		for i := range int64(2) {
			n, l := d.Nodes.store.buffers[i], d.Labels.store.buffers[i]
			n.latest, n.quiet = baseTime+(30+i)*s, time.Hour
			l.latest, l.quiet = baseTime+(20+i)*s, time.Hour
		}
		d.Resume(policy, 7)
		if want := policy.begin(baseTime + 19*s); d.closed != want {
			t.Errorf("windows before %d are closed, want those before %d", d.closed, want)
		}
	})
}

// TestUnusableEventTimes: events that are late, too far ahead of the clock or without
// a time must not move the watermark. They go into the next window that is cut; late
// and early ones are counted.
func TestUnusableEventTimes(t *testing.T) {
	onFake(t, func(t *testing.T, h *harness) {
		const s = 1000
		year30000 := time.Date(30000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		d := h.inputs(EventTime{Width: 10 * time.Second, Idle: time.Hour}, 1, nil)
		late, early := 0, 0
		d.untimely = func(_ string, l, e int) { late, early = late+l, early+e }
		nodes := &topicRecords{node: true, parts: [][]record{{
			// The first window: its own events, and three without a usable time.
			{0, 0, baseTime + 1*s},
			{0, 1, year30000},
			{0, 2, 0},
			{0, 3, baseTime + 9*s},
			{0, 4, -1 << 62},
			{0, 5, baseTime + 30*s}, // moves the watermark past the first window
			{0, 6, baseTime + 2*s},  // late
			{0, 7, baseTime + 45*s},
		}}}
		labels := &topicRecords{parts: [][]record{{{0, 0, baseTime + 100*s}}}}
		addNext(t, &d.Labels, labels, []int{0}, []int{1})
		next := []int{0}
		var windows []int
		for range nodes.parts[0] {
			addNext(t, &d.Nodes, nodes, next, []int{1})
			d.cutAll(t)
			windows = append(windows, len(d.windows))
		}
		if want := []int{0, 0, 0, 0, 0, 1, 1, 2}; !slices.Equal(windows, want) {
			t.Errorf("windows after each event: %v, want %v", windows, want)
		}
		want := [][]record{nodes.parts[0][:5], nodes.parts[0][5:7]}
		for i, c := range d.windows {
			if !slices.Equal(c.nodes, want[i]) {
				t.Errorf("window %d has nodes %v, want %v", i, c.nodes, want[i])
			}
		}
		if late != 1 || early != 1 {
			t.Errorf("%d late and %d early events, want 1 and 1", late, early)
		}
	})
}

// TestFullTopic: if one partition holds the watermark back while another one fills
// the topic's bound, windows must be cut without the watermark, or fetching would stop
// for ever. Every event must be in one window, and memory must be released.
func TestFullTopic(t *testing.T) {
	onFake(t, func(t *testing.T, h *harness) {
		d := h.inputs(EventTime{Width: time.Second, Idle: time.Hour}, 2, nil)
		const n = maxHeld + 5000
		nodes := &topicRecords{node: true, parts: [][]record{nil, nil}}
		for i := range int64(n) {
			nodes.parts[1] = append(nodes.parts[1], record{1, i, baseTime + i})
		}
		next := []int{0, 0}
		for next[1] < n {
			if d.Nodes.Ready() == nil {
				t.Fatalf("fetching stopped after %d of %d records", next[1], n)
			}
			addNext(t, &d.Nodes, nodes, next, []int{0, 1000})
			d.cutAll(t)
		}
		if len(d.windows) == 0 || d.windows[0].cause != "full" || len(d.windows[0].nodes) != 1000 || d.Nodes.store.held >= maxHeld {
			t.Errorf("%d windows are cut and %d records held; want a first window of 1000 nodes, cut because the topic is full, and fewer than %d held", len(d.windows), d.Nodes.store.held, maxHeld)
		}
		// The first partition's watermark now passes all of these windows.
		end := int64(baseTime + n + 1000)
		rest := &topicRecords{node: true, parts: [][]record{{{0, 0, end}}, {{1, n, end}}}}
		labels := &topicRecords{parts: [][]record{{{0, 0, end}}, {{1, 0, end}}}}
		d.addAll(t, rand.New(rand.NewPCG(0, 0)), rest, labels)
		if got := countOnce(t, d.windows); got != n {
			t.Errorf("%d events are in windows, want %d", got, n)
		}
		if d.Nodes.store.held != 2 || d.Nodes.bytes > 4*recordBytes[event.Node]() {
			t.Errorf("%d records of %d bytes are held, want 2 of at most %d", d.Nodes.store.held, d.Nodes.bytes, 4*recordBytes[event.Node]())
		}
	})
}

// TestHeldRecordKeepsItsBlock: a block is not released while one of its records is
// held, so the bound on held bytes must count the whole block. Here one record of each
// block lies in a window that is not cut yet.
func TestHeldRecordKeepsItsBlock(t *testing.T) {
	onFake(t, func(t *testing.T, h *harness) {
		d := h.inputs(EventTime{Width: time.Second, Lateness: time.Minute, Idle: time.Hour}, 1, nil)
		labels := &topicRecords{parts: [][]record{{{0, 0, baseTime + 1e9}}}}
		addNext(t, &d.Labels, labels, []int{0}, []int{1})
		const blocks, each = 20, 100
		nodes := &topicRecords{node: true, parts: [][]record{nil}}
		for i := range int64(blocks * each) {
			at := baseTime + i*10
			if i%each == 0 {
				at += 50_000
			}
			nodes.parts[0] = append(nodes.parts[0], record{0, i, at})
		}
		nodes.parts[0][blocks*each-1].time = baseTime + 109_000 // the watermark comes to baseTime + 49 s
		next := []int{0}
		for range blocks {
			addNext(t, &d.Nodes, nodes, next, []int{each})
			d.cutAll(t)
		}
		if d.Nodes.store.held != blocks+1 || d.Nodes.bytes < blocks*each*recordBytes[event.Node]() {
			t.Errorf("%d records and %d bytes are held, want %d and at least %d", d.Nodes.store.held, d.Nodes.bytes, blocks+1, blocks*each*recordBytes[event.Node]())
		}
		if b := d.Nodes.store.buffers[0]; b.consumed != 0 || len(b.beyond) != blocks {
			t.Errorf("consumed up to %d with %d ranges beyond, want 0 and %d", b.consumed, len(b.beyond), blocks)
		}
	})
}

// TestWindowTakesWhatIsReady: while a window is stepped, events wait and more come. A policy
// that cuts because of the waiting gets all that have come by then.
func TestWindowTakesWhatIsReady(t *testing.T) {
	onFake(t, func(t *testing.T, h *harness) {
		d := h.inputs(CountOrLinger{Count: 100, Linger: 0}, 1, nil)
		d.Nodes.fetcher.decoded, d.Labels.fetcher.decoded = make(chan fetched[event.Node], 2), make(chan fetched[event.Label], 2)
		nodes, labels := &topicRecords{node: true, parts: [][]record{nil}}, &topicRecords{parts: [][]record{nil}}
		for i := range int64(50) {
			nodes.parts[0] = append(nodes.parts[0], record{0, i, baseTime})
			labels.parts[0] = append(labels.parts[0], record{0, i, baseTime})
		}
		nextNode, nextLabel := []int{0}, []int{0}
		addNext(t, &d.Nodes, nodes, nextNode, []int{7})
		d.Nodes.fetcher.decoded <- nextBlock(&d.Nodes, nodes, nextNode, []int{20})
		d.Nodes.fetcher.decoded <- nextBlock(&d.Nodes, nodes, nextNode, []int{3})
		d.Labels.fetcher.decoded <- nextBlock(&d.Labels, labels, nextLabel, []int{5})
		for _, want := range []bool{true, true, false} {
			if c := d.Cut(d.policy, 0); c.Cause != Lingered {
				t.Fatalf("a window is cut by %q, want %q", c.Cause, Lingered)
			}
			if some, err := d.AddReady(time.Now()); some != want || err != nil {
				t.Fatalf("blocks were ready: %v, %v, want %v", some, err, want)
			}
		}
		d.cutAll(t)
		if w := d.windows; len(w) != 1 || len(w[0].nodes) != 30 || len(w[0].labels) != 5 {
			t.Errorf("windows %v, want one of 30 nodes and 5 labels", w)
		}
		broken := errors.New("broken")
		d.Labels.fetcher.decoded <- fetched[event.Label]{err: broken}
		if _, err := d.AddReady(time.Now()); !errors.Is(err, broken) {
			t.Errorf("the error of a fetch: %v, want %v", err, broken)
		}
	})
}

// TestTooManyRanges: a window whose records form more ranges than a ledger record may
// have is cut in several parts, each of which has a valid ledger record.
func TestTooManyRanges(t *testing.T) {
	onFake(t, func(t *testing.T, h *harness) {
		const n = 5 * maxRanges
		nodes := &topicRecords{node: true, parts: [][]record{nil}}
		for i := range int64(n) { // alternating between two windows
			nodes.parts[0] = append(nodes.parts[0], record{0, 2 * i, baseTime + (i%2)*1000})
		}
		nodes.parts[0] = append(nodes.parts[0], record{0, 2 * n, baseTime + 10_000})
		labels := &topicRecords{parts: [][]record{{{0, 0, baseTime + 10_000}}}}
		d := h.inputs(EventTime{Width: time.Second, Lateness: time.Second, Idle: time.Hour}, 1, nil)
		rng := rand.New(rand.NewPCG(0, 0))
		d.addAll(t, rng, nodes, labels)
		if got := countOnce(t, d.windows); got != n {
			t.Errorf("%d events are in windows, want %d", got, n)
		}
		for i, c := range d.windows {
			r := ledger.Record{Version: ledger.Version, Ranges: c.ranges}
			if _, err := ledger.Decode(r.Append(nil)); err != nil || len(c.ranges) > maxRanges {
				t.Errorf("window %d has %d ranges, decoded with error %v; want at most %d and no error", i, len(c.ranges), err, maxRanges)
			}
		}
		if len(d.windows) != 6 {
			t.Errorf("%d windows are cut, want 3 of the first second and 3 of the second", len(d.windows))
		}
		checkReplay(t, h, rng, d.windows, nodes, labels, nil)
	})
}

// TestReplayRefusesInvalidRanges: ranges that overlap, do not ascend, or were consumed
// already cannot come from a worker. Replaying them would step an event twice.
func TestReplayRefusesInvalidRanges(t *testing.T) {
	onFake(t, func(t *testing.T, h *harness) {
		nodes := randomRecords(rand.New(rand.NewPCG(0, 0)), true, 1, 50, 1, 0, 100)
		of := func(from, to int64) ledger.Range {
			return ledger.Range{Topic: h.names.Nodes, From: from, To: to}
		}
		for _, ranges := range [][]ledger.Range{
			{of(0, 10), of(5, 12)},
			{of(10, 20), of(0, 5)},
		} {
			d := h.inputs(nil, 1, nil)
			ctx, stop := context.WithCancel(t.Context())
			feed(ctx, &d.Nodes, nodes, rand.New(rand.NewPCG(0, 0)))
			if err := d.Nodes.Replay(ctx, ranges); err == nil {
				t.Errorf("Replay(%v) gives no error", ranges)
			}
			stop()
		}
		consumed := []ledger.Range{of(0, 5), of(7, 9)}
		d := h.inputs(nil, 1, consumed)
		for _, g := range []ledger.Range{of(4, 6), of(8, 10), of(6, 12)} {
			if err := d.Nodes.Replay(t.Context(), []ledger.Range{g}); err == nil {
				t.Errorf("Replay(%v) after %v were consumed gives no error", g, consumed)
			}
		}
	})
}

// onTopics runs a test on kfake, with a graph's topics of three partitions each, and n nodes in
// each partition of the nodes topic.
func onTopics(t *testing.T, n int, test func(t *testing.T, h *harness)) {
	t.Helper()
	onFake(t, func(t *testing.T, h *harness) {
		if _, err := topics.Create(t.Context(), h.client, h.names, topics.Layout{Partitions: 3, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		h.send(t, 3, n)
		test(t, h)
	})
}

// send appends n nodes to each of the first partitions of the nodes topic.
func (h *harness) send(t *testing.T, partitions int32, n int) {
	t.Helper()
	p, err := h.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var records []kafka.Record
	for part := range partitions {
		for i := range n {
			value := wire.AppendNode(nil, &event.Node{ID: event.ID{Num: int64(i)}, Dense: make([]float32, 32)})
			records = append(records, kafka.Record{Topic: h.names.Nodes, Partition: part, Value: value})
		}
	}
	if err := p.Send(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

// admin returns kafka-go's client of the broker.
func (h *harness) admin(t *testing.T) *kafkago.Client {
	transport := &kafkago.Transport{Dial: h.on.Dial}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafkago.Client{Addr: kafkago.TCP(h.on.Addrs...), Transport: transport}
}

// TestOpenBehindConsumed: inputs that are opened behind consumed ranges, as after a
// checkpoint, claim exactly the records outside these ranges. Opening them fails if
// the log ends before a consumed range or has lost a record that is not consumed.
func TestOpenBehindConsumed(t *testing.T) {
	onTopics(t, 20, func(t *testing.T, h *harness) {
		topic := h.names.Nodes
		consumed := []ledger.Range{
			{Topic: topic, Partition: 0, From: 0, To: 20},
			{Topic: topic, Partition: 1, From: 0, To: 5},
			{Topic: topic, Partition: 1, From: 7, To: 9},
			{Topic: topic, Partition: 1, From: 12, To: 20},
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		in, err := Open(ctx, h.client, Config{Names: h.names}, Position{Consumed: consumed})
		if err != nil {
			t.Fatal(err)
		}
		for in.Nodes.store.buffers[1].fetched < 20 || in.Nodes.store.buffers[2].fetched < 20 {
			if err := in.Nodes.Add(kafkatest.Receive(t, in.Nodes.Ready(), "a fetch of nodes is answered"), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		ranges := in.Nodes.store.claimOldest(in.Nodes.store.held, nil)
		want := []ledger.Range{
			{Topic: topic, Partition: 1, From: 5, To: 7},
			{Topic: topic, Partition: 1, From: 9, To: 12},
			{Topic: topic, Partition: 2, From: 0, To: 20},
		}
		if !slices.Equal(ranges, want) {
			t.Errorf("claimed ranges %v, want %v", ranges, want)
		}
		want = []ledger.Range{{Topic: topic, Partition: 0, To: 20}, {Topic: topic, Partition: 1, To: 20}, {Topic: topic, Partition: 2, To: 20}}
		if got := in.Position().Consumed[:3]; !slices.Equal(got, want) {
			t.Errorf("consumed ranges %v, want %v", got, want)
		}
		if _, err := Open(ctx, h.client, Config{Names: h.names}, Position{Consumed: []ledger.Range{{Topic: topic, From: 0, To: 21}}}); err == nil {
			t.Error("Open gives no error though a consumed range ends behind the log")
		}
		if err := h.on.Fake.DeleteRecords(topic, 1, 6); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(ctx, h.client, Config{Names: h.names}, Position{Consumed: consumed}); err == nil {
			t.Error("Open gives no error though a record was deleted before it was consumed")
		}
	})
}

// TestReplayUnknownPartition: a replay finds a partition that was added to the topic
// after the inputs were opened. A partition that does not exist, or that ends before
// the range, is an error that names the likely cause, a topic that was created anew.
func TestReplayUnknownPartition(t *testing.T) {
	onTopics(t, 3, func(t *testing.T, h *harness) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		in, err := Open(ctx, h.client, Config{Names: h.names}, Position{})
		if err != nil {
			t.Fatal(err)
		}
		topic := h.names.Nodes
		admin := h.admin(t)
		res, err := admin.CreatePartitions(t.Context(), &kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: topic, Count: 5}}})
		if err != nil || res.Errors[topic] != nil {
			t.Fatal(err, res)
		}
		h.send(t, 5, 2)
		if err := in.Nodes.Replay(ctx, []ledger.Range{{Topic: topic, Partition: 0, From: 0, To: 4}, {Topic: topic, Partition: 4, From: 0, To: 2}}); err != nil {
			t.Fatal(err)
		}
		claimed := in.Nodes.store.claimed
		if got := claimed[len(claimed)-1].partition(); got != 4 {
			t.Errorf("the last of %d claimed chunks is of partition %d, want 4", len(claimed), got)
		}
		in.Nodes.Release()
		for _, g := range []ledger.Range{{Topic: topic, Partition: 7, From: 0, To: 1}, {Topic: topic, Partition: 4, From: 2, To: 3}} {
			if err := in.Nodes.Replay(ctx, []ledger.Range{g}); err == nil || !strings.Contains(err.Error(), "anew") {
				t.Errorf("Replay(%v): error %v, want one that contains %q", g, err, "anew")
			}
		}
	})
}

// TestReplayIsBounded: the ledger's windows take one partition after the other, while a
// fetch brings records of all. A replay holds as many of those that are ahead as an owner
// holds, and what was on its way when they were, and claims every record. The fetches go on once it is over.
func TestReplayIsBounded(t *testing.T) {
	const n, window = 100_000, 1000
	onTopics(t, n, func(t *testing.T, h *harness) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		in, err := Open(ctx, h.client, Config{Names: h.names}, Position{})
		if err != nil {
			t.Fatal(err)
		}
		most, bytes := 0, 0
		for part := range int32(3) {
			for from := int64(0); from < n; from += window {
				if err := in.Replay(ctx, []ledger.Range{{Topic: h.names.Nodes, Partition: part, From: from, To: from + window}}); err != nil {
					t.Fatal(err)
				}
				for i, c := range in.Nodes.store.claimed {
					if i == 0 && c.first() != from || i == len(in.Nodes.store.claimed)-1 && c.end() != from+window {
						t.Fatalf("a window of offsets %d to %d of partition %d begins at %d or ends at %d", from, from+window, part, c.first(), c.end())
					}
				}
				most, bytes = max(most, in.Nodes.store.held), max(bytes, in.Nodes.bytes)
				in.Release()
			}
		}
		// Up to four fetches of 1 MiB a partition are on their way when the bound is reached.
		if most > maxHeld*5/2 {
			t.Errorf("the replay holds %d records in %d bytes, want at most %d records", most, bytes, maxHeld*5/2)
		}
		h.send(t, 3, 10)
		in.Resume(CountOrLinger{Count: 30, Linger: time.Hour}, 0)
		for in.Nodes.store.held < 30 {
			if err := in.Nodes.Add(kafkatest.Receive(t, in.Nodes.Ready(), "a fetch of nodes is answered"), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
