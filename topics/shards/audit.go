package shards

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/shards/cuts"
)

// Shards is an engine that is all shards of a graph.
type Shards interface {
	replay.Engine
	// Parts returns the outcomes of the shards, in their order, of which the last Step made
	// its own. They are valid as long as that.
	Parts() []*event.Outcome
}

// Audit is [audit.Run] of a graph of several shards, all of which e steps in this process.
// It replays the cuts, and compares what each shard has in its partition of the ledger: the
// chain of every window, and every prediction and dead letter that it has published. Where a
// cut names a complete window with the chain of the graph, that is compared too. It is an error if
// a shard's partition ends before another one's did when the audit began, or before a cut says.
//
// Records of several shards are in one partition of the outputs, in any order among each
// other. So a published record is searched for by its key.
func Audit(ctx context.Context, c *kafka.Client, e Shards, cfg replay.Config, shards int, progress func(windows int64)) (audit.Result, error) {
	began := time.Now()
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	p := replay.New(c, cfg, e)
	a := &shardAuditor{
		cfg: p.Cfg, client: c, replay: p, shards: e, records: make([]*ledger.Ledger, shards),
		ended: make(map[int]int64), complete: make(map[int64]event.Hash),
		audited: audit.Result{},
	}
	err := a.run(ctx, fetching, progress)
	a.audited.Took = time.Since(began)
	return a.audited, err
}

// shardAuditor is a replayer of cuts that compares them with what all shards have written.
type shardAuditor struct {
	cfg     replay.Config
	client  *kafka.Client
	replay  *replay.Replayer
	shards  Shards
	cuts    *cuts.Cuts
	records []*ledger.Ledger // by shard
	ended   map[int]int64    // by shard: the window that its part of the ledger lacks; those that it has are read
	end     int64            // windows to audit

	outputs  *audit.Outputs
	waiting  map[kafka.TopicPartition]map[string][]kafka.Record // fetched and not compared, by key
	chain    event.Hash                                         // of the graph
	complete map[int64]event.Hash                               // of the last windows
	stop     context.CancelFunc                                 // of the inputs
	parts    []kafka.TopicPartition                             // of the ledger, by shard
	done     int64                                              // windows that all shards had, as the newest cut says
	proved   int64                                              // windows that all shards have
	audited  audit.Result
}

func (a *shardAuditor) run(ctx, fetching context.Context, progress func(int64)) (err error) {
	names := a.cfg.Terms.Names
	if a.cuts, err = cuts.OpenCuts(ctx, a.client, names.LedgerAt(0), cuts.Place{}); err != nil {
		return err
	}
	for p := range a.records {
		at := names.LedgerAt(p + 1)
		if a.records[p], err = ledger.Open(ctx, a.client, at); err != nil {
			return err
		}
		newest, err := ledger.Newest(ctx, a.client, at)
		if err != nil {
			return err
		}
		if newest != nil {
			a.end = max(a.end, newest.Window+1)
		}
		a.parts = append(a.parts, at)
	}
	newest, err := cuts.NewestCut(ctx, a.client, names.LedgerAt(0))
	if err != nil {
		return err
	}
	if newest != nil && newest.Done != nil {
		a.done = newest.Done.Window + 1
	}
	a.end = max(a.end, a.done)
	if a.outputs, err = audit.OpenOutputs(ctx, a.client, a.cfg.Terms); err != nil {
		return err
	}
	a.waiting = make(map[kafka.TopicPartition]map[string][]kafka.Record)
	defer func() { a.stop() }()
	if err := a.openFirst(fetching); err != nil {
		return err
	}
	for window := range a.end {
		cut, err := a.cuts.Next(ctx)
		if err != nil {
			return err
		}
		if cut == nil {
			return fmt.Errorf("ledger %s partition 0 ends before window %d, and others have windows up to %d: it was cut short: restore the topic from a backup or a mirror", names.Ledger, window, a.end-1)
		}
		if err := a.window(ctx, fetching, cut); err != nil {
			return err
		}
		if progress != nil {
			progress(a.audited.Windows)
		}
	}
	if err := a.checkEnds(); err != nil {
		return err
	}
	return a.checkNothingElse(ctx)
}

// checkEnds returns an error if a shard's part of the ledger lacks windows.
func (a *shardAuditor) checkEnds() error {
	if len(a.ended) == 0 {
		return nil
	}
	a.audited.Windows = a.proved
	var short []string
	for _, p := range slices.Sorted(maps.Keys(a.ended)) {
		short = append(short, fmt.Sprintf("partition %d ends before window %d", p+1, a.ended[p]))
	}
	why := "begin the audit again when its owner has caught up; if it has, the partition was cut short: restore the topic from a backup or a mirror"
	if a.proved < a.done {
		why = fmt.Sprintf("a cut says that all shards were done with window %d, so it was cut short: restore the topic from a backup or a mirror", a.done-1)
	}
	return fmt.Errorf("windows %d to %d are not proved: ledger %s %s: %s", a.proved, a.end-1, a.cfg.Terms.Names.Ledger, strings.Join(short, ", "), why)
}

// record returns a shard's record of the next window, nil if it has none.
func (a *shardAuditor) record(ctx context.Context, p int) (r *ledger.Record, err error) {
	for began := time.Now(); r == nil && err == nil && time.Since(began) < caughtUpWithin; {
		r, err = a.records[p].Wait(ctx)
	}
	return r, err
}

// caughtUpWithin is how long a shard may be without a window that another one had when the audit began.
const caughtUpWithin = 5 * time.Second

// maxRemembered bounds the complete windows whose chains are remembered: cuts name recent ones.
const maxRemembered = 1 << 12

// window replays a cut and compares it with the shards' records.
func (a *shardAuditor) window(ctx, fetching context.Context, cut *cuts.Cut) (err error) {
	written := make([]*ledger.Record, len(a.records))
	for p := range a.records {
		if _, ended := a.ended[p]; ended {
			continue
		}
		if written[p], err = a.record(ctx, p); err != nil {
			return err
		}
		if written[p] == nil {
			a.ended[p] = cut.Window
		}
	}
	if cut.Model != a.cfg.Terms.Model {
		return fmt.Errorf("ledger %s belongs to model %s, and this is model %s: give the file of the model that served", a.cfg.Terms.Names.Ledger, cut.Model, a.cfg.Terms.Model)
	}
	if err := a.replay.CheckSettings(ctx, &cut.Terms); err != nil {
		return err
	}
	if cut.Begins != nil {
		if err := a.begin(ctx, fetching, cut); err != nil {
			return err
		}
	}
	if err := a.step(ctx, cut); err != nil {
		return err
	}
	defer a.replay.Inputs.Release()
	before := a.audited
	var chains []event.Hash
	for p, out := range a.shards.Parts() {
		chains = append(chains, out.Chain)
		if written[p] == nil {
			continue
		}
		if !cut.Forgets {
			refuseForgetting(a.replay.Window.Commands, out, p+1, len(a.records))
		}
		if err := a.compareShard(ctx, p, written[p], out); err != nil {
			return err
		}
	}
	epoch := &a.audited.Epochs[len(a.audited.Epochs)-1]
	epoch.Windows++
	epoch.Predictions += a.audited.Predictions - before.Predictions
	epoch.DeadLetters += a.audited.DeadLetters - before.DeadLetters
	a.audited.Windows = cut.Window + 1
	a.chain = a.chain.Join(chains)
	a.complete[cut.Window] = a.chain
	delete(a.complete, cut.Window-maxRemembered)
	if len(a.ended) == 0 {
		epoch.Proved++
		a.proved = cut.Window + 1
		a.audited.Chain = a.chain.Hex()
	}
	if d := cut.Done; d != nil {
		if got, known := a.complete[d.Window]; known && got.Hex() != d.Chain {
			return fmt.Errorf("ledger %s, window %d: its cut says that the graph's chain after window %d is %s, and replay gives %s", a.cfg.Terms.Names.Ledger, cut.Window, d.Window, d.Chain, got.Hex())
		}
	}
	return nil
}

// begin begins the epoch of a cut. Behind another epoch, it replays the windows before with
// engines that never saw the nodes that were forgotten.
func (a *shardAuditor) begin(ctx, fetching context.Context, cut *cuts.Cut) (err error) {
	a.audited.Epochs = append(a.audited.Epochs, audit.Epoch{Number: cut.Epoch, First: cut.Window, Model: cut.Model, Program: cut.Begins.Program, Why: cut.Begins.Why})
	if cut.Window == 0 {
		return nil
	}
	e, err := a.cfg.Models.Fresh()
	if err != nil {
		return err
	}
	replay.Release(a.replay.Engine)
	a.replay.Engine, a.shards, a.replay.Next, a.replay.Classes = e, e.(Shards), 0, nil
	if a.replay.Excluded, err = readForgotten(ctx, a.replay, cut.Window); err != nil {
		return err
	}
	if err := a.openFirst(fetching); err != nil {
		return err
	}
	cuts, err := cuts.OpenCuts(ctx, a.client, a.cfg.Terms.Names.LedgerAt(0), cuts.Place{})
	if err != nil {
		return err
	}
	for a.replay.Next < cut.Window {
		c, err := cuts.Wait(ctx)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		if err := a.step(ctx, c); err != nil {
			return err
		}
		a.replay.Inputs.Release()
	}
	return nil
}

// step replays a cut.
func (a *shardAuditor) step(ctx context.Context, cut *cuts.Cut) error {
	a.replay.NoteClasses(cut.Classes)
	if err := a.replay.Inputs.Replay(ctx, cut.Ranges); err != nil {
		return a.replay.ExplainGone(ctx, fmt.Errorf("ledger %s, window %d: %w", a.cfg.Terms.Names.Ledger, cut.Window, err))
	}
	_, err := a.replay.StepClaimed(nil)
	return err
}

// openFirst opens the inputs at their beginning.
func (a *shardAuditor) openFirst(fetching context.Context) error {
	if a.stop != nil {
		a.stop()
	}
	fetching, a.stop = context.WithCancel(fetching)
	return a.replay.OpenInputs(fetching, intake.Position{})
}

// compareShard compares what a shard made of a window with what it has written and published.
func (a *shardAuditor) compareShard(ctx context.Context, p int, r *ledger.Record, out *event.Outcome) error {
	if r.Window != out.Window {
		return fmt.Errorf("ledger %s partition %d: window %d where window %d is next", a.cfg.Terms.Names.Ledger, p+1, r.Window, out.Window)
	}
	if newest := a.audited.Epochs[len(a.audited.Epochs)-1]; r.Epoch != newest.Number {
		return fmt.Errorf("ledger %s partition %d, window %d: it is in epoch %d, and its cut in epoch %d", a.cfg.Terms.Names.Ledger, p+1, r.Window, r.Epoch, newest.Number)
	}
	if got := out.Chain.Hex(); got != r.Chain {
		return fmt.Errorf("ledger %s partition %d, window %d: replay of shard %d gives %s where %s was written: the inputs, the model or the program differ from those that served it", a.cfg.Terms.Names.Ledger, p+1, r.Window, p+1, got, r.Chain)
	}
	if r.Predictions != len(out.Predictions) || r.Refused != len(out.Refused) {
		return fmt.Errorf("ledger %s partition %d, window %d: it says %d predictions and %d dead letters, and replay of shard %d gives %d and %d", a.cfg.Terms.Names.Ledger, p+1, r.Window, r.Predictions, r.Refused, p+1, len(out.Predictions), len(out.Refused))
	}
	if err := a.outputs.In(r); err != nil {
		return err
	}
	for i := range out.Predictions {
		x := a.outputs.Prediction(out.Window, &out.Predictions[i])
		if err := a.compare(ctx, &x); err != nil {
			return err
		}
	}
	for i := range out.Refused {
		x := a.outputs.DeadLetter(out.Window, &out.Refused[i])
		if err := a.compare(ctx, &x); err != nil {
			return err
		}
	}
	a.audited.Predictions += int64(len(out.Predictions))
	a.audited.DeadLetters += int64(len(out.Refused))
	return nil
}

// compare searches the published records of a key for the replayed one.
func (a *shardAuditor) compare(ctx context.Context, x *audit.Replayed) error {
	for {
		list := a.waiting[x.At][string(x.Key)]
		if i := slices.IndexFunc(list, func(r kafka.Record) bool { return x.Is(&r) }); i >= 0 {
			if list = slices.Delete(list, i, i+1); len(list) == 0 {
				delete(a.waiting[x.At], string(x.Key))
			} else {
				a.waiting[x.At][string(x.Key)] = list
			}
			return nil
		}
		switch more, err := a.fetch(ctx, x.At); {
		case err != nil:
			return err
		case !more && len(list) > 0:
			return x.Differs(&list[0])
		case !more:
			return x.Missing()
		}
	}
}

// fetch reads more records of a partition. It returns false at its end.
func (a *shardAuditor) fetch(ctx context.Context, at kafka.TopicPartition) (more bool, err error) {
	more, err = a.outputs.Fetch(ctx, at)
	for from, list := range a.outputs.Waiting {
		for _, r := range list {
			if a.waiting[from] == nil {
				a.waiting[from] = make(map[string][]kafka.Record)
			}
			a.waiting[from][string(r.Key)] = append(a.waiting[from][string(r.Key)], r)
		}
		a.outputs.Waiting[from] = list[:0]
	}
	return more, err
}

// checkNothingElse returns an error if there is a prediction that no shard's ledger has. There
// may be some of later windows, by live workers.
func (a *shardAuditor) checkNothingElse(ctx context.Context) error {
	for _, at := range a.outputs.Predictions() {
		for more := true; more; {
			var err error
			if more, err = a.fetch(ctx, at); err != nil {
				return err
			}
		}
		for _, list := range a.waiting[at] {
			for i := range list {
				// What was committed after a ledger was read may be of a window that another
				// shard had committed before.
				if err := a.outputs.CheckLater(ctx, &list[i], a.proved, a.parts...); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
