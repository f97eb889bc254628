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
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
)

// owner is a worker that was elected and has replayed the ledger to its end. It steps and encodes the
// next windows, and the publisher commits them. From here on only the publisher reads the ledger.
type owner struct {
	worker   *worker
	cfg      *Config
	replay   *replay.Replayer
	pipeline *publish.Pipeline
	timer    *time.Timer           // fires when the policy is to be asked again
	ranges   []ledger.Range        // of the window that was cut last; reused
	lag      map[string]replay.Lag // that was reported last, by topic
	forgets  verdict               // on the commands to forget nodes that are held
}

// claimed is a window whose records are claimed, to be stepped.
type claimed struct {
	cause   string
	ranges  []ledger.Range
	began   time.Time         // the cutting
	attempt int               // to forget nodes, which the window notes; 0 for none
	begins  *ledger.Beginning // the epoch that it begins, nil for none
	forgot  *ledger.Forgot    // what was forgotten before it is stepped, nil for nothing
}

func newOwner(w *worker, p *kafka.Producer) *owner {
	timer := time.NewTimer(0)
	timer.Stop()
	return &owner{
		worker: w, cfg: w.cfg, replay: w.replay, timer: timer, ranges: []ledger.Range{}, lag: make(map[string]replay.Lag),
		pipeline: publish.New(&w.cfg.Publishing, p, publish.Sources{
			Client: w.client, Terms: &w.cfg.Terms, Logger: w.cfg.Logger, Owns: &w.owns, Partitions: w.partitions, Ledger: w.replay.Ledger,
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
	if o.worker.begins != nil {
		if err := o.beginEpoch(ctx); err != nil {
			return err
		}
	}
	o.replay.Inputs.Resume(o.cfg.Policy, o.replay.Next())
	lag := time.NewTicker(lagEvery)
	defer lag.Stop()
	for {
		wake, err := o.stepReady(ctx)
		if err != nil {
			return err
		}
		if err := o.worker.saver.poll(o.worker); err != nil {
			return err
		}
		select {
		case f := <-o.replay.Inputs.Nodes.Ready():
			err = o.replay.Inputs.Nodes.Add(f, time.Now())
		case f := <-o.replay.Inputs.Labels.Ready():
			err = o.replay.Inputs.Labels.Add(f, time.Now())
		case f := <-o.replay.Inputs.Commands.Ready():
			err = o.replay.Inputs.Commands.Add(f, time.Now())
		case c, more := <-o.pipeline.Committed:
			if !more {
				return o.pipeline.Err()
			}
			o.noteCommitted(c)
		case err := <-o.worker.tried.loaded():
			if err := o.flush(); err != nil { // the model steps committed windows only
				return err
			}
			if err := o.worker.take(ctx, err); err != nil {
				return err
			}
		case b := <-o.worker.saver.room():
			o.worker.saver.read(b)
		case <-o.worker.saver.timer.C:
			o.worker.saver.due = true
		case err := <-o.worker.saver.done:
			o.worker.saver.finish(err)
		case e := <-o.worker.member.Elected():
			if e.Err != nil || !e.Owner {
				o.worker.owns.Store(false)
				return cmp.Or(e.Err, publish.ErrOwned)
			}
		case <-lag.C:
			replay.ReportLag(o.replay.Inputs, o.lag, o.cfg.Events)
			if o.worker.bases.watch() {
				err = o.advance(ctx, intake.Cut{Cause: "base"}, 0)
			}
		case <-wake:
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// advance claims the records of a cut, steps their window, publishes what comes of it, and releases the
// records. The window notes an attempt to forget nodes, 0 for none.
func (o *owner) advance(ctx context.Context, c intake.Cut, attempt int) error {
	began := time.Now()
	o.ranges = o.replay.Claim(c, o.ranges[:0])
	defer o.replay.Inputs.Release()
	return o.step(ctx, claimed{cause: c.Cause, ranges: o.ranges, began: began, attempt: attempt, begins: o.worker.begins})
}

// step steps the window of the claimed records, and publishes what comes of it.
func (o *owner) step(ctx context.Context, c claimed) error {
	refused, err := o.obeyForget(ctx, &c)
	if err != nil {
		return err
	}
	asked := replay.TrialCommands(o.replay.Inputs)
	out, err := o.replay.Serve()
	if err != nil {
		return err
	}
	replay.Refuse(out, refused, o.forgets.declined)
	o.worker.stepped.Store(o.replay.Next())
	trial := o.obeyTrials(ctx, asked)
	if trial == nil {
		trial = o.worker.trialAfter(out)
	}
	replay.RefuseTrials(out, asked, trial)
	decided := trial != nil && trial.Decided == ledger.Promoted && out.Promoted == ""
	if decided {
		out.Promoted = trial.Model
	}
	if decision := trial.Decision(); decision != "" {
		o.cfg.Logger.Info("a trial is decided: "+decision, "window", out.Window)
	}
	if err := o.publish(out, &c, trial); err != nil {
		return err
	}
	if decided {
		if err := o.worker.assignOwnRoles(); err != nil {
			return err
		}
	}
	o.cfg.Events(replay.Stepped{Outcome: out, Cause: c.cause, Trial: o.replay.Last().Trial, Took: time.Since(c.began)})
	return nil
}

// obeyForget forgets the nodes that the claimed commands name. If prepareForget has declined
// this, it returns the commands, to be refused.
func (o *owner) obeyForget(ctx context.Context, c *claimed) (refused []event.Command, err error) {
	commands := replay.ForgetCommands(o.replay.Inputs)
	if len(commands) == 0 {
		return nil, nil
	}
	if !o.forgets.obey {
		return commands, nil
	}
	if err := o.flush(); err != nil {
		return nil, err
	}
	c.forgot, err = o.replay.Forget(ctx, commands, false)
	if err == nil {
		return nil, o.worker.assignOwnRoles()
	}
	if possible, wrong := o.replay.Replayable(ctx); wrong != nil || possible {
		return nil, err
	}
	o.cfg.Logger.Warn("nodes are not forgotten: what the replay needs was deleted meanwhile", "err", err)
	o.forgets = verdict{declined: replay.DeclinedGone}
	return commands, nil
}

// flush waits until all stepped windows are committed.
func (o *owner) flush() error {
	for o.worker.committed.window < o.replay.Next()-1 {
		c, more := <-o.pipeline.Committed
		if !more {
			return o.pipeline.Err()
		}
		o.noteCommitted(c)
	}
	return nil
}

// publish has what comes of a window published, with the inputs' offsets after it.
func (o *owner) publish(out *event.Outcome, c *claimed, trial *ledger.Trial) error {
	settings := o.replay.Stretch().ToWrite()
	record := ledger.Record{
		Version: ledger.Version, Epoch: o.replay.Last().Epoch, Window: out.Window, Cause: c.cause, Ranges: c.ranges,
		Model: cmp.Or(out.Model, o.cfg.Terms.Model), Terms: ledger.Terms{Settings: settings.Hash},
		Predictions: len(out.Predictions), Revisions: len(out.Revisions), Labels: len(out.Labelled), Refused: len(out.Refused),
		Posterior: out.Posterior.Hex(), Chain: out.Chain.Hex(), Taken: o.replay.Inputs.Taken(),
		Figures: out.Figures.Kept(), Reasons: reasons(out), Changes: ledger.Changes(out.Drift), Unmet: ledger.UnmetOf(out.Odd.Unmet),
		Schemas:  o.replay.Inputs.Schemas.TakeFresh(),
		Forgot:   c.forgot,
		Attempt:  c.attempt,
		Promoted: out.Promoted,
		Trial:    trial,
	}
	if len(out.Heads) > 0 {
		record.Updates = out.Heads[0].Version
	}
	if c.forgot == nil && len(replay.ForgetCommands(o.replay.Inputs)) > 0 {
		record.Declined = o.forgets.declined
	}
	if o.cfg.Models.Scores != nil && len(out.Labelled) > 0 {
		record.Scores = o.cfg.Models.Scores(out)
	}
	if o.cfg.Models.Attributes != nil {
		record.Attributes = o.cfg.Models.Attributes(out)
		if out.Odd.Attributes != nil {
			record.Unknown = out.Odd.Attributes.Unknown
		}
	}
	if s := out.Shadow; s != nil {
		record.Shadow = &ledger.Shadow{Model: s.Model, Updates: s.Heads[0].Version, Posterior: s.Posterior.Hex(), Chain: s.Chain.Hex()}
	}
	if by := out.ServedBy; by > 0 {
		record.Head = out.Heads[by].Name
	}
	switch {
	case out.Window == 0:
		record.Begins = o.cfg.Terms.Beginning("the ledger begins")
	case c.begins != nil:
		record.Epoch, record.Begins = o.replay.Last().Epoch+1, c.begins
	}
	if record.Begins != nil {
		record.Classes, record.Inputs = o.cfg.Terms.Classes, o.replay.Inputs.Begins()
		if n := o.cfg.Terms.Names; n.Cells > 0 {
			record.Cell = &ledger.Cell{Number: n.Cell, Of: n.Cells}
		}
	} else if out.Promoted != "" && o.cfg.Models.ClassesOf != nil {
		record.Classes = o.cfg.Models.ClassesOf(out.Promoted)
	}
	if record.Begins != nil || o.replay.Last().Settings != record.Settings {
		record.Configuration = settings.All
	}
	o.worker.bases.name(&record, o.replay.Last().Bases, &settings)
	o.replay.NoteRecord(&record)
	full, err := o.pipeline.Add(out, &record, c.began, func(offsets map[kafka.TopicPartition]int64) {
		o.replay.Inputs.Offsets(offsets, record.Begins != nil)
	})
	for full != nil && err == nil {
		select {
		case o.pipeline.In <- full:
			full = nil
		case c, more := <-o.pipeline.Committed:
			if !more {
				return o.pipeline.Err()
			}
			o.noteCommitted(c)
		}
	}
	return err
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

// noteCommitted records a committed transaction and tells the event.
func (o *owner) noteCommitted(c publish.Commit) {
	crash.Point(crash.Committed)
	o.worker.committed = commitPoint{c.Happened.Last, c.Offset}
	o.worker.bases.committed(c.Happened.Last)
	o.cfg.Events(c.Happened)
	replay.ReportLag(o.replay.Inputs, o.lag, o.cfg.Events)
}
