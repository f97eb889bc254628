package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// published is the content of a graph's output topics and ledger.
type published struct {
	predictions map[predictionKey][]byte // values
	windows     []window                 // of the ledger, without those that note attempts
	attempts    []attempt                // to forget nodes, which the ledger notes
	dead        []string                 // dead letters: "topic/partition/offset reason", sorted
	lost        int                      // nodes that were not predicted
	twice       int                      // predictions and dead letters that were published twice
	faults      []string                 // lost and duplicate records, described
}

// predictionKey identifies a prediction. Only one may be published with each key.
type predictionKey struct {
	node     event.ID
	model    string
	revision int32
}

// window is the part of a ledger record that does not depend on how the workers were
// disturbed.
type window struct {
	posterior           string
	predictions, labels int
	shadow              ledger.Shadow
	model, promoted     string
}

// attempt is a window that notes an attempt to forget nodes.
type attempt struct {
	window int64 // its number
	nth    int   // 1 for the first attempt of a command
}

// endTransactions ends transactions that killed workers left open, by starting a new
// session of their producers. No worker may be running.
func (g *graph) endTransactions(ctx context.Context) {
	need(g.setup.Client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: g.names.Ledger, TransactionTimeout: 10 * time.Second}))
}

// read reads what was published, and records which of the wanted nodes were not predicted
// exactly once.
func (g *graph) read(ctx context.Context, want []event.ID) *published {
	c := &published{predictions: make(map[predictionKey][]byte)}
	g.endTransactions(ctx)
	first := make(map[event.ID]bool) // nodes that have a first prediction, not a revision
	g.eachPrediction(ctx, func(r *kgo.Record, p *event.Prediction) {
		id := predictionKey{p.Node, p.Model, p.Revision}
		if _, there := c.predictions[id]; there || p.Revision == 0 && first[p.Node] {
			c.twice++
			c.faults = append(c.faults, fmt.Sprintf("node %v was predicted twice", p.Node))
		}
		c.predictions[id] = bytes.Clone(r.Value)
		if p.Revision == 0 {
			first[p.Node] = true
		}
	})
	for _, id := range want {
		if !first[id] {
			c.lost++
			c.faults = append(c.faults, fmt.Sprintf("node %v was not predicted", id))
		}
	}
	g.eachLetter(ctx, func(d *event.Refusal) {
		topic := strings.TrimPrefix(d.Origin.Topic, g.prefix)
		c.dead = append(c.dead, fmt.Sprintf("%s/%d/%d %s", topic, d.Origin.Partition, d.Origin.Offset, d.Reason))
	})
	slices.Sort(c.dead)
	if n := len(c.dead); len(slices.Compact(slices.Clone(c.dead))) < n {
		c.twice++
		c.faults = append(c.faults, "a record was refused twice")
	}
	if g.setup.Bases != "" { // what is left of the ledger depends on the kills
		return c
	}
	l := need(ledger.Open(ctx, g.setup.Client, g.names.LedgerAt()))
	var before *ledger.Record
	for r := need(l.Next(ctx)); r != nil; before, r = r, need(l.Next(ctx)) {
		must(c.addWindow(r, before))
	}
	return c
}

// count returns how often each node was predicted, without revisions, and how many dead letters there are of
// each reason. No worker may be running.
func (g *graph) count(ctx context.Context) (predicted map[event.ID]int, dead map[event.Reason]int) {
	g.endTransactions(ctx)
	predicted, dead = make(map[event.ID]int), make(map[event.Reason]int)
	g.eachPrediction(ctx, func(_ *kgo.Record, p *event.Prediction) {
		if p.Revision == 0 {
			predicted[p.Node]++
		}
	})
	g.eachLetter(ctx, func(d *event.Refusal) { dead[d.Reason]++ })
	return predicted, dead
}

// unharmed checks that each of these nodes, and no other, was predicted exactly once, and that there are so many dead
// letters of each reason. No worker may be running.
func (g *graph) unharmed(ctx context.Context, nodes []event.ID, letters map[event.Reason]int) {
	predicted, dead := g.count(ctx)
	for _, id := range nodes {
		if n := predicted[id]; n != 1 {
			fail("node %v was predicted %d times", id, n)
		}
	}
	switch {
	case len(predicted) > len(nodes):
		fail("%d nodes were predicted, want %d", len(predicted), len(nodes))
	case !maps.Equal(dead, letters):
		fail("dead letters %v, want %v", dead, letters)
	}
}

// eachWait calls f for each first prediction of a node, with the time at which the node was first sent and the one from then
// to the writing of the prediction, by the records' timestamps.
func (g *graph) eachWait(ctx context.Context, f func(node event.ID, sent time.Time, waited time.Duration)) {
	sent := make(map[int32]map[string]time.Time) // by partition and key
	g.readAll(ctx, g.names.Nodes, func(r *kgo.Record) {
		if sent[r.Partition] == nil {
			sent[r.Partition] = make(map[string]time.Time)
		}
		if _, again := sent[r.Partition][string(r.Key)]; !again {
			sent[r.Partition][string(r.Key)] = r.Timestamp
		}
	})
	g.eachPrediction(ctx, func(r *kgo.Record, p *event.Prediction) {
		if at, there := sent[r.Partition][string(r.Key)]; there && p.Revision == 0 {
			f(p.Node, at, r.Timestamp.Sub(at))
		}
	})
}

// eachPrediction calls f with every prediction, revisions included. What f keeps of it, it has to copy.
func (g *graph) eachPrediction(ctx context.Context, f func(*kgo.Record, *event.Prediction)) {
	g.readAll(ctx, g.names.Predictions, func(r *kgo.Record) {
		var p event.Prediction
		must(wire.DecodePrediction(r.Value, &p))
		f(r, &p)
	})
}

// eachLetter calls f with every dead letter, also with those that are shortened.
func (g *graph) eachLetter(ctx context.Context, f func(*event.Refusal)) {
	g.readAll(ctx, g.names.DeadLetters, func(r *kgo.Record) {
		var d event.Refusal
		if err := wire.DecodeDeadLetter(r.Value, &d); !errors.Is(err, wire.ErrTruncated) {
			must(err)
		}
		f(&d)
	})
}

// readAll calls f with every committed record that a topic has now. It reads with a client that
// shares nothing with gvbll's own.
func (g *graph) readAll(ctx context.Context, topic string, f func(*kgo.Record)) {
	bounds := need(g.setup.Client.Offsets(ctx, topic))
	from, left := make(map[int32]kgo.Offset), make(map[int32]bool)
	for at, b := range bounds {
		if b.First < b.End {
			from[at.Partition], left[at.Partition] = kgo.NewOffset().At(b.First), true
		}
	}
	c := g.setup.client(kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // the last record of a partition may be one
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	defer c.Close()
	for len(left) > 0 {
		fetches := c.PollFetches(ctx)
		must(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if end := bounds[kafka.TopicPartition{Topic: topic, Partition: r.Partition}].End; r.Offset >= end-1 {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				f(r)
			}
		})
	}
}

// addWindow adds a window of the ledger; before is the one before it. It is an error if a
// window that notes an attempt does anything else. With --learn-lag, labels of windows before
// may be learned in it.
func (c *published) addWindow(r, before *ledger.Record) error {
	if r.Attempt > 0 {
		c.attempts = append(c.attempts, attempt{r.Window, r.Attempt})
		if len(r.Ranges)+r.Predictions+r.Revisions+r.Labels+r.Refused > 0 || before == nil ||
			r.Updates == before.Updates && r.Posterior != before.Posterior || r.Attempt != before.Attempt+1 {
			return fmt.Errorf("window %d notes attempt %d to forget nodes, and is not one that changes nothing, "+
				"behind attempt %d", r.Window, r.Attempt, r.Attempt-1)
		}
		return nil
	}
	if before != nil && before.Attempt > 0 && r.Forgot == nil {
		return fmt.Errorf("window %d forgets no nodes, and the one before it notes an attempt to do so", r.Window)
	}
	w := window{posterior: r.Posterior, predictions: r.Predictions, labels: r.Labels, model: r.Model, promoted: r.Promoted}
	if r.Shadow != nil {
		w.shadow = *r.Shadow
		w.shadow.Chain = "" // it depends on the offsets of poisoned records
	}
	c.windows = append(c.windows, w)
	return nil
}

// retried returns the number of attempts to forget nodes that were not the first.
func (c *published) retried() (n int) {
	for _, a := range c.attempts {
		if a.nth > 1 {
			n++
		}
	}
	return n
}

// withoutRetries returns a prediction as it would be if every attempt to forget nodes had
// been the first: the number of its window counts no window that notes a later one. No other
// byte of it changes.
func (c *published) withoutRetries(value []byte) ([]byte, error) {
	var p event.Prediction
	must(wire.DecodePrediction(value, &p))
	if !bytes.Equal(wire.MsgPack.AppendPrediction(nil, &p), value) {
		return nil, fmt.Errorf("the prediction of node %v is not the encoding of what it decodes to", p.Node)
	}
	number := p.Window
	for _, a := range c.attempts {
		if a.nth > 1 && a.window < p.Window {
			number--
		}
	}
	p.Window = number
	return wire.MsgPack.AppendPrediction(nil, &p), nil
}
