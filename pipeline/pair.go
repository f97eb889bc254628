package pipeline

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// Tandem is an engine that serves and, if there are two models, another in its
// shadow: it steps the same windows, on a graph and with a posterior of its own,
// and what it says is scored and not served. What either makes of the stream, its
// chain too, does not depend on which of them serves, nor on whether the other is
// there at all. So a shadow costs what an engine costs, in time and in memory;
// and where there is none, nothing.
//
// The embedded engine is the one that serves.
type Tandem struct {
	*Engine
	shadow *Engine // nil where there is none

	// The models' parts as commands know them, see Cast.
	serves, inShadow string
}

// NewTandem makes engines at window 0 for one model or for two, of which the
// first serves. Two must be different, and agree on classes and features.
func NewTandem(cfg Config, models ...*model.Model) (*Tandem, error) {
	if err := together(models); err != nil {
		return nil, err
	}
	engines := make([]*Engine, len(models))
	for i, m := range models {
		var err error
		if engines[i], err = New(m, cfg); err != nil {
			return nil, err
		}
	}
	return inTandem(engines), nil
}

// together says why models cannot run beside each other.
func together(models []*model.Model) error {
	switch len(models) {
	case 1:
		return nil
	case 2:
	default:
		panic(fmt.Sprintf("pipeline: %d models in tandem", len(models)))
	}
	a, b := models[0], models[1]
	switch {
	case a.ID == b.ID:
		return fmt.Errorf("the model in the shadow is the one that serves, %s: give another file", a.ID)
	case !slices.Equal(a.Classes, b.Classes):
		return fmt.Errorf("model %s has the classes %.100q, and model %s has %.100q: a shadow needs the same, in the same order", a.ID, a.Classes, b.ID, b.Classes)
	case a.Encoder.In() != b.Encoder.In():
		return fmt.Errorf("model %s takes %d features, and model %s takes %d: a shadow sees the same events", a.ID, a.Encoder.In(), b.ID, b.Encoder.In())
	}
	return nil
}

func inTandem(engines []*Engine) *Tandem {
	t := &Tandem{Engine: engines[0], serves: engines[0].model.ID}
	if len(engines) == 2 {
		t.shadow, t.inShadow = engines[1], engines[1].model.ID
	}
	return t
}

// Shadow returns the engine in the shadow, nil where there is none. It is the
// tandem's own: it may be asked, and not stepped.
func (t *Tandem) Shadow() *Engine { return t.shadow }

// Cast says which model serves from the next window on, and which is in its
// shadow, "" for none: what the ledger says, or who takes over. A model that is
// not here has its part all the same: commands are obeyed as they were when it was.
func (t *Tandem) Cast(serves, shadow string) {
	t.serves, t.inShadow = serves, shadow
	if t.shadow != nil && t.shadow.model.ID == serves {
		t.Engine, t.shadow = t.shadow, t.Engine
	}
}

// Step takes the next window, as [Engine.Step] does, and then does what the
// window's commands say.
func (t *Tandem) Step(w *event.Window) *event.Outcome {
	events := *w
	events.Commands = nil
	out := t.Engine.Step(&events)
	if t.shadow != nil {
		out.Shadow = t.shadow.Step(&events)
	}
	served := t.serves
	for i := range w.Commands {
		t.obey(&w.Commands[i], out)
	}
	if t.serves != served {
		out.Promoted = t.serves
	}
	return out
}

// Recycle gives back an outcome of the tandem's, as [Engine.Recycle] does.
func (t *Tandem) Recycle(out *event.Outcome) {
	t.Engine.Recycle(out)
	if t.shadow != nil && out.Shadow != nil {
		t.shadow.Recycle(out.Shadow)
	}
}

func (t *Tandem) obey(c *event.Command, out *event.Outcome) {
	switch {
	case c.Name == event.Forget: // whoever steps the windows exchanges the engine
	case c.Name != event.Promote:
		decline(c, out)
	case c.Model == t.serves: // it was told twice
	case t.inShadow == "":
		refuse(out, c.Origin, event.ImpossibleCommand, fmt.Sprintf("promote %.40s: there is no model in the shadow", c.Model))
	case c.Model != t.inShadow:
		refuse(out, c.Origin, event.ImpossibleCommand, fmt.Sprintf("promote %.40s: the model in the shadow is %s", c.Model, t.inShadow))
	default:
		t.Cast(t.inShadow, t.serves)
	}
}

// behind is what the names of a shadow's tensors begin with in a snapshot, and,
// behind metaOwn, those of its strings.
const behind = "shadow."

// Snapshot begins to take down both engines, as [Engine.Snapshot] does one. The
// names of the shadow's tensors begin with "shadow.".
func (t *Tandem) Snapshot(meta map[string]string) *Snapshot {
	if t.shadow == nil {
		return t.Engine.Snapshot(meta)
	}
	return takeDown(meta, t.Engine, t.shadow)
}

// ErrNotThere is what an error wraps when a snapshot is whole and does not hold a
// model that is asked for.
var ErrNotThere = errors.New("not in the snapshot")

// RestoreTandem makes a tandem of a snapshot, as [Restore] makes an engine, of one
// model or of two. Which of two serves, the snapshot says; of a snapshot of two,
// one may be left behind. A model that is not in it is an error that wraps
// [ErrNotThere].
func RestoreTandem(cfg Config, r io.ReaderAt, size int64, models ...*model.Model) (t *Tandem, meta map[string]string, err error) {
	if err := together(models); err != nil {
		return nil, nil, err
	}
	if t, meta, err = restoreTandem(cfg, r, size, models); err != nil {
		return nil, nil, fmt.Errorf("snapshot: %w", err)
	}
	return t, meta, nil
}

func restoreTandem(cfg Config, r io.ReaderAt, size int64, models []*model.Model) (*Tandem, map[string]string, error) {
	file, err := safetensors.NewReader(r, size)
	if err != nil {
		return nil, nil, err
	}
	all := file.Metadata()
	files := map[string]*safetensors.Reader{metaOwn + behind: file.Under(behind), metaOwn: file}
	var engines []*Engine
	for _, own := range []string{metaOwn, metaOwn + behind} { // the one that serves first
		i := slices.IndexFunc(models, func(m *model.Model) bool { return m.ID == all[own+metaModel] })
		if i < 0 {
			continue
		}
		e, err := restored(models[i], cfg, files[own], own)
		if err != nil {
			return nil, nil, err
		}
		engines = append(engines, e)
	}
	for _, m := range models {
		if !slices.ContainsFunc(engines, func(e *Engine) bool { return e.model == m }) {
			return nil, nil, fmt.Errorf("model %s: %w, which is of model %s", m.ID, ErrNotThere, all[metaOwn+metaModel])
		}
	}
	if len(engines) == 2 && engines[0].next != engines[1].next {
		return nil, nil, damaged("one engine is at window %d, the other at %d", engines[0].next, engines[1].next)
	}
	return inTandem(engines), callers(all), nil
}
