package worker

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// A model is tried beside the one that serves: one that the worker was started with, or that a
// command asks for while the graph is served. The owner
// notes it in the ledger, and loads the model: another replayer steps an engine of that
// model alone through the ledger's windows, in a goroutine, until it has reached the end.
// Between two windows its engine is then taken into the shadow. Serving pauses for the few
// windows that were stepped meanwhile. From then on every window's record has the shadow's
// chain, and compares the two models. A rule that came with the command can promote the
// model: the owner decides, and the record of that window says so. Replays take roles from
// the ledger and decide nothing, but where they have both models they compare the figures.
//
// Standbys follow the trial in the ledger, and load the model likewise.

// Taker is an engine that can take another model into its shadow while it runs.
type Taker interface {
	replay.RoleAssigner
	// Take puts an engine of one model, which has stepped the same windows and belongs to
	// the Taker from then on, into the shadow, in place of the one there.
	Take(shadow replay.Engine) error
}

// tried is the model that is being loaded for a trial, nil for none, and the last one that could not be.
type tried struct {
	loading *loading
	missing string
}

// loads reports whether a model is being loaded.
func (t *tried) loads(model string) bool { return t.loading != nil && t.loading.model == model }

// loading is the loading of a model for a trial. Its replayer belongs to the goroutine until
// done has a value, and then to the worker.
type loading struct {
	model    string
	replayer *replay.Replayer
	stop     context.CancelFunc
	done     chan error
	ended    chan struct{} // closed when the goroutine has ended
}

// loadModel begins to load a model. It fails if the worker has no file of it.
func (w *worker) loadModel(ctx context.Context, id string) error {
	if w.cfg.Models.Open == nil {
		return fmt.Errorf("model %.40s is to be tried, and this worker has no folder of models: start it with --models", id)
	}
	fresh, err := w.cfg.Models.Open(id)
	if err != nil {
		return err
	}
	engine, err := fresh()
	if err != nil {
		return err
	}
	cfg, terms, models := w.cfg.Replay(), w.cfg.Terms, w.cfg.Models
	terms.Model, terms.Shadow = id, ""
	models.Fresh = fresh // where nodes are forgotten while it is loaded
	cfg.Terms, cfg.Models, cfg.Events = &terms, &models, nil
	w.tried.stopLoading()
	l := &loading{model: id, replayer: replay.New(w.client, cfg, engine), done: make(chan error, 1), ended: make(chan struct{})}
	ctx, l.stop = context.WithCancel(ctx)
	w.tried.loading = l
	w.cfg.Logger.Info("loading a model for the shadow: it replays the ledger", "model", id)
	go func() {
		defer close(l.ended)
		l.done <- l.run(ctx, &w.stepped)
	}()
	return nil
}

// run steps the windows that the ledger has, up to those that the worker has stepped.
func (l *loading) run(ctx context.Context, stepped *atomic.Int64) error {
	p := l.replayer
	if err := p.OpenFirst(ctx, ctx, math.MaxInt64); err != nil {
		return err
	}
	for p.Next() < stepped.Load() {
		r, err := p.Ledger.Next(ctx)
		if r == nil || err != nil {
			return err
		}
		if err := l.step(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (l *loading) step(ctx context.Context, r *ledger.Record) error {
	_, err := l.replayer.Step(ctx, r)
	l.replayer.Inputs.Release()
	return err
}

// stopLoading ends a loading, if there is one. Its engine is not needed any more.
func (t *tried) stopLoading() {
	l := t.loading
	if l == nil {
		return
	}
	l.stop()
	t.loading = nil
	go func() {
		<-l.ended
		replay.Release(l.replayer.Engine)
	}()
}

// loaded returns the channel of the loading's end, nil if no model is being loaded.
func (t *tried) loaded() <-chan error {
	if t.loading == nil {
		return nil
	}
	return t.loading.done
}

// take takes the loaded model into the shadow, after it has stepped the windows before next,
// which must all be committed. err is that of the loading; a model that cannot be loaded ends
// nothing but its trial here.
func (w *worker) take(ctx context.Context, err error) error {
	l := w.tried.loading
	for err == nil && l.replayer.Next() < w.replay.Next() {
		var r *ledger.Record
		if r, err = l.replayer.Ledger.Wait(ctx); r != nil && err == nil {
			err = l.step(ctx, r)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		err = w.replay.Engine.(Taker).Take(l.replayer.Engine)
	}
	if err != nil {
		w.cfg.Logger.Error("a model cannot be loaded for the shadow", "model", l.model, "err", err)
		w.tried.missing = l.model
		w.replay.LoseTrial()
		w.tried.stopLoading()
		return nil
	}
	l.stop()
	w.tried.loading = nil
	w.cfg.Terms.Model, w.cfg.Terms.Shadow = w.replay.Last().Serves, l.model
	w.cfg.Logger.Info("model loaded into the shadow", "model", l.model, "serves", w.replay.Last().Serves, "window", w.replay.Next())
	w.cfg.Events(replay.Loaded{Model: l.model, Engine: w.replay.Engine})
	return w.assignOwnRoles()
}

// followTrial loads the model of the ledger's trial, if this worker does not have it and has
// its file. It is called at the ledger's end.
func (w *worker) followTrial(ctx context.Context) {
	t := w.replay.Last().Trial
	if t == nil || w.cfg.Terms.Has(t.Model) || w.tried.loads(t.Model) || w.tried.missing == t.Model {
		return
	}
	if err := w.loadModel(ctx, t.Model); err != nil {
		w.tried.missing = t.Model
		w.cfg.Logger.Warn("a model is tried that this worker cannot load: it will end when that is promoted", "model", t.Model, "err", err)
	}
}

// awaitModel waits until the model that serves a window, and that is being loaded, is here.
func (w *worker) awaitModel(ctx context.Context, model string) error {
	for w.tried.loads(model) && !w.cfg.Terms.Has(model) {
		select {
		case err := <-w.tried.loading.done:
			if err := w.take(ctx, err); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// obeyTrials loads the model of the last command to try one that can be loaded, and returns
// the trial after the window, nil for none: that of before goes on if no command is obeyed.
func (o *owner) obeyTrials(ctx context.Context, commands []event.Command) *ledger.Trial {
	for i := len(commands) - 1; i >= 0; i-- {
		c := &commands[i]
		if c.Model == o.replay.Last().Serves {
			continue
		}
		if !o.cfg.Terms.Has(c.Model) {
			if err := o.worker.loadModel(ctx, c.Model); err != nil {
				o.cfg.Logger.Warn("a model cannot be tried", "model", c.Model, "err", err)
				continue
			}
		}
		return &ledger.Trial{Model: c.Model, Rule: c.Rule}
	}
	return nil
}

// trialAfter returns the trial after a window without a command for another, nil for none. The model that
// this worker was started with for the shadow is tried where no other is; and a trial without a rule ends
// where an owner has neither that model nor a folder to take it from.
func (w *worker) trialAfter(out *event.Outcome) *ledger.Trial {
	trial := w.replay.Last().Trial.After(out)
	shadow := out.Shadow
	switch {
	case trial != nil && trial.Rule == "" && !w.cfg.Terms.Has(trial.Model) && w.cfg.Models.Open == nil:
		w.cfg.Logger.Warn("the trial of a model ends: this worker was not given it", "model", trial.Model)
		trial = nil
	case trial == nil && shadow != nil && shadow.Model == w.cfg.Terms.Shadow:
		trial = &ledger.Trial{Model: shadow.Model}
	}
	return trial
}

// assignOwnRoles gives our models their roles after the ledger's end, where this worker
// serves. The model that serves there must be one of ours, unless another epoch begins.
func (w *worker) assignOwnRoles() error {
	serves := cmp.Or(w.replay.Last().Serves, w.cfg.Terms.Model)
	if !w.cfg.Terms.Has(serves) {
		if w.begins == nil {
			return fmt.Errorf("ledger %s: model %s was promoted, and this is model %s: start with --model for the one "+
				"that serves", w.cfg.Terms.Names.Ledger, serves, w.cfg.Terms.Model)
		}
		serves = w.cfg.Terms.Model
	}
	shadow := w.cfg.Terms.Shadow
	if serves == shadow {
		shadow = w.cfg.Terms.Model
	}
	if s := w.replay.Last().Shadow; s != nil && s.Model != serves && s.Model != shadow {
		w.cfg.Logger.Warn("the model in the shadow was not given, so it stops here", "model", s.Model)
	}
	if a, ok := w.replay.Engine.(replay.RoleAssigner); ok {
		a.AssignRoles(serves, shadow)
	}
	return nil
}
