package replay

import (
	"context"
	"fmt"
	"math"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
)

// Windows calls visit with every window before the given one that the ledger has now, in
// order: with the events that an engine would step that never saw the nodes forgotten since.
// The window is valid during the call. A label by index has the name that the index had in
// the label's epoch; it is -1 if that had no such class. Windows needs the ledger and the inputs from their
// beginning; it writes nothing, and can run beside a worker. Of cfg it uses the names and
// the limits.
func Windows(ctx context.Context, c *kafka.Client, cfg Config, before int64, visit func(*event.Window) error) (err error) {
	p := New(c, cfg, nil)
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	if err := p.OpenFirst(ctx, fetching, math.MaxInt64); err != nil {
		return err
	}
	for p.next < before {
		r, err := p.Ledger.Next(ctx)
		if err != nil || r == nil {
			return err
		}
		if r.Classes != nil {
			p.classes.epoch = r.Classes
		}
		if err := p.replay(ctx, r); err != nil {
			return fmt.Errorf("ledger %s, window %d: %w", p.cfg.Terms.Names.Ledger, r.Window, err)
		}
		if err := visit(p.gather()); err != nil {
			return err
		}
		p.next++
		p.Inputs.Release()
	}
	return nil
}
