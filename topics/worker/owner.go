package worker

import (
	"cmp"
	"context"
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
	w        *worker
	cfg      *Config
	replay   *replayer
	pipeline *Pipeline
	source   source         // of the next windows
	ranges   []ledger.Range // of the window that was cut last; reused
	forgets  verdict        // on the commands to forget nodes that are held
}

// claimed is a window whose records are claimed, to be stepped.
type claimed struct {
	cause   string
	ranges  []ledger.Range
	began   time.Time         // the cutting
	window  *event.Window     // its events, nil if they are to be gathered
	attempt int               // to forget nodes, which the window notes; 0 for none
	begins  *ledger.Beginning // the epoch that it begins, nil for none
	forgot  *ledger.Forgot    // what that forgets, nil for nothing
	forgets bool              // its commands to forget nodes are obeyed by the epoch that follows
}

func newOwner(w *worker, p *kafka.Producer) *owner {
	return &owner{
		w: w, cfg: w.cfg, replay: w.replay, source: w.source, ranges: []ledger.Range{},
		pipeline: NewPipeline(&w.cfg.Publishing, p, Sources{
			Terms: &w.cfg.Terms, Logger: w.cfg.Logger, Owns: &w.owns, Partitions: w.partitions, Ledger: w.replay.ledger, Acknowledged: w.source.acknowledged,
		}),
	}
}

// serve runs a loop beside the pipeline. However the loop ends, the stepped windows are committed
// if that is still possible.
func (o *owner) serve(ctx context.Context, loop func(context.Context) error) error {
	stop := o.pipeline.Start(ctx)
	defer stop()
	err := loop(ctx)
	close(o.pipeline.In)
	for c := range o.pipeline.Committed {
		o.noteCommitted(c)
	}
	if p := o.pipeline.Err(); p != nil && err != nil && !errors.Is(err, p) {
		return fmt.Errorf("%w (and then: %w)", err, p)
	}
	return cmp.Or(o.pipeline.Err(), err)
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
		wake, err := o.source.step(ctx)
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
		case c, more := <-o.pipeline.Committed:
			if !more {
				return o.pipeline.Err()
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
			if e.Err != nil || !e.Owns(o.cfg.Terms.Partition) {
				o.w.owns.Store(false)
				return cmp.Or(e.Err, ErrOwned)
			}
		case <-lag.C:
			o.reportLag()
		case <-wake:
		case <-ctx.Done():
			return o.source.finish(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// advance claims the records of a cut, steps their window, and passes on its effects.
func (o *owner) advance(ctx context.Context, c intake.Cut) error {
	return o.advanceNoting(ctx, c, 0)
}

// advanceNoting is advance for a window that notes an attempt to forget nodes.
func (o *owner) advanceNoting(ctx context.Context, c intake.Cut, attempt int) error {
	began := time.Now()
	o.replay.unstepped = true
	o.ranges = o.replay.inputs.Claim(c, o.ranges[:0])
	return o.step(ctx, claimed{cause: c.Cause, ranges: o.ranges, began: began, attempt: attempt, begins: o.w.begins})
}

// step steps the window of the claimed records, passes on its effects, and releases the
// records.
func (o *owner) step(ctx context.Context, c claimed) error {
	defer o.replay.inputs.Release()
	refused, err := o.obeyForget(ctx, &c)
	if err != nil {
		return err
	}
	asked := o.replay.trialCommands()
	out, err := o.replay.stepClaimed(c.window)
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
	if err := o.handOver(o.effects(out, &c, trial)); err != nil {
		return err
	}
	if decided {
		if err := o.w.assignOwnRoles(); err != nil {
			return err
		}
	}
	o.cfg.Events(Stepped{Outcome: out, Cause: c.cause, Trial: o.replay.last.trial, Took: time.Since(c.began)})
	return nil
}

// obeyForget forgets the nodes that the claimed commands name. If prepareForget has declined
// this, it returns the commands, to be refused.
func (o *owner) obeyForget(ctx context.Context, c *claimed) (refused []event.Command, err error) {
	commands := o.replay.forgetCommands()
	if len(commands) == 0 {
		return nil, nil
	}
	if !o.forgets.obey {
		return commands, nil
	}
	if err := o.flush(); err != nil {
		return nil, err
	}
	if c.forgot, err = o.replay.forget(ctx, commands, false); err != nil {
		return nil, err
	}
	return nil, o.w.assignOwnRoles()
}

// saves reports whether a checkpoint is due, for which no window may be entered ahead.
func (o *owner) saves() bool { return o.w.saver.due }

// flush waits until all stepped windows are committed.
func (o *owner) flush() error {
	for o.w.committed.window < o.replay.next-1 {
		c, more := <-o.pipeline.Committed
		if !more {
			return o.pipeline.Err()
		}
		o.noteCommitted(c)
	}
	return nil
}

// effects returns the effects of a window, and the inputs' offsets after it.
func (o *owner) effects(out *event.Outcome, c *claimed, trial *ledger.Trial) *Effects {
	settings := o.replay.settingsToWrite()
	record := ledger.Record{
		Version: ledger.Version, Epoch: o.replay.last.epoch, Window: out.Window, Cause: c.cause, Ranges: c.ranges,
		Model: cmp.Or(out.Model, o.cfg.Terms.Model), Settings: settings.hash,
		Predictions: len(out.Predictions), Revisions: len(out.Revisions), Labels: len(out.Labelled), Refused: len(out.Refused),
		Posterior: out.Posterior.Hex(), Chain: out.Chain.Hex(),
		Reasons: reasons(out), Changes: ledger.Changes(out.Drift),
		Forgot:   c.forgot,
		Forgets:  c.forgets,
		Attempt:  c.attempt,
		Promoted: out.Promoted,
		Trial:    trial,
	}
	if len(out.Heads) > 0 {
		record.Updates = out.Heads[0].Version
	}
	if c.forgot == nil && len(o.replay.forgetCommands()) > 0 {
		record.Declined = o.forgets.declined
	}
	if o.cfg.Models.Scores != nil && len(out.Labelled) > 0 {
		record.Scores = o.cfg.Models.Scores(out)
	}
	if s := out.Shadow; s != nil {
		record.Shadow = &ledger.Shadow{Model: s.Model, Updates: s.Heads[0].Version, Posterior: s.Posterior.Hex(), Chain: s.Chain.Hex()}
	}
	if by := out.ServedBy; by > 0 {
		record.Head = out.Heads[by].Name
	}
	switch {
	case out.Window == 0:
		record.Begins = &ledger.Beginning{Why: "the ledger begins", Program: o.cfg.Terms.Program}
	case c.begins != nil:
		record.Epoch, record.Begins = o.replay.last.epoch+1, c.begins
	}
	if record.Begins != nil {
		record.Classes, record.Inputs = o.cfg.Terms.Classes, o.replay.inputs.Begins()
	} else if out.Promoted != "" && o.cfg.Models.ClassesOf != nil {
		record.Classes = o.cfg.Models.ClassesOf(out.Promoted)
	}
	if record.Begins != nil || o.replay.last.settings != record.Settings {
		record.Configuration = settings.all
	}
	o.replay.last = stateAfter(&record)
	o.replay.noteAttempts(&record)
	e := o.pipeline.Effects(out, &record, c.began)
	if o.cfg.Terms.Partition <= 1 { // one task does it for all: they are not far apart
		o.replay.inputs.Offsets(e.Offsets)
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

// handOver passes a window's effects to the encoder once that has encoded the window
// before.
func (o *owner) handOver(e *Effects) error {
	for {
		select {
		case o.pipeline.In <- e:
			return nil
		case c, more := <-o.pipeline.Committed:
			if !more {
				return o.pipeline.Err()
			}
			o.noteCommitted(c)
		}
	}
}

// noteCommitted records a committed transaction and calls the hooks.
func (o *owner) noteCommitted(c Commit) {
	crash.Point(crash.Committed)
	o.w.committed = commitPoint{c.Happened.Last, c.Offset}
	o.cfg.Events(c.Happened)
	o.reportLag()
}

func (o *owner) reportLag() {
	o.replay.inputs.Lag(func(topic string, records, withheld int64) { o.cfg.Events(Lag{topic, records, withheld}) })
}
