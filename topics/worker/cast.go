package worker

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Caster is an engine of two models, of which one serves and the other is in its
// shadow. Each has a chain of its own in the ledger, which is the same whether it
// serves or not; so a worker that has one of them alone, or another beside it,
// replays the same windows and compares what it can.
type Caster interface {
	Engine
	// Cast says which model serves from the next window on and which is in its
	// shadow, "" for none, whether or not the engine has them.
	Cast(serves, shadow string)
}

// standing is where the engines stand behind a window, as the ledger has it.
type standing struct {
	model, chain string // of the one that served
	shadow       *ledger.Shadow
	serves       string // the model that does from here on
}

func standingOf(r *ledger.Record) standing {
	return standing{model: r.Model, chain: r.Chain, shadow: r.Shadow, serves: r.Serves()}
}

// ours tells whether this worker has the model.
func (w *worker) ours(model string) bool {
	return model == w.cfg.Model || model != "" && model == w.cfg.Shadow
}

// meet looks at the ledger's end, and refuses at once to begin with models of which
// none is the one that serves there: the replay would only come to the same.
func (w *worker) meet(ctx context.Context) error {
	r, err := ledger.Newest(ctx, w.client, w.cfg.Names.Ledger)
	if err != nil {
		return err
	}
	w.met = -1
	if r == nil {
		return nil
	}
	w.met = r.Window
	return w.serves(r)
}

// serves returns an error, with the remedy, when the model that serves behind the
// record's window is not ours.
func (w *worker) serves(r *ledger.Record) error {
	name, model, serves := w.cfg.Names.Ledger, w.cfg.Model, r.Serves()
	if w.ours(serves) {
		return nil
	}
	_, took := r.ChainOf(model)
	switch {
	case took && r.Promoted == "":
		return fmt.Errorf("ledger %s: model %s is in the shadow of model %s: start with --model and --shadow for the two, in any order, or promote it first ('gvbll promote')", name, model, serves)
	case took:
		return fmt.Errorf("ledger %s: model %s was promoted behind window %d, and this is model %s: start with --model for the new one, and --shadow for the old if it is to go on beside it", name, serves, r.Window, model)
	}
	return fmt.Errorf("ledger %s belongs to model %s, and this is model %s: start the other model with --shadow beside the first, or under its own --prefix", name, serves, model)
}

// cast has the engine meet a window of the ledger with the parts that the models
// had. A window of the past may have been served by a model that is not here any
// more: what ours made of it, their next chains in the ledger prove.
func (w *worker) cast(r *ledger.Record) error {
	if !w.ours(r.Model) && r.Window > w.met {
		return w.serves(r)
	}
	if c, ok := w.engine.(Caster); ok {
		shadow := ""
		if r.Shadow != nil {
			shadow = r.Shadow.Model
		}
		c.Cast(r.Model, shadow)
	}
	return nil
}

// agree holds what the replay of a window gives to its record, for each model that
// is here and in the record.
func (w *worker) agree(r *ledger.Record, out *event.Outcome) error {
	for o := out; o != nil; o = o.Shadow {
		written, ok := r.ChainOf(cmp.Or(o.Model, w.cfg.Model))
		if got := hash(o.Chain); ok && got != written {
			return fmt.Errorf("ledger %s, window %d: replay gives %s where %s was written: inputs, model or program are not those that served it", w.cfg.Names.Ledger, r.Window, got, written)
		}
	}
	if out.Promoted != r.Promoted {
		return fmt.Errorf("ledger %s, window %d: replay promotes model %q where %q was written: commands or program are not those that served it", w.cfg.Names.Ledger, r.Window, out.Promoted, r.Promoted)
	}
	return nil
}

// own has the engine go on with the models that are here: this worker is the owner
// now. The model that serves must be one of them.
func (w *worker) own() error {
	serves := cmp.Or(w.stands.serves, w.cfg.Model)
	if !w.ours(serves) {
		return fmt.Errorf("ledger %s: model %s was promoted, and this is model %s: start with --model for the one that serves", w.cfg.Names.Ledger, serves, w.cfg.Model)
	}
	shadow := w.cfg.Shadow
	if serves == shadow {
		shadow = w.cfg.Model
	}
	if s := w.stands.shadow; s != nil && s.Model != serves && s.Model != shadow {
		w.cfg.Logger.Warn("a model that was in the shadow is left behind", "model", s.Model)
	}
	if c, ok := w.engine.(Caster); ok {
		c.Cast(serves, shadow)
	}
	return nil
}
