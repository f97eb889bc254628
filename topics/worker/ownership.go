package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// join enters the election of the graph's owner: the members of the group on
// the ledger elect the one that gets its partition.
func (w *worker) join() (err error) {
	w.member, err = w.client.Join(kafka.MembershipConfig{
		Group: w.cfg.Names.Ledger, Topic: w.cfg.Names.Ledger, Session: w.cfg.Session,
		Standing: func() (bool, int64) { return w.owner.Load(), w.stood.Load() },
	})
	return err
}

// stand follows the ledger, stepping the windows that the owner has committed,
// until this worker is elected and stands at the ledger's end.
func (w *worker) stand(ctx context.Context) error {
	began, first := time.Now(), w.next
	recovered, elected := false, false
	for {
		select {
		case e := <-w.member.Elected():
			if e.Err != nil {
				return e.Err
			}
			elected = e.Owner
			if !elected {
				w.cfg.Logger.Info("standing by: another worker owns this graph")
			}
		default:
		}
		r, err := w.ledger.Next(ctx)
		if err == nil && r == nil {
			if !recovered {
				recovered = true
				w.recovered(first, began)
			}
			if elected {
				return w.takeOver(ctx)
			}
			r, err = w.ledger.Wait(ctx)
		}
		if err != nil {
			return err
		}
		if err := w.follow(ctx, r); err != nil {
			return err
		}
	}
}

// follow steps a window of the ledger; of none, it waits for no longer than
// that takes.
func (w *worker) follow(ctx context.Context, r *ledger.Record) error {
	if r != nil {
		began := time.Now()
		out, err := w.replay(ctx, r)
		if err != nil {
			return err
		}
		w.stepped(Stepped{Outcome: out, Cause: r.Cause, Replayed: true, Took: time.Since(began)})
		w.inputs.Release()
		w.landed = committed{r.Window, w.ledger.Last()}
	}
	return w.saver.between(w)
}

// takeOver makes this worker the owner. It fences the former one first, so that the
// ledger, read to its end after that, ends with what that one committed.
func (w *worker) takeOver(ctx context.Context) (err error) {
	began := time.Now()
	crash.Point(crash.BeforeFence)
	w.producer, err = w.client.NewProducer(ctx, kafka.ProducerConfig{
		TransactionalID:    w.cfg.Names.Ledger,
		TransactionTimeout: w.cfg.TransactionTimeout,
		Compression:        w.cfg.Compression,
	})
	if err != nil {
		return err
	}
	crash.Point(crash.AfterFence)
	w.owner.Store(true)
	for {
		r, err := w.ledger.Next(ctx)
		if err != nil {
			return err
		}
		if r == nil {
			break
		}
		if err := w.follow(ctx, r); err != nil {
			return err
		}
	}
	if err := w.own(); err != nil {
		return err
	}
	crash.Point(crash.Recovered)
	w.cfg.Logger.Info("serving: this worker owns the graph now", "windows", w.next, "took", time.Since(began).Round(time.Millisecond))
	if w.cfg.Hooks.TookOver != nil {
		w.cfg.Hooks.TookOver(TookOver{Windows: w.next, Took: time.Since(began)})
	}
	return nil
}

func (w *worker) recovered(first int64, began time.Time) {
	if w.next > 0 {
		w.cfg.Logger.Info("recovered", "checkpoint", first, "windows", w.next, "took", time.Since(began).Round(time.Millisecond))
	}
	if w.cfg.Hooks.Recovered != nil {
		w.cfg.Hooks.Recovered(Recovered{Engine: w.engine, Windows: w.next, Checkpoint: first, Took: time.Since(began)})
	}
}

// replay steps a window of the ledger again and compares hashes. Its records are
// held until they are released.
func (w *worker) replay(ctx context.Context, r *ledger.Record) (*event.Outcome, error) {
	if err := w.belongs(r); err != nil {
		return nil, err
	}
	if err := w.cast(r); err != nil {
		return nil, err
	}
	w.torn = true
	if err := w.inputs.Replay(ctx, r.Ranges); err != nil {
		return nil, fmt.Errorf("ledger %s, window %d: %w", w.cfg.Names.Ledger, r.Window, err)
	}
	if err := w.forget(ctx, r); err != nil {
		return nil, err
	}
	out := w.step()
	w.torn = false
	w.stands = standingOf(r)
	if w.next < w.rewound { // it was served with nodes that are left out here
		return out, nil
	}
	return out, w.agree(r, out)
}

// belongs holds a record's settings to ours.
func (w *worker) belongs(r *ledger.Record) error {
	if r.Settings != w.cfg.Settings {
		return fmt.Errorf("ledger %s was written with settings %q, and these are %q: use the same, or start under another --prefix", w.cfg.Names.Ledger, r.Settings, w.cfg.Settings)
	}
	return nil
}
