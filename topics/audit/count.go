package audit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// What an audit checks without replaying, in windows before a gap: that no record is in two,
// and that as many predictions and dead letters were published as the ledger says.

// cuts are the records that windows took: of each partition, ascending and apart.
type cuts map[kafka.TopicPartition][]ledger.Range

// take adds a range, and reports false if it overlaps one that is there.
func (c cuts) take(g ledger.Range) bool {
	at := kafka.TopicPartition{Topic: g.Topic, Partition: g.Partition}
	list := c[at]
	i := sort.Search(len(list), func(i int) bool { return list[i].To > g.From })
	if i < len(list) && list[i].From < g.To {
		return false
	}
	switch joinsBefore, joinsNext := i > 0 && list[i-1].To == g.From, i < len(list) && list[i].From == g.To; {
	case joinsBefore && joinsNext:
		list[i-1].To = list[i].To
		list = slices.Delete(list, i, i+1)
	case joinsBefore:
		list[i-1].To = g.To
	case joinsNext:
		list[i].From = g.From
	default:
		list = slices.Insert(list, i, g)
	}
	c[at] = list
	return true
}

// forget takes out the ends of logs, whose offsets other records have now.
func (c cuts) forget(tails []ledger.Range) {
	for _, g := range tails {
		at := kafka.TopicPartition{Topic: g.Topic, Partition: g.Partition}
		list := c[at]
		for n := len(list); n > 0 && list[n-1].To > g.From; n = len(list) {
			if list[n-1].To = g.From; list[n-1].From >= g.From {
				list = list[:n-1]
			}
		}
		c[at] = list
	}
}

// passLost passes the predictions of windows that the ledger has lost before a record. Of their dead
// letters nothing says how many there are.
func (a *auditor) passLost(ctx context.Context, r *ledger.Record, e *Epoch) error {
	lost := r.Begins.Windows
	a.lost = a.lost || lost > 0
	for _, at := range append(a.outputs.Predictions(), a.outputs.toLabelAt()) {
		for {
			var p event.Prediction
			more, err := a.peekPrediction(ctx, at, &p)
			if err != nil {
				return err
			}
			if !more || p.Window < r.Window-lost || p.Window >= r.Window {
				break
			}
			if at != a.outputs.toLabelAt() {
				e.Unproved++
			}
			a.drop(at)
		}
	}
	return nil
}

// countBefore checks, without replaying them, the ledger's windows before the checkpoint that the
// audit began at, or all. Beside a checkpoint this is left out if the ledger or the outputs do
// not have their beginnings any more.
func (a *Result) countBefore(ctx context.Context, c *kafka.Client, cfg replay.Config, checkpoint bool, progress func(windows int64)) error {
	end := int64(math.MaxInt64)
	if checkpoint {
		end = a.First
		for _, topic := range []string{cfg.Terms.Names.Ledger, cfg.Terms.Names.Predictions, cfg.Terms.Names.DeadLetters} {
			bounds, err := c.Offsets(ctx, topic)
			if err != nil {
				return err
			}
			for _, b := range bounds {
				if b.First > 0 {
					return nil
				}
			}
		}
	}
	counting := newAuditor(replay.New(c, cfg, nil))
	var err error
	if counting.replay.Ledger, err = ledger.Open(ctx, c, cfg.Terms.LedgerAt()); err != nil {
		return err
	}
	if counting.outputs, err = OpenOutputs(ctx, c, cfg.Terms); err != nil {
		return err
	}
	taken := make(cuts)
	if err := counting.each(ctx, end, func(ctx context.Context, r *ledger.Record) error { return counting.count(ctx, r, taken) }, progress); err != nil {
		return err
	}
	a.prepend(&counting.audited)
	return counting.checkNothingElse(ctx)
}

// count checks one window.
func (a *auditor) count(ctx context.Context, r *ledger.Record, taken cuts) error {
	e := a.epoch(r)
	if r.HasGap() {
		taken.forget(r.Begins.Tail)
		if err := a.passLost(ctx, r, e); err != nil {
			return err
		}
	}
	for _, g := range r.Ranges {
		if !taken.take(g) {
			return fmt.Errorf("ledger %s, window %d: of %v, records are in an earlier window too", a.cfg.Terms.Names.Ledger, r.Window, g)
		}
	}
	e.Windows++
	e.Counted++
	a.audited.Counted++
	a.audited.Windows, a.audited.Chain = r.Window+1, r.Chain
	if err := a.checkLetters(ctx, r); err != nil {
		return err
	}
	return a.checkPredictions(ctx, r, nil, e)
}

// prepend takes over what was counted in the windows before.
func (a *Result) prepend(before *Result) {
	a.Counted = before.Counted
	if len(a.Epochs) == 0 {
		a.Windows, a.Chain = before.Windows, before.Chain
	}
	list := before.Epochs
	for i, e := range a.Epochs {
		if last := len(list) - 1; i == 0 && last >= 0 && list[last].Number == e.Number {
			b := list[last]
			b.Windows, b.Proved, b.Checked = b.Windows+e.Windows, e.Proved, b.Checked+e.Checked
			b.Predictions, b.DeadLetters, b.Unproved = e.Predictions, e.DeadLetters, b.Unproved+e.Unproved
			e, list = b, list[:last]
		}
		list = append(list, e)
	}
	a.Epochs = list
}
