package worker

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// owner is a worker that was elected and has replayed the ledger to its end. It steps the
// next windows, and the encoder and the publisher commit their effects. From here on
// only the publisher reads the ledger.
type owner struct {
	w         *worker
	cfg       *Config
	replay    *replayer
	encoder   *encoder
	publisher *publisher
	source    source         // of the next windows
	ranges    []ledger.Range // of the current window; reused
	forgets   verdict        // on the commands to forget nodes that are held
	attempt   int            // to note in the current window, 0 for none
	ends      bool           // the current window of a sharded graph has commands to forget nodes that are obeyed
	forgot    *ledger.Forgot // what the epoch of a sharded graph forgets that the current window begins, nil for none
}

func newOwner(w *worker, p *kafka.Producer) *owner {
	o := &owner{w: w, cfg: w.cfg, replay: w.replay, publisher: newPublisher(w.cfg, &w.owns, p, w.replay.ledger, w.source.acknowledged(w)), source: w.source, ranges: []ledger.Range{}}
	o.encoder = newEncoder(w.cfg, w.partitions, o.publisher)
	return o
}

// serve runs a loop, the encoder and the publisher. However the loop ends, the stepped
// windows are committed if that is still possible.
func (o *owner) serve(ctx context.Context, loop func(context.Context) error) error {
	committing, stop := lasting(ctx, commitFor)
	defer stop()
	go o.publisher.run(committing)
	go o.encoder.run()
	err := loop(ctx)
	close(o.encoder.in)
	for c := range o.publisher.committed {
		o.noteCommitted(c)
	}
	if p := o.publisher.err; p != nil && err != nil && !errors.Is(err, p) {
		return fmt.Errorf("%w (and then: %w)", err, p)
	}
	return cmp.Or(o.publisher.err, err)
}

// lagEvery is how often the lag is reported besides after each commit: while a producer's
// transaction holds records back there are no commits.
const lagEvery = time.Second

// loop fetches, cuts and steps until the context ends or something fails.
func (o *owner) loop(ctx context.Context) error {
	if o.w.begins != nil {
		if err := o.beginEpoch(ctx); err != nil {
			return err
		}
	}
	if err := o.source.resume(ctx, o); err != nil {
		return err
	}
	lag := time.NewTicker(lagEvery)
	defer lag.Stop()
	for {
		wake, err := o.source.step(ctx, o)
		if err != nil {
			return err
		}
		if err := o.w.saver.poll(o.w); err != nil {
			return err
		}
		select {
		case f := <-o.replay.inputs.Nodes.Ready():
			err = o.replay.inputs.Nodes.Add(f, time.Now())
		case f := <-o.replay.inputs.Labels.Ready():
			err = o.replay.inputs.Labels.Add(f, time.Now())
		case f := <-o.replay.inputs.Commands.Ready():
			err = o.replay.inputs.Commands.Add(f, time.Now())
		case c, more := <-o.publisher.committed:
			if !more {
				return o.publisher.err
			}
			o.noteCommitted(c)
		case err := <-o.w.loaded():
			if err := o.flush(); err != nil { // the model steps committed windows only
				return err
			}
			if err := o.w.take(ctx, err); err != nil {
				return err
			}
		case b := <-o.w.saver.room():
			o.w.saver.read(b)
		case <-o.w.saver.timer.C:
			o.w.saver.due = true
		case err := <-o.w.saver.done:
			o.w.saver.finish(err)
		case e := <-o.w.member.Elected():
			if e.Err != nil || !e.Owns(o.cfg.Task) {
				o.w.owns.Store(false)
				return cmp.Or(e.Err, ErrOwned)
			}
		case <-lag.C:
			o.reportLag()
		case <-wake:
		case <-ctx.Done():
			return o.source.finish(ctx, o)
		}
		if err != nil {
			return err
		}
	}
}

// advance claims the records of a cut, steps their window, and passes on its effects.
func (o *owner) advance(ctx context.Context, c intake.Cut) error {
	began := time.Now()
	o.replay.unstepped = true
	o.ranges = o.replay.inputs.Claim(c, o.ranges[:0])
	return o.stepOwn(ctx, c.Cause, began)
}

// stepOwn steps the window of the claimed records, passes on its effects, and releases the
// records.
func (o *owner) stepOwn(ctx context.Context, cause string, began time.Time) error {
	defer o.replay.inputs.Release()
	forgot, refused, err := o.obeyForget(ctx)
	if err != nil {
		return err
	}
	asked := o.replay.trialCommands()
	out, err := o.replay.stepClaimed()
	if err != nil {
		return err
	}
	o.replay.compared = true // with what every replay will find in the ledger
	refuse(out, refused, o.forgets.declined)
	o.w.stepped.Store(o.replay.next)
	trial := o.obeyTrials(ctx, asked)
	if trial == nil {
		trial = o.replay.last.trial.After(out)
	}
	refuseTrials(out, asked, trial)
	decided := trial != nil && trial.Decided == ledger.Promoted && out.Promoted == ""
	if decided {
		out.Promoted = trial.Model
	}
	if err := o.handOver(o.effects(out, cause, began, forgot, trial)); err != nil {
		return err
	}
	if decided {
		if err := o.w.assignOwnRoles(); err != nil {
			return err
		}
	}
	o.cfg.Hooks.Stepped(Stepped{Outcome: out, Cause: cause, Trial: o.replay.last.trial, Took: time.Since(began)})
	return nil
}

// obeyForget forgets the nodes that the claimed commands name. If prepareForget has declined
// this, it returns the commands, to be refused.
func (o *owner) obeyForget(ctx context.Context) (forgot *ledger.Forgot, refused []event.Command, err error) {
	commands := o.replay.forgetCommands()
	if len(commands) == 0 {
		return o.forgot, nil, nil
	}
	if !o.forgets.obey {
		return nil, commands, nil
	}
	if err := o.flush(); err != nil {
		return nil, nil, err
	}
	if forgot, err = o.replay.forget(ctx, commands, false); err != nil {
		return nil, nil, err
	}
	return forgot, nil, o.w.assignOwnRoles()
}

// flush waits until all stepped windows are committed.
func (o *owner) flush() error {
	for o.w.committed.window < o.replay.next-1 {
		c, more := <-o.publisher.committed
		if !more {
			return o.publisher.err
		}
		o.noteCommitted(c)
	}
	return nil
}

// effects returns the effects of a window that was cut at the given time, and the inputs'
// offsets after it.
func (o *owner) effects(out *event.Outcome, cause string, cut time.Time, forgot *ledger.Forgot, trial *ledger.Trial) *effects {
	settings := o.replay.settingsToWrite()
	record := ledger.Record{
		Version: ledger.Version, Epoch: o.replay.last.epoch, Window: out.Window, Cause: cause, Ranges: o.ranges,
		Model: cmp.Or(out.Model, o.cfg.Model), Settings: settings.hash,
		Predictions: len(out.Predictions), Revisions: len(out.Revisions), Labels: len(out.Labelled), Refused: len(out.Refused),
		Posterior: hash(out.Posterior), Chain: hash(out.Chain),
		Reasons: reasons(out), Changes: changes(out.Drift),
		Forgot:   forgot,
		Forgets:  o.ends,
		Attempt:  o.attempt,
		Promoted: out.Promoted,
		Trial:    trial,
	}
	if len(out.Heads) > 0 { // shards do not learn
		record.Updates = out.Heads[0].Version
	}
	if forgot == nil && len(o.replay.forgetCommands()) > 0 {
		record.Declined = o.forgets.declined
	}
	if o.cfg.Scores != nil && len(out.Labelled) > 0 {
		record.Scores = o.cfg.Scores(out)
	}
	if s := out.Shadow; s != nil {
		record.Shadow = &ledger.Shadow{Model: s.Model, Updates: s.Heads[0].Version, Posterior: hash(s.Posterior), Chain: hash(s.Chain)}
	}
	if by := out.ServedBy; by > 0 {
		record.Head = out.Heads[by].Name
	}
	switch {
	case out.Window == 0:
		record.Begins = &ledger.Beginning{Why: "the ledger begins", Program: o.cfg.Program}
	case o.w.begins != nil:
		record.Epoch, record.Begins = o.replay.last.epoch+1, o.w.begins
	}
	if record.Begins != nil {
		record.Classes, record.Inputs = o.cfg.Classes, o.replay.inputs.Begins()
	} else if out.Promoted != "" && o.cfg.ClassesOf != nil {
		record.Classes = o.cfg.ClassesOf(out.Promoted)
	}
	if record.Begins != nil || o.replay.last.settings != record.Settings {
		record.Configuration = settings.all
	}
	o.replay.last = stateAfter(&record)
	o.replay.noteAttempts(&record)
	e := o.encoder.new()
	e.fill(out, &record, cut, o.cfg)
	if o.cfg.Task <= 1 { // one shard does it for all: they are not far apart
		o.replay.inputs.Offsets(e.offsets)
	}
	return e
}

// reasons counts the refusals by reason.
func reasons(out *event.Outcome) map[event.Reason]int {
	if len(out.Refused) == 0 {
		return nil
	}
	counts := make(map[event.Reason]int)
	for i := range out.Refused {
		counts[out.Refused[i].Reason]++
	}
	return counts
}

// changes lists the changes that drift detectors found in a window.
func changes(d *event.Drift) (found []ledger.Change) {
	if d == nil {
		return nil
	}
	for i := range d.Detectors {
		if t := &d.Detectors[i]; t.Changes > 0 {
			found = append(found, ledger.Change{Detector: t.Name, Worse: t.Worse > 0})
		}
	}
	return found
}

func hash(h event.Hash) string { return hex.EncodeToString(h[:]) }

// handOver passes a window's effects to the encoder once that has encoded the window
// before.
func (o *owner) handOver(e *effects) error {
	for {
		select {
		case o.encoder.in <- e:
			return nil
		case c, more := <-o.publisher.committed:
			if !more {
				return o.publisher.err
			}
			o.noteCommitted(c)
		}
	}
}

// noteCommitted records a committed transaction and calls the hooks.
func (o *owner) noteCommitted(c Committed) {
	crash.Point(crash.Committed)
	o.w.committed = commitPoint{c.Last, c.offset}
	o.cfg.Hooks.Committed(c)
	o.reportLag()
}

func (o *owner) reportLag() {
	o.replay.inputs.Lag(o.cfg.Hooks.Lag)
}
