package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// A gap is records of the inputs that are gone and that no checkpoint has. An operator can
// accept it: the windows behind the newest checkpoint are stepped once more with what is left
// of them, and an epoch begins with that state. Its first record names the gap. As no replay
// gives this state again, later ones begin at a checkpoint of it, or of a later window.

// checkGap checks a window before it is replayed: that no replay from before a gap goes on
// behind it, unless the gap is being accepted, and that what was forgotten can be. Windows that the
// ledger lost before it are stepped.
func (p *Replayer) checkGap(ctx context.Context, r *ledger.Record) error {
	switch {
	case !p.acceptGap && r.HasGap():
		return p.behindGap(r)
	case !p.acceptGap:
		return p.Inputs.CheckBegins(r.Inputs)
	case r.Forgot != nil:
		return fmt.Errorf("ledger %s, window %d: nodes were forgotten, which needs a replay of the records that are "+
			"gone: copy a checkpoint of window %d or a later one to --state-dir", p.cfg.Terms.Names.Ledger, r.Window, r.Window+1)
	}
	if r.HasGap() { // accepted before, and now from an earlier checkpoint
		p.lossy, p.passed = true, r.Begins.Gap
		if p.next < r.Window {
			return p.Restep(ctx, r.Window)
		}
	}
	return nil
}

// behindGap returns the error of a replay that has no checkpoint behind a gap.
func (p *Replayer) behindGap(r *ledger.Record) error {
	return fmt.Errorf("ledger %s: epoch %d begins at window %d behind a gap (%s): a replay needs a checkpoint of "+
		"window %d or a later one; copy one of another worker to --state-dir, or accept the gap once more from an "+
		"older one with 'gvbll rebase --accept-gap'", p.cfg.Terms.Names.Ledger, r.Epoch, r.Window, r.Begins.Describe(r.Window), r.Window+1)
}

// explainGone returns the error of behindGap in place of one that says that records are gone, if
// that is known already.
func (p *Replayer) explainGone(ctx context.Context, err error) error {
	var outOfRange *kafka.OutOfRangeError
	var gone *intake.GoneError
	if p.acceptGap || !errors.As(err, &outOfRange) && !errors.As(err, &gone) {
		return err
	}
	gap, wrong := LastGap(ctx, p.client, p.cfg.Terms.Names.LedgerAt())
	if wrong != nil || gap == nil || gap.Window < p.next {
		return err
	}
	return p.behindGap(gap)
}

// LastGap returns the last record of a ledger that begins an epoch behind a gap, nil if none
// does.
func LastGap(ctx context.Context, c *kafka.Client, at kafka.TopicPartition) (last *ledger.Record, err error) {
	err = ledger.Scan(ctx, c, at, func(r *ledger.Record) bool {
		if r.HasGap() {
			last = r
		}
		return true
	})
	return last, err
}
