package pipeline

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// Pair is an engine that serves, and perhaps another one in its shadow, for another
// model: it steps the same windows, on a graph and with a posterior of its own, and
// its predictions are scored and not published. What either makes of the stream, its
// chain too, does not depend on which of them serves, nor on whether the other is
// there. A shadow costs what an engine costs, in time and in memory.
type Pair struct {
	engines []*Engine // the one that serves, then its shadow if there is one
	roles   roles
}

// roles are the ids of the models that serve and shadow, as commands know them. A
// model may have a role without being here, see [Pair.AssignRoles].
type roles struct{ serves, shadow string } // shadow is "" for none

// NewPair makes engines at window 0 for one model or for two, of which the first
// serves. Two must be different, and agree on classes and features.
func NewPair(cfg Config, models ...*model.Model) (*Pair, error) {
	if err := compatible(models); err != nil {
		return nil, err
	}
	engines := make([]*Engine, len(models))
	for i, m := range models {
		var err error
		if engines[i], err = New(m, cfg); err != nil {
			return nil, err
		}
	}
	return pairOf(engines), nil
}

// compatible says why models cannot run side by side.
func compatible(models []*model.Model) error {
	switch len(models) {
	case 1:
		return nil
	case 2:
	default:
		panic(fmt.Sprintf("pipeline: a pair of %d models", len(models)))
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

func pairOf(engines []*Engine) *Pair {
	p := &Pair{engines: engines, roles: roles{serves: engines[0].model.ID}}
	for _, shadow := range engines[1:] {
		p.roles.shadow = shadow.model.ID
	}
	return p
}

// Serving returns the engine that serves. It belongs to the pair: it must not be
// stepped.
func (p *Pair) Serving() *Engine { return p.engines[0] }

// Shadow returns the engine in the shadow, nil where there is none. It belongs to
// the pair, too.
func (p *Pair) Shadow() *Engine {
	if len(p.engines) == 1 {
		return nil
	}
	return p.engines[1]
}

// AssignRoles says which model serves from the next window on, and which is in its
// shadow, "" for none: as the ledger or a new owner has it. A model has its role
// whether it is here or not, so that commands of the past are obeyed and refused
// as they were when it was.
func (p *Pair) AssignRoles(serves, shadow string) {
	p.roles = roles{serves, shadow}
	for i, e := range p.engines {
		if e.model.ID == serves {
			p.engines[0], p.engines[i] = p.engines[i], p.engines[0]
			return
		}
	}
}

// Step takes the next window, as [Engine.Step] does, and then carries out the
// window's commands.
func (p *Pair) Step(w *event.Window) *event.Outcome {
	events := *w
	events.Commands = nil
	out := p.Serving().Step(&events)
	for _, shadow := range p.engines[1:] {
		out.Shadow = shadow.Step(&events)
	}
	served := p.roles.serves
	for i := range w.Commands {
		p.obey(&w.Commands[i], out)
	}
	if p.roles.serves != served {
		out.Promoted = p.roles.serves
	}
	return out
}

// Recycle gives back an outcome of the pair's, as [Engine.Recycle] does.
func (p *Pair) Recycle(out *event.Outcome) {
	for _, e := range p.engines {
		e.Recycle(out)
		out = out.Shadow
	}
}

// obey carries out a command, or refuses it.
func (p *Pair) obey(c *event.Command, out *event.Outcome) {
	switch {
	case c.Name == event.Forget: // the caller steps a fresh engine from here on
	case c.Name != event.Promote:
		decline(c, out)
	case c.Model == p.roles.serves: // it was promoted before
	case p.roles.shadow == "":
		refuse(out, c.Origin, event.ImpossibleCommand, fmt.Sprintf("promote %.40s: there is no model in the shadow", c.Model))
	case c.Model != p.roles.shadow:
		refuse(out, c.Origin, event.ImpossibleCommand, fmt.Sprintf("promote %.40s: the model in the shadow is %s", c.Model, p.roles.shadow))
	default:
		p.AssignRoles(p.roles.shadow, p.roles.serves)
	}
}
