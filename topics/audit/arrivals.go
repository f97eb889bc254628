package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// What an audit checks without an engine, in windows of other terms: that each arrival has
// one prediction or one dead letter, and nothing else has.

// place is where a record of an input is.
type place struct {
	topic     string
	partition int32
	offset    int64
}

func placeOf(o *event.Origin) place { return place{o.Topic, o.Partition, o.Offset} }

// arrivals knows which nodes are in the graph: a node event is an arrival if it names no
// node that is.
type arrivals struct {
	nodes map[event.ID]bool // nil if it is not known which they are, as after a checkpoint
}

// take takes note of a window's node events, except those that were refused, and
// returns the nodes that arrive: true if they are to be predicted. forgot says that the
// window's commands were obeyed. If it is not known which nodes are in the graph, every
// node that the window names counts as an arrival.
func (c arrivals) take(w *event.Window, refused map[place]bool, forgot bool) map[event.ID]bool {
	arrivals := make(map[event.ID]bool)
	if forgot {
		for i := range w.Commands {
			for _, id := range w.Commands[i].Nodes {
				delete(c.nodes, id)
			}
		}
	}
	leave := func(id event.ID) {
		delete(c.nodes, id)
		delete(arrivals, id)
	}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		switch {
		case n.Departed && c.nodes == nil: // it may come again
		case n.Departed:
			leave(n.ID)
			if n.ByKey && n.ID.Str == "" {
				leave(event.ID{Str: n.ID.String()})
			}
		case n.OnlyAsks() || c.nodes[n.ID] || refused[placeOf(n.Origin)]:
		default:
			id := n.ID.Clone()
			if c.nodes != nil {
				c.nodes[id] = true
			}
			arrivals[id] = !n.Context
		}
	}
	return arrivals
}

// checkAsked reads the nodes to be labelled of a window, and checks that they are as many as the
// ledger says.
func (a *auditor) checkAsked(ctx context.Context, r *ledger.Record) error {
	for n := 0; ; n++ {
		var p event.Prediction
		switch more, err := a.peekPrediction(ctx, a.outputs.toLabelAt(), &p); {
		case err != nil:
			return err
		case more && p.Window == r.Window:
			a.drop(a.outputs.toLabelAt())
		case more && p.Window < r.Window || n != r.Asked():
			return fmt.Errorf("window %d has %d nodes to be labelled in %s, and the ledger says %d", r.Window, n,
				a.outputs.toLabel, r.Asked())
		default:
			return nil
		}
	}
}

// checkPredictions reads the published predictions of a window, and checks that they are of
// its arrivals, of each once, and as many as the ledger says. Of arrivals that are nil it is not
// known which they are.
func (a *auditor) checkPredictions(ctx context.Context, r *ledger.Record, arrivals map[event.ID]bool, e *epoch) error {
	predictions, revisions := 0, 0
	for _, at := range a.outputs.predictionsAt() {
		for {
			var p event.Prediction
			more, err := a.peekPrediction(ctx, at, &p)
			if err != nil {
				return err
			}
			if !more || p.Window > r.Window {
				break
			}
			wrong := ""
			predict, there := arrivals[p.Node]
			switch {
			case p.Window < r.Window:
				wrong = fmt.Sprintf("of window %d, which has no such prediction", p.Window)
			case p.Model != "" && p.Model != r.Model:
				wrong = fmt.Sprintf("of model %.40q, and model %s served", p.Model, r.Model)
			case p.Revision > 0:
				revisions++
			case arrivals == nil:
				predictions++
			case !there || !predict:
				wrong = "no arrival of this window that has no prediction yet"
			default:
				arrivals[p.Node] = false
				predictions++
			}
			if wrong != "" {
				return fmt.Errorf("%s partition %d offset %d, node %.80q: in window %d, %s", at.Topic, at.Partition,
					a.outputs.waiting[at][0].Offset, p.Node.String(), r.Window, wrong)
			}
			a.drop(at)
		}
	}
	if predictions != r.Predictions || revisions != r.Revisions {
		return fmt.Errorf("window %d has %d predictions and %d revisions, and the ledger says %d and %d", r.Window,
			predictions, revisions, r.Predictions, r.Revisions)
	}
	if err := a.checkAsked(ctx, r); err != nil {
		return err
	}
	e.Checked += int64(predictions + revisions)
	if a.present.nodes == nil || a.lost {
		return nil
	}
	for id, missing := range arrivals {
		if missing {
			return fmt.Errorf("window %d: node %.80q arrived, and has neither a prediction nor a dead letter", r.Window, id.String())
		}
	}
	return nil
}

// peekPrediction decodes the next published prediction of a partition, and leaves it there.
func (a *auditor) peekPrediction(ctx context.Context, at kafka.TopicPartition, p *event.Prediction) (more bool, err error) {
	r, err := a.next(ctx, at, nil)
	if r == nil || err != nil {
		return false, err
	}
	if err := wire.DecodePrediction(r.Value, p); err != nil {
		return false, fmt.Errorf("%s partition %d offset %d: %w", at.Topic, at.Partition, r.Offset, err)
	}
	return true, nil
}

// checkLetters reads the dead letters of a window: as many as the ledger says. They do not
// say which window they are of, so they can be counted only if the topic has one
// partition, as gvbll creates it, and the audit began with the first window.
func (a *auditor) checkLetters(ctx context.Context, r *ledger.Record) error {
	clear(a.refused)
	at := a.cfg.Terms.Names.At(a.cfg.Terms.Names.DeadLetters)
	if a.outputs.partitions[at.Topic] != 1 || a.lost || a.audited.First > 0 && !a.found[at] {
		a.lost = a.lost || r.Refused > 0
		clear(a.found)
		return nil
	}
	for n := range r.Refused {
		for len(a.outputs.waiting[at]) == 0 {
			if more, err := a.outputs.fetch(ctx, at); err != nil {
				return err
			} else if !more {
				return fmt.Errorf("window %d has %d dead letters, and the ledger says %d", r.Window, n, r.Refused)
			}
		}
		letter := &a.outputs.waiting[at][0]
		var d event.Refusal
		if err := wire.DecodeDeadLetter(letter.Value, &d); err != nil && !errors.Is(err, wire.ErrTruncated) {
			return fmt.Errorf("%s partition %d offset %d: %w", at.Topic, at.Partition, letter.Offset, err)
		}
		a.refused[placeOf(d.Origin)] = true
		a.drop(at)
	}
	return nil
}
