package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// A gap is records of the inputs that are gone and that no checkpoint has. An operator can
// accept it: the windows behind the newest checkpoint are stepped once more with what is left
// of them, and an epoch begins with that state. Its first record names the gap. As no replay
// gives this state again, later ones begin at a checkpoint of it, or of a later window.

// AcceptGap begins an epoch behind records of the inputs that are gone, on the ledger's own
// terms: from the newest checkpoint in cfg, which must be of these terms. It writes a checkpoint
// of the new state, without which nothing goes on from there. Nothing is published again. If
// nothing is gone that is needed, it does nothing. It refuses while a worker is up, whose state
// may have what is gone, and without a checkpoint: a state of what is left since the beginning
// would have no known origin.
func AcceptGap(ctx context.Context, c *kafka.Client, e Engine, cfg Config, why string) (Rebased, error) {
	if cfg.Checkpoints.Dir == "" {
		return Rebased{}, errors.New("a gap is accepted with a folder for checkpoints: give --state-dir")
	}
	members, err := c.Members(ctx, cfg.Terms.Names.Ledger, cfg.Terms.Names.Ledger)
	if err != nil {
		return Rebased{}, err
	}
	if len(members) > 0 {
		return Rebased{}, fmt.Errorf("%d workers of ledger %s are up: end them first; one that serves or stands by has what is gone in its state, and writes a checkpoint of it at its end", len(members), cfg.Terms.Names.Ledger)
	}
	cfg.Rebase = true
	w, err := newWorker(ctx, c, e, cfg)
	if err != nil {
		return Rebased{}, err
	}
	w.replay.acceptGap = true
	return w.rebase(ctx, why)
}

// checkState returns an error if a gap is to be accepted and no checkpoint was read.
func (w *worker) checkState() error {
	if !w.replay.acceptGap || w.replay.next > 0 {
		return nil
	}
	return fmt.Errorf("no checkpoint in %s is of ledger %s, this program's engine and these settings: copy one of another worker there; without any, delete the ledger's topic and begin the graph again with 'gvbll work --begin-again', which predicts every node that is left once more", w.cfg.Checkpoints.Dir, w.cfg.Terms.Names.Ledger)
}

// noteGap notes what is gone in the epoch that begins, if anything is.
func (w *worker) noteGap(checkpoint int64) {
	gap := w.replay.inputs.Gap()
	if len(gap) == 0 { // unless what was gone then is back
		gap = w.replay.passed
	}
	if len(gap) == 0 {
		return
	}
	if w.begins == nil {
		w.begins = &ledger.Beginning{Why: "records of the inputs are gone", Program: w.cfg.Terms.Program}
	}
	w.begins.Gap, w.begins.Checkpoint = gap, checkpoint
}

// checkSaved returns an error if there is no checkpoint of the present state.
func (w *worker) checkSaved() error {
	if w.saver.newest == w.replay.next {
		return nil
	}
	return fmt.Errorf("epoch %d has begun at window %d, and its checkpoint was not written (the log says why): nothing goes on from there without one; give a --state-dir that can be written, and accept the gap once more", w.replay.last.epoch, w.replay.next-1)
}

// checkGap checks a window before it is replayed: that no replay from before a gap goes on
// behind it, unless the gap is being accepted, and that what was forgotten can be.
func (p *replayer) checkGap(r *ledger.Record) error {
	switch {
	case !p.acceptGap && r.HasGap():
		return p.behindGap(r)
	case !p.acceptGap:
		return p.inputs.CheckBegins(r.Inputs)
	case r.Forgot != nil:
		return fmt.Errorf("ledger %s, window %d: nodes were forgotten, which needs a replay of the records that are gone: copy a checkpoint of window %d or a later one to --state-dir", p.cfg.Terms.Names.Ledger, r.Window, r.Window+1)
	}
	if r.HasGap() { // accepted before, and now from an earlier checkpoint
		p.lossy, p.passed = true, r.Begins.Gap
	}
	return nil
}

// behindGap returns the error of a replay that has no checkpoint behind a gap.
func (p *replayer) behindGap(r *ledger.Record) error {
	return fmt.Errorf("ledger %s: epoch %d begins at window %d behind a gap (%s): a replay needs a checkpoint of window %d or a later one; copy one of another worker to --state-dir, or accept the gap once more from an older one with 'gvbll rebase --accept-gap'", p.cfg.Terms.Names.Ledger, r.Epoch, r.Window, DescribeGap(r.Begins.Gap), r.Window+1)
}

// DescribeGap names the first ranges of a gap.
func DescribeGap(gap []ledger.Range) string {
	const most = 3
	var named []string
	for _, g := range gap[:min(len(gap), most)] {
		named = append(named, g.String())
	}
	if n := len(gap) - len(named); n > 0 {
		named = append(named, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(named, ", ")
}

// explainGone returns the error of behindGap in place of one that says that records are gone, if
// that is known already.
func (p *replayer) explainGone(ctx context.Context, err error) error {
	var outOfRange *kafka.OutOfRangeError
	var gone *intake.GoneError
	if p.acceptGap || !errors.As(err, &outOfRange) && !errors.As(err, &gone) {
		return err
	}
	gap, wrong := lastGap(ctx, p.client, p.cfg.Terms.ledgerAt())
	if wrong != nil || gap == nil || gap.Window < p.next {
		return err
	}
	return p.behindGap(gap)
}

// lastGap returns the last record of a ledger that begins an epoch behind a gap, nil if none
// does.
func lastGap(ctx context.Context, c *kafka.Client, at kafka.TopicPartition) (last *ledger.Record, err error) {
	err = ledger.Scan(ctx, c, at, func(r *ledger.Record) bool {
		if r.HasGap() {
			last = r
		}
		return true
	})
	return last, err
}
