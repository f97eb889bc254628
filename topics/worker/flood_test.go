package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// eventCounter is a tally that counts the events it receives.
type eventCounter struct {
	tally
	events int // refused ones included
	labels int // refused ones not included
}

func (e *eventCounter) Step(w *event.Window) *event.Outcome {
	e.events += len(w.Nodes) + len(w.Labels) + len(w.Refused)
	e.labels += len(w.Labels)
	return e.tally.Step(w)
}

// hostile returns a random value that is refused for the reason, and headers for it.
func hostile(rng *rand.Rand, reason event.Reason) (value []byte, headers []kafka.Header) {
	n := event.Node{ID: event.ID{Num: rng.Int64()}, Dense: []float32{1, 2}, Time: math.MaxInt64}
	switch reason {
	case event.Undecodable:
		level := [][]byte{{0xdd, 0xff, 0xff, 0xff, 0xff}, {0x91}, {0xc1}, {0x81, 0xa1, 'x'}, []byte(`{"id":`)}[rng.IntN(5)]
		if level[0] == '{' {
			headers = []kafka.Header{{Key: "Content-Type", Value: []byte("application/json")}, {Key: "trace"}}
		}
		return bytes.Repeat(level, 1+rng.IntN(5000)), headers
	case event.Empty:
		return []byte{}, nil
	case event.TooLarge:
		return make([]byte, maxValue+1+rng.IntN(600<<10)), nil
	case event.BadID:
		n.ID = event.ID{Str: strings.Repeat("a", 1025+rng.IntN(10_000))}
	case event.BadFeatures:
		n.Dense, n.Index, n.Value = nil, []uint32{5, 3}, []float32{1, 1}
	case event.NonFinite:
		n.Dense[1] = []float32{float32(math.NaN()), float32(math.Inf(-1))}[rng.IntN(2)]
	case event.HugeNumber:
		n.Dense[0] = 1e38
	case event.TooManyNeighbours:
		n.Neighbours = make([]event.ID, maxNeighbours+1)
	}
	return wire.AppendNode(nil, &n), nil
}

// Limits of the worker in TestFlood. They are low, so that a broker accepts records beyond
// them.
const (
	maxValue      = 64 << 10
	maxNeighbours = 1000
)

// TestFlood: the inputs have ten times as many bad records as good ones, in runs longer than
// a window, with nodes that arrive repeatedly and labels of unknown nodes. Every good node
// is still predicted once, and every refused record becomes a dead letter from which the
// record can be restored.
func TestFlood(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		reasons := []event.Reason{
			event.Undecodable, event.Empty, event.TooLarge, event.BadID, event.BadFeatures, event.NonFinite, event.HugeNumber, event.TooManyNeighbours,
		}
		rng := rand.New(rand.NewPCG(5, 6))
		p, err := f.Client.NewProducer(t.Context(), kafka.ProducerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		const good, bad, labels = 60, 600, 300
		want, sent := make(map[event.Reason]int), 0
		past := time.UnixMilli(1_000) // not the time at which the worker runs
		put := func(topic string, key, value []byte, headers []kafka.Header) {
			r := kafka.Record{Topic: topic, Partition: kafka.PartitionFor(key, 3), Key: key, Value: value, Headers: headers, Time: past}
			if err := p.Send(t.Context(), []kafka.Record{r}); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		for i := range good {
			for range bad / good {
				reason := reasons[rng.IntN(len(reasons))]
				value, headers := hostile(rng, reason)
				put(f.Names.Nodes, fmt.Appendf(nil, "%d", rng.IntN(100)), value, headers)
				want[reason]++
			}
			for range labels / good {
				id := event.ID{Num: -rng.Int64() - 1}
				put(f.Names.Labels, wire.AppendKey(nil, id), wire.AppendLabel(nil, &event.Label{Node: id, Class: "a", Time: math.MinInt64}), nil)
			}
			put(f.Names.Labels, nil, []byte{0x81, 0xa4, 'n', 'o', 'd', 'e', 1}, nil)
			want[event.UnknownClass]++
			// Earlier nodes arrive again, with other features and unknown neighbours.
			for j := range min(i, 3) {
				n := event.Node{ID: event.ID{Num: int64(rng.IntN(i))}, Dense: []float32{float32(i), 1e6}, Neighbours: []event.ID{{Num: rng.Int64()}, {Str: strings.Repeat("b", 1024-j)}}}
				put(f.Names.Nodes, wire.AppendKey(nil, n.ID), wire.AppendNode(nil, &n), nil)
			}
			n := event.Node{ID: event.ID{Num: int64(i)}, Dense: []float32{1, 2}}
			put(f.Names.Nodes, wire.AppendKey(nil, n.ID), wire.AppendNode(nil, &n), nil)
		}

		run := func() *eventCounter {
			e := &eventCounter{}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done := func() {
				if e.events >= sent {
					cancel()
				}
			}
			err := worker.Run(ctx, f.Client, e, f.Config(worker.Config{
				Policy: intake.CountOrLinger{Count: 10, Linger: 5 * time.Millisecond},
				Terms:  replay.Terms{Limits: wire.Limits{MaxValue: maxValue, MaxNeighbours: maxNeighbours}},
				Events: replay.Join(replay.On(func(replay.TookOver) { done() }), replay.On(func(replay.Committed) { done() })),
			}))
			if err != nil {
				t.Fatal(err)
			}
			if e.events != sent || e.labels != labels {
				t.Fatalf("the engine received %d events and %d labels, want %d and %d", e.events, e.labels, sent, labels)
			}
			return e
		}
		first := run()
		f.CheckOutputs(good, bad+good) // plus one label without a class for each good node
		checkDeadLetters(f, want)
		checkReasons(f, want)
		if replayed := run(); replayed.Chain != first.Chain {
			t.Errorf("a replay gives the chain %x, want %x", replayed.Chain, first.Chain)
		}
	})
}

// checkDeadLetters checks that every dead letter holds the record that it was made of, up to
// the limit on its value, and that the numbers of reasons are as given.
func checkDeadLetters(f *fixture, want map[event.Reason]int) {
	f.T.Helper()
	type place struct {
		topic     string
		partition int32
		offset    int64
	}
	records := make(map[place]kafka.Record)
	for _, topic := range []string{f.Names.Nodes, f.Names.Labels} {
		for _, r := range f.Read(topic) {
			records[place{r.Topic, r.Partition, r.Offset}] = r
		}
	}
	got := make(map[event.Reason]int)
	for _, dead := range f.Read(f.Names.DeadLetters) {
		var refusal event.Refusal
		err := wire.DecodeDeadLetter(dead.Value, &refusal)
		if err != nil && !errors.Is(err, wire.ErrTruncated) {
			f.T.Fatal(err)
		}
		got[refusal.Reason]++
		o := refusal.Origin
		r, ok := records[place{o.Topic, o.Partition, o.Offset}]
		if !ok {
			f.T.Errorf("a dead letter of %s partition %d offset %d: the record does not exist or has another dead letter", o.Topic, o.Partition, o.Offset)
			continue
		}
		if truncated, long := errors.Is(err, wire.ErrTruncated), len(r.Value) > wire.MaxDeadLetterValue; truncated != long {
			f.T.Errorf("the dead letter of a record of %d bytes: truncated is %t, want %t", len(r.Value), truncated, long)
		}
		r.Value = r.Value[:min(len(r.Value), wire.MaxDeadLetterValue)]
		same := o.Time == r.Time.UnixMilli() && bytes.Equal(o.Key, r.Key) && bytes.Equal(o.Value, r.Value) &&
			(o.Key == nil) == (r.Key == nil) && (o.Value == nil) == (r.Value == nil) && len(o.Headers) == len(r.Headers)
		for i, h := range o.Headers {
			same = same && i < len(r.Headers) && h.Key == r.Headers[i].Key && bytes.Equal(h.Value, r.Headers[i].Value)
		}
		if !same {
			f.T.Errorf("%s: the dead letter of %+.200v holds %+.200v", refusal.Reason, r, o)
		}
		delete(records, place{o.Topic, o.Partition, o.Offset})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.T.Errorf("dead letters by reason, -want +got\n%s", diff)
	}
}

// checkReasons checks that the ledger counts every refusal by its reason.
func checkReasons(f *fixture, want map[event.Reason]int) {
	f.T.Helper()
	got := make(map[event.Reason]int)
	for _, record := range f.Read(f.Names.Ledger) {
		r, err := ledger.Decode(record.Value)
		if err != nil {
			f.T.Fatal(err)
		}
		n := 0
		for reason, count := range r.Reasons {
			got[reason] += count
			n += count
		}
		if n != r.Refused {
			f.T.Errorf("window %d refused %d events, and has reasons for %d", r.Window, r.Refused, n)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.T.Errorf("the ledger's refusals by reason, -want +got\n%s", diff)
	}
}
