package main

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// sentAt is a node or a label on its way, at a time in milliseconds since 1970.
type sentAt struct {
	at        int64
	node      *event.Node
	label     *event.Label
	partition int
}

// TestBacktest is the story of a worker with default flags that starts on months of nodes whose
// labels came thirty days late: it reads them as a worker that was there would have. No label
// enters before an older node, none is refused, and the scores are those of a run that is fed in
// the order of time and cut at the same places.
func TestBacktest(t *testing.T) { onKafka(t, testBacktest) }

func testBacktest(t *testing.T, sh *shell) {
	const nodes, every, late, partitions = 20_000, 5 * 60_000, 30 * 24 * 3_600_000, 3
	file := threeClasses(t)
	m, err := model.Open(file)
	must(t, err)
	sh.setenv("GVBLL_PREFIX", "backtest")
	sh.gvbll("topics", "--create", "--partitions", "3", "--brokers", sh.addr)
	g := sh.graph("backtest", m.Encoder.In())
	g.sent = nodes
	stream := g.backlog(every, late, partitions)
	stop := g.work("--model", file, "--linger", "100ms", "--commit-interval", "100ms")
	g.awaitLearned()
	stop()

	// The windows of the events, by what is in each, in the order of the ledger.
	type window struct {
		nodes, labels int
		events        []sentAt
	}
	var windows []window
	var config pipeline.Config
	var served ledger.Tally
	at := make(map[kafka.TopicPartition]map[int64]int) // offsets to windows
	must(t, ledger.Scan(t.Context(), g.client, g.names.LedgerAt(), func(r *ledger.Record) bool {
		if r.Configuration != "" {
			config, err = pipeline.ParseSettings(r.Configuration)
			must(t, err)
		}
		w := window{nodes: r.Predictions, labels: r.Labels}
		if r.Refused > 0 {
			t.Errorf("window %d refuses %v", r.Window, r.Reasons)
		}
		for _, x := range r.Ranges {
			place := kafka.TopicPartition{Topic: x.Topic, Partition: x.Partition}
			if at[place] == nil {
				at[place] = make(map[int64]int)
			}
			for o := x.From; o < x.To; o++ {
				at[place][o] = int(r.Window)
			}
		}
		if r.Scores != nil {
			served.Labels, served.Correct = served.Labels+r.Scores.Served.Labels, served.Correct+r.Scores.Served.Correct
		}
		windows = append(windows, w)
		return true
	}))
	newest := 0 // window of the nodes so far
	next := make(map[kafka.TopicPartition]int64)
	early := 0
	for _, e := range stream {
		place := kafka.TopicPartition{Topic: g.names.Nodes, Partition: int32(e.partition)}
		if e.label != nil {
			place.Topic = g.names.Labels
		}
		in := at[place][next[place]]
		next[place]++
		if e.node != nil {
			newest = max(newest, in)
		} else if in < newest {
			early++
		}
	}
	if early > 0 {
		t.Errorf("%d labels entered before an older node, want 0", early)
	}

	e, err := pipeline.New(m, config)
	must(t, err)
	for i := range windows {
		w := &windows[i]
		w.events, stream = stream[:w.nodes+w.labels], stream[w.nodes+w.labels:]
		slices.SortStableFunc(w.events, func(a, b sentAt) int { return cmp.Compare(a.partition, b.partition) })
		x := event.Window{Number: int64(i)}
		for _, s := range w.events {
			if s.node != nil {
				x.Nodes = append(x.Nodes, *s.node)
			} else {
				x.Labels = append(x.Labels, *s.label)
			}
		}
		if out := e.Step(&x); len(out.Predictions) != w.nodes || len(out.Labelled) != w.labels {
			t.Fatalf("window %d has %d nodes and %d labels in order of time, the ledger has %d and %d", i, len(out.Predictions), len(out.Labelled), w.nodes, w.labels)
		}
	}
	want, got := e.Summaries()[0].Total(), g.scores()
	if d := got.NLL - want.Means().NLL; math.Abs(d) > 1e-9 || want.Labels != nodes || served.Labels != nodes {
		t.Errorf("NLL %v of %d labels, and in order of time %v of %d", got.NLL, served.Labels, want.Means().NLL, want.Labels)
	}
	if last := g.lastRecord(); last.Chain != e.Chain().Hex() {
		t.Errorf("the ledger ends with chain %s, in order of time it is %s", last.Chain, e.Chain().Hex())
	}
}

// backlog sends the graph's nodes, one after the other, and their labels, each so much later, and
// returns both in the order of time. All of them are in the topics before any worker starts.
func (g *testGraph) backlog(every, late int64, partitions int) (stream []sentAt) {
	g.t.Helper()
	began := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	var nodes, labels []kafka.Record
	for i := range int64(g.sent) {
		n := &event.Node{ID: event.ID{Num: 1_000_000 + i}, Time: began + i*every, Origin: &event.Origin{}}
		l := &event.Label{Node: n.ID, Index: g.rng.Int32N(3), Time: n.Time + late, Origin: &event.Origin{}}
		for range g.dim {
			n.Dense = append(n.Dense, float32(g.rng.NormFloat64())+float32(l.Index))
		}
		for range min(i, 2) {
			n.Neighbours = append(n.Neighbours, event.ID{Num: 1_000_000 + g.rng.Int64N(i)})
		}
		key := wire.AppendKey(nil, n.ID)
		p := kafka.PartitionFor(key, partitions)
		nodes = append(nodes, kafka.Record{Topic: g.names.Nodes, Partition: p, Key: key, Value: wire.AppendNode(nil, n)})
		labels = append(labels, kafka.Record{Topic: g.names.Labels, Partition: p, Key: key, Value: wire.AppendLabel(nil, l)})
		stream = append(stream, sentAt{at: n.Time, node: n, partition: int(p)}, sentAt{at: l.Time, label: l, partition: int(p)})
	}
	p, err := g.client.NewProducer(g.t.Context(), kafka.ProducerConfig{})
	must(g.t, err)
	must(g.t, p.Send(g.t.Context(), labels))
	must(g.t, p.Send(g.t.Context(), nodes))
	slices.SortStableFunc(stream, func(a, b sentAt) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b2i(a.label != nil), b2i(b.label != nil)))
	})
	return stream
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lastRecord returns the newest record of the ledger.
func (g *testGraph) lastRecord() (last *ledger.Record) {
	g.t.Helper()
	must(g.t, ledger.Scan(g.t.Context(), g.client, g.names.LedgerAt(), func(r *ledger.Record) bool { last = r; return true }))
	return last
}
