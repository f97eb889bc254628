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

// Gap is what a replay knows of records that are gone.
type Gap struct {
	accepted bool
	// lossy is true once records or windows were passed that are gone. The state is then not the one
	// that the ledger has the hash of, until an epoch begins with it. Only a replay that accepts a
	// gap gets so far.
	lossy  bool
	passed ledger.Gap
}

// Accept lets the replay pass where records are gone. It is called before the replayer is opened.
func (g *Gap) Accept() { g.accepted = true }

// Accepts reports whether the replay passes where records are gone.
func (g *Gap) Accepts() bool { return g.accepted }

// Passed returns the gap that was accepted before, if this replay has passed it.
func (g *Gap) Passed() ledger.Gap { return g.passed }

// checkGap checks a window before it is replayed: that no replay from before a gap goes on
// behind it, unless the gap is being accepted, and that what was forgotten can be. Windows that the
// ledger lost before it are stepped.
func (p *Replayer) checkGap(ctx context.Context, r *ledger.Record) error {
	switch {
	case !p.gap.accepted && r.HasGap():
		return behindGap(p.cfg.Terms.Names.Ledger, r)
	case !p.gap.accepted:
		return p.Inputs.CheckBegins(r.Inputs)
	case r.Forgot != nil:
		return fmt.Errorf("ledger %s, window %d: nodes were forgotten, which needs a replay of the records that are "+
			"gone: copy a checkpoint of window %d or a later one to --state-dir", p.cfg.Terms.Names.Ledger, r.Window, r.Window+1)
	}
	if r.HasGap() { // accepted before, and now from an earlier checkpoint
		p.gap.lossy, p.gap.passed = true, r.Begins.Gap
		if p.next < r.Window {
			return p.Restep(ctx, r.Window)
		}
	}
	return nil
}

// behindGap returns the error of a replay that has no checkpoint behind a gap.
func behindGap(name string, r *ledger.Record) error {
	return fmt.Errorf("ledger %s: epoch %d begins at window %d behind a gap (%s): a replay needs a checkpoint of "+
		"window %d or a later one; copy one of another worker to --state-dir, or accept the gap once more from an "+
		"older one with 'gvbll rebase --accept-gap'", name, r.Epoch, r.Window, r.Begins.Describe(r.Window), r.Window+1)
}

// explainGone returns the error of behindGap in place of one that says that records are gone, if
// that is known already.
func (p *Replayer) explainGone(ctx context.Context, err error) error {
	var outOfRange *kafka.OutOfRangeError
	var gone *intake.GoneError
	if p.gap.accepted || !errors.As(err, &outOfRange) && !errors.As(err, &gone) {
		return err
	}
	gap, wrong := LastGap(ctx, p.client, p.cfg.Terms.Names.LedgerAt())
	if wrong != nil || gap == nil || gap.Window < p.next {
		return err
	}
	return behindGap(p.cfg.Terms.Names.Ledger, gap)
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
