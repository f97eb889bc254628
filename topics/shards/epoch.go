package shards

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/shards/cuts"
	"github.com/gvbll/gvbll/topics/shards/exchange"
)

// A sharded graph begins an epoch with a cut without records. The sequencer writes it when every shard
// has committed all windows before, so that nobody needs anything of the epoch before any more.
// Each task that reads this cut ends, and is begun again with an empty engine. It steps all
// windows before the cut once more, now without the nodes that were forgotten, and exchanges
// their parts, rows and heads anew: these carry the hash of the cut. Of these windows nothing is
// published. The window of the cut is the first that the shards commit, and then they go on.
//
// A shard whose ledger has no window of the epoch is in this replay: whoever owns it sends. Once
// the ledger has one, all that the shard sent before it is acknowledged, and to replay the epoch
// is a matter of reading, as it is in the first one.

// run is one execution of a sharded graph's windows, from the first on: that of an epoch. The
// zero value is the first, before a window was cut.
type run struct {
	epoch    int64
	since    int64   // window that began the epoch
	began    string  // hash of the cut that began it, empty before window 0
	exchange []int64 // where each partition of the exchange ended then, nil for its beginning
}

// runAt returns the run that a task was in at a place.
func runAt(p cuts.Place) run { return run{epoch: p.Epoch, since: p.Since, began: p.Began} }

// position returns where a task begins to read the exchange.
func (r *run) position(task int) (p exchange.Position) {
	if task < len(r.exchange) {
		p.Own, p.All = r.exchange[task], r.exchange[len(r.exchange)-1]
	}
	return p
}

// epochError says that an epoch has begun, so that a task must begin again.
type epochError struct{ epoch, window int64 }

func (e *epochError) Error() string {
	return fmt.Sprintf("epoch %d began at window %d", e.epoch, e.window)
}

// check returns an [epochError] if a cut begins an epoch behind this one.
func (r *run) check(c *cuts.Cut) error {
	if c.Epoch > r.epoch {
		return &epochError{c.Epoch, c.Since}
	}
	return nil
}

// readSince returns in which window the newest epoch began: no older checkpoint can be used.
func readSince(ctx context.Context, client *kafka.Client, n topics.Names) (int64, error) {
	c, err := cuts.NewestCut(ctx, client, n.LedgerAt(0))
	if c == nil {
		return 0, err
	}
	return c.Since, err
}

// readRun returns the newest run that the cuts say.
func readRun(ctx context.Context, client *kafka.Client, n topics.Names) (r run, err error) {
	cuts, err := cuts.OpenCuts(ctx, client, n.LedgerAt(0), cuts.Place{})
	if err != nil {
		return r, err
	}
	for {
		c, err := cuts.Next(ctx)
		if c == nil || err != nil {
			return r, err
		}
		if c.Begins != nil {
			r = run{epoch: c.Epoch, since: c.Window, began: c.Hash, exchange: c.Exchange}
		}
	}
}

// isJoint reports whether the shards replay the windows before the sequencer's run, or are to.
func (l *sequencer) isJoint(ctx context.Context) (bool, error) {
	for task := 1; task <= l.sharded.shards; task++ {
		r, err := ledger.Newest(ctx, l.client, l.cfg.Terms.Names.LedgerAt(task))
		if err != nil || r != nil && r.Epoch < l.epoch.epoch {
			return true, err
		}
	}
	return false, nil
}

// readForgotten is [replay.Replayer.ReadExclusions] of a sharded graph.
func readForgotten(ctx context.Context, p *replay.Replayer, before int64) (x replay.Exclusions, err error) {
	if before == 0 {
		return x, nil
	}
	cuts, err := cuts.OpenRecords(ctx, p.Client, p.Cfg.Terms.Names.LedgerAt(0))
	if err != nil {
		return x, err
	}
	return p.Exclude(ctx, cuts, before)
}

// forgottenAt returns what the epoch that began at a window says of the nodes that it forgets,
// nil if it forgets none that the epoch before did not.
func forgottenAt(x *replay.Exclusions, since int64) *ledger.Forgot {
	command := event.Command{Name: event.Forget}
	for id, e := range x.Forgotten {
		if e.Before == since-1 {
			command.Nodes = append(command.Nodes, id)
		}
	}
	if command.Nodes == nil {
		return nil
	}
	unknown := x.Unknown([]event.Command{command})
	slices.Sort(unknown)
	return &ledger.Forgot{Nodes: len(command.Nodes), Windows: since, Unknown: unknown[:min(len(unknown), ledger.MaxUnknown)]}
}

// Windows is [Windows] of a sharded graph: its windows are those that are cut.
func Windows(ctx context.Context, c *kafka.Client, cfg replay.Config, before int64, visit func(*event.Window) error) (err error) {
	p := replay.New(c, cfg, nil)
	if p.Excluded, err = readForgotten(ctx, p, math.MaxInt64); err != nil {
		return err
	}
	cuts, err := cuts.OpenRecords(ctx, c, cfg.Terms.Names.LedgerAt(0))
	if err != nil {
		return err
	}
	return p.Visit(ctx, cuts, before, visit)
}

// checkCut returns an error if a cut is of another model or of other settings.
func checkCut(ctx context.Context, p *replay.Replayer, cut *cuts.Cut) error {
	if terms := p.Cfg.Terms; cut.Model != terms.Model {
		return fmt.Errorf("ledger %s belongs to model %.80q, and this is model %s: start with --model for that one", terms.Names.Ledger, cut.Model, terms.Model)
	}
	return p.CheckSettings(ctx, &cut.Terms)
}
