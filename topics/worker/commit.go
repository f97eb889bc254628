package worker

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// maxBatch is how many bytes of values a transaction gathers before it is
// committed without waiting for the commit interval.
const maxBatch = 8 << 20

// maxKey is how much of a refused record's key is its dead letter's. The dead
// letter's value has more of it.
const maxKey = 1 << 10

// commitFor bounds a commit, all tries together. A commit goes to its end even
// when the worker is told to end meanwhile.
const commitFor = 30 * time.Second

// batch is what one transaction will hold: the output of one or more windows.
type batch struct {
	records []kafka.Record
	bytes   int
	offsets map[kafka.TopicPartition]int64
	windows int
	last    ledger.Record
	since   time.Time // when its first window was stepped
}

// add puts a window's output into the batch.
func (b *batch) add(w *worker, out *event.Outcome, cause string, ranges []ledger.Range) {
	if b.windows == 0 {
		b.since = time.Now()
		b.offsets = make(map[kafka.TopicPartition]int64)
	}
	b.windows++
	for i := range out.Predictions {
		p := &out.Predictions[i]
		b.put(w, w.cfg.Names.Predictions, wire.AppendKey(nil, p.Node), wire.AppendPrediction(nil, p))
	}
	for i := range out.Refused {
		r := &out.Refused[i]
		b.put(w, w.cfg.Names.DeadLetters, r.Origin.Key[:min(len(r.Origin.Key), maxKey)], wire.AppendDeadLetter(nil, r))
	}
	b.last = ledger.Record{
		Version: ledger.Version, Window: out.Window, Cause: cause, Ranges: ranges,
		Model: w.cfg.Model, Settings: w.cfg.Settings,
		Predictions: len(out.Predictions), Labels: len(out.Labelled), Refused: len(out.Refused),
		Updates: out.Heads[0].Version, Posterior: hash(out.Posterior), Chain: hash(out.Chain),
	}
	if out.Window == 0 {
		b.last.Classes = w.cfg.Classes
	}
	b.put(w, w.cfg.Names.Ledger, nil, b.last.Append(nil))
	for _, g := range ranges {
		b.offsets[kafka.TopicPartition{Topic: g.Topic, Partition: g.Partition}] = g.To
	}
}

func (b *batch) put(w *worker, topic string, key, value []byte) {
	r := kafka.Record{Topic: topic, Key: key, Value: value, Time: time.Now()}
	if n := w.outputs[topic]; n > 1 {
		r.Partition = kafka.PartitionFor(key, n)
	}
	b.records = append(b.records, r)
	b.bytes += len(key) + len(value)
}

func (b *batch) full() bool { return b.bytes >= maxBatch }

func hash(h event.Hash) string { return hex.EncodeToString(h[:]) }

// commit publishes the batch in one transaction. When the outcome of one
// cannot be known, the ledger is asked: it holds the batch's last window if and
// only if all of the batch was committed.
func (w *worker) commit(ctx context.Context) error {
	b := &w.batch
	if b.windows == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitFor)
	defer cancel()
	began := time.Now()
	tries := 1
	for ; ; tries++ {
		err := w.producer.Commit(ctx, b.records, w.cfg.Names.Ledger, b.offsets)
		if err == nil {
			break
		}
		if errors.Is(err, kafka.ErrFenced) {
			return fmt.Errorf("%w: %w", ErrOwned, err)
		}
		if !errors.Is(err, kafka.ErrUnknown) || ctx.Err() != nil {
			return err
		}
		w.cfg.Logger.Warn("the outcome of a commit is unknown, asking the ledger", "window", b.last.Window, "err", err)
		landed, err := w.landed(ctx)
		if err != nil {
			return err
		}
		if landed {
			break
		}
	}
	if w.cfg.Hooks.Committed != nil {
		w.cfg.Hooks.Committed(Committed{Last: b.last.Window, Windows: b.windows, Took: time.Since(began), Tries: tries})
	}
	if w.cfg.Hooks.Lag != nil {
		w.cfg.Hooks.Lag(w.nodes.topic, w.nodes.lag())
		w.cfg.Hooks.Lag(w.labels.topic, w.labels.lag())
	}
	*b = batch{records: b.records[:0]}
	return nil
}

// landed tells whether the ledger holds the batch. The producer is restarted
// first, which waits until no transaction of ours is open.
func (w *worker) landed(ctx context.Context) (landed bool, err error) {
	if err := w.producer.Restart(ctx); err != nil {
		return false, err
	}
	for {
		r, err := w.ledger.Next(ctx)
		if err != nil {
			return false, err
		}
		switch {
		case r == nil:
			return landed, nil
		case landed, r.Window == w.batch.last.Window && r.Chain != w.batch.last.Chain:
			return false, fmt.Errorf("%w: it wrote window %d of the ledger", ErrOwned, r.Window)
		case r.Window == w.batch.last.Window:
			landed = true
		}
	}
}
