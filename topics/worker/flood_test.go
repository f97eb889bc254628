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
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// turnstile counts what comes to an engine, refused or not.
type turnstile struct {
	tally
	events int
	// labels are those that were not refused.
	labels int
}

func (e *turnstile) Step(w *event.Window) *event.Outcome {
	e.events += len(w.Nodes) + len(w.Labels) + len(w.Refused)
	e.labels += len(w.Labels)
	return e.tally.Step(w)
}

// hostile returns a record's value that is refused for the reason, a different
// one each time.
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

// The limits of the test's worker, below what a broker takes.
const (
	maxValue      = 64 << 10
	maxNeighbours = 1000
)

// TestFlood: ten times as much poison as events, whole windows of it in a row,
// nodes that come again and again, and labels that find nothing: every honest
// node is predicted once, and every refused record is a dead letter that says
// all that the record said.
func TestFlood(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		reasons := []event.Reason{
			event.Undecodable, event.Empty, event.TooLarge, event.BadID, event.BadFeatures, event.NonFinite, event.HugeNumber, event.TooManyNeighbours,
		}
		rng := rand.New(rand.NewPCG(5, 6))
		p, err := w.client.NewProducer(t.Context(), kafka.ProducerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		const honest, poison, labels = 60, 600, 300
		want, sent := make(map[event.Reason]int), 0
		long := time.UnixMilli(1_000) // a time of its own, long before the worker's
		put := func(topic string, key, value []byte, headers []kafka.Header) {
			r := kafka.Record{Topic: topic, Partition: kafka.PartitionFor(key, 3), Key: key, Value: value, Headers: headers, Time: long}
			if err := p.Send(t.Context(), []kafka.Record{r}); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		for i := range honest {
			for range poison / honest {
				reason := reasons[rng.IntN(len(reasons))]
				value, headers := hostile(rng, reason)
				put(w.names.Nodes, fmt.Appendf(nil, "%d", rng.IntN(100)), value, headers)
				want[reason]++
			}
			for range labels / honest {
				id := event.ID{Num: -rng.Int64() - 1}
				put(w.names.Labels, wire.AppendKey(nil, id), wire.AppendLabel(nil, &event.Label{Node: id, Class: "a", Time: math.MinInt64}), nil)
			}
			put(w.names.Labels, nil, []byte{0x81, 0xa4, 'n', 'o', 'd', 'e', 1}, nil)
			want[event.UnknownClass]++
			// Nodes of before come again, with other features and unknown neighbours.
			for j := range min(i, 3) {
				n := event.Node{ID: event.ID{Num: int64(rng.IntN(i))}, Dense: []float32{float32(i), 1e6}, Neighbours: []event.ID{{Num: rng.Int64()}, {Str: strings.Repeat("b", 1024-j)}}}
				put(w.names.Nodes, wire.AppendKey(nil, n.ID), wire.AppendNode(nil, &n), nil)
			}
			n := event.Node{ID: event.ID{Num: int64(i)}, Dense: []float32{1, 2}}
			put(w.names.Nodes, wire.AppendKey(nil, n.ID), wire.AppendNode(nil, &n), nil)
		}

		work := func() *turnstile {
			e := &turnstile{}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done := func() {
				if e.events >= sent {
					cancel()
				}
			}
			err := worker.Run(ctx, w.client, e, worker.Config{
				Names: w.names, Model: "tally", Settings: settings, Classes: []string{"a", "b"},
				Policy: intake.CountOrLinger{Count: 10, Linger: 5 * time.Millisecond},
				Limits: wire.Limits{MaxValue: maxValue, MaxNeighbours: maxNeighbours},
				Hooks:  worker.Hooks{TookOver: func(worker.TookOver) { done() }, Committed: func(worker.Committed) { done() }},
			})
			if err != nil {
				t.Fatal(err)
			}
			if e.events != sent || e.labels != labels {
				t.Fatalf("%d of %d events, %d of %d labels", e.events, sent, e.labels, labels)
			}
			return e
		}
		first := work()
		w.check(honest, poison+honest)
		w.isWhole(want)
		// What was poison is so in a replay, too.
		if second := work(); second.chain != first.chain {
			t.Error("a replay of the flood gives another state")
		}
	})
}

// isWhole holds the dead letters to the records that they were made of, and
// their reasons to what is wanted.
func (w *fixture) isWhole(want map[event.Reason]int) {
	w.t.Helper()
	type place struct {
		topic     string
		partition int32
		offset    int64
	}
	records := make(map[place]kafka.Record)
	for _, topic := range []string{w.names.Nodes, w.names.Labels} {
		for _, r := range w.read(topic) {
			records[place{r.Topic, r.Partition, r.Offset}] = r
		}
	}
	got := make(map[event.Reason]int)
	for _, dead := range w.read(w.names.DeadLetters) {
		var refusal event.Refusal
		err := wire.DecodeDeadLetter(dead.Value, &refusal)
		if err != nil && !errors.Is(err, wire.ErrTruncated) {
			w.t.Fatal(err)
		}
		got[refusal.Reason]++
		o := refusal.Origin
		r, ok := records[place{o.Topic, o.Partition, o.Offset}]
		if !ok {
			w.t.Errorf("a dead letter of no record: %s/%d:%d", o.Topic, o.Partition, o.Offset)
			continue
		}
		if errors.Is(err, wire.ErrTruncated) != (len(r.Value) > wire.MaxDeadLetterValue) {
			w.t.Errorf("a record of %d bytes: %v", len(r.Value), err)
		}
		r.Value = r.Value[:min(len(r.Value), wire.MaxDeadLetterValue)]
		same := o.Time == r.Time.UnixMilli() && bytes.Equal(o.Key, r.Key) && bytes.Equal(o.Value, r.Value) &&
			(o.Key == nil) == (r.Key == nil) && (o.Value == nil) == (r.Value == nil) && len(o.Headers) == len(r.Headers)
		for i, h := range o.Headers {
			same = same && i < len(r.Headers) && h.Key == r.Headers[i].Key && bytes.Equal(h.Value, r.Headers[i].Value)
		}
		if !same {
			w.t.Errorf("%s: a dead letter of %+.200v says %+.200v", refusal.Reason, r, o)
		}
		delete(records, place{o.Topic, o.Partition, o.Offset})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Error(diff)
	}
}
