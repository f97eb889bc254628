package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// AcceptGap begins an epoch behind windows of the ledger and records of the inputs that are gone, on
// the ledger's own terms: from the newest checkpoint in cfg, which must be of these terms. It writes
// a checkpoint of the new state, without which nothing goes on from there. Nothing is published
// again. Of an empty ledger, the epoch is its first record. If nothing is gone that is needed, it
// does nothing. It refuses while a worker is up, whose state may have what is gone, and where records
// of the inputs are gone without a checkpoint: a state of what is left since the beginning would
// have no known origin.
func AcceptGap(ctx context.Context, c *kafka.Client, e replay.Engine, cfg Config, why string) (Rebased, error) {
	if cfg.Checkpoints.Dir == "" {
		return Rebased{}, errors.New("a gap is accepted with a folder for checkpoints: give --state-dir")
	}
	err := checkNoWorker(ctx, c, &cfg, "end them first; one that serves or stands by has what is gone in its state, and "+
		"writes a checkpoint of it at its end")
	if err != nil {
		return Rebased{}, err
	}
	cfg.Rebase, cfg.acceptGap = true, true
	w, err := newWorker(ctx, c, e, cfg)
	if err != nil {
		return Rebased{}, err
	}
	return w.rebase(ctx, why)
}

// acceptGap makes this worker the owner, and prepares the epoch behind what is gone. If nothing is
// that is needed, there is no epoch, and perhaps no owner.
func (w *worker) acceptGap(ctx context.Context, checkpoint int64) (o *owner, err error) {
	var short *ledger.ShortError
	find := func() error {
		newest, err := ledger.Newest(ctx, w.client, w.cfg.Terms.Names.LedgerAt())
		if err != nil {
			return err
		}
		short = nil
		if err := w.replay.CheckWhole(ctx); err != nil && !errors.As(err, &short) {
			return err
		}
		if short != nil && o != nil {
			if err := w.replay.Restep(ctx, 0); err != nil {
				return err
			}
			w.begins = w.cfg.Terms.Beginning("the ledger lost its newest windows")
		}
		last := int64(-1) // of an empty ledger
		if newest != nil {
			last = newest.Window
		}
		w.noteGap(checkpoint, w.replay.Next()-last-1)
		return nil
	}
	if err := find(); err != nil || w.begins == nil && short == nil {
		return nil, err
	}
	if o, err = w.takeOver(ctx); err != nil {
		return nil, err
	}
	w.begins = nil // a transaction may have been committed since
	if err := find(); err != nil {
		return nil, err
	}
	return o, w.checkState()
}

// checkState returns an error if records are gone and no checkpoint was read.
func (w *worker) checkState() error {
	if front, tail := w.replay.Inputs.Gap(); w.saver.newest > 0 || len(front)+len(tail) == 0 {
		return nil
	}
	return fmt.Errorf("no checkpoint in %s is of ledger %s, this program's engine and these settings: copy one of "+
		"another worker there; without any, delete the ledger's topic and begin the graph again with 'gvbll work "+
		"--begin-again', which predicts every node that is left once more", w.cfg.Checkpoints.Dir, w.cfg.Terms.Names.Ledger)
}

// noteGap notes what is gone in the epoch that begins, if anything is: windows of the ledger, and
// records of the inputs.
func (w *worker) noteGap(checkpoint, windows int64) {
	gap := ledger.Gap{Windows: windows}
	gap.Front, gap.Tail = w.replay.Inputs.Gap()
	if passed := w.replay.Gap().Passed(); !gap.Some() && passed.Some() { // what was gone then is back
		gap = ledger.Gap{Front: passed.Front, Tail: passed.Tail, Again: true}
	}
	if !gap.Some() {
		return
	}
	if w.begins == nil {
		w.begins = w.cfg.Terms.Beginning("records of the inputs are gone")
	}
	w.begins.Gap, w.begins.Checkpoint = gap, checkpoint
}

// checkSaved returns an error if there is no checkpoint of the present state.
func checkSaved(newest int64, at *replay.Replayer) error {
	if newest == at.Next() {
		return nil
	}
	return fmt.Errorf("epoch %d has begun at window %d, and its checkpoint was not written (the log says why): nothing "+
		"goes on from there without one; give a --state-dir that can be written, and accept the gap once more",
		at.Last().Epoch, at.Next()-1)
}
