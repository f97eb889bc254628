package pipeline

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// Pair is the engine that serves and, optionally, a second engine in its shadow, for
// another model. Both step the same windows, each with its own graph and posterior. The
// shadow's predictions are scored but not published. Commands of the stream swap the
// roles of the two.
//
// Invariant: the state and the chain of each engine are a function of its model, the
// Config and the windows. They depend neither on its role nor on the other engine, so
// that a promoted model continues as if it had always served.
//
// Both engines are between windows whenever no method of the Pair is running, and at
// the same window. A shadow costs as much time and memory as the engine that serves. A
// Pair is used by one goroutine at a time.
type Pair struct {
	engines []*Engine // the serving engine, then the shadow if there is one
	roles   roles
}

// roles are the ids of the models that serve and shadow, as of the last command. They
// may name a model that has no engine here, see [Pair.AssignRoles].
type roles struct{ serves, shadow string } // shadow is "" for none

// NewPair returns a pair at window 0 for one model or two, of which the first serves.
// Two models must differ, and have the same number of features. The classes of one are the
// first classes of the other, or the same.
func NewPair(cfg Config, models ...*model.Model) (*Pair, error) {
	if err := Compatible(models...); err != nil {
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

// Compatible returns an error if models, one or two, cannot form a pair.
func Compatible(models ...*model.Model) error {
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
		return fmt.Errorf("the shadow model is the one that serves, %s: give another file", a.ID)
	case !slices.Equal(a.Classes[:commonClasses(a, b)], b.Classes[:commonClasses(a, b)]):
		return fmt.Errorf("model %s has the classes %.100q, and model %s has %.100q: a shadow needs the same in the "+
			"same order, and any more behind them", a.ID, a.Classes, b.ID, b.Classes)
	case (a.Readout == nil) != (b.Readout == nil):
		return fmt.Errorf("one of the models %s and %s classifies graphs, and the other nodes: a shadow sees the same events", a.ID, b.ID)
	case a.NodeEncoder().In() != b.NodeEncoder().In():
		return fmt.Errorf("model %s has %d features, and model %s has %d: a shadow sees the same events", a.ID,
			a.NodeEncoder().In(), b.ID, b.NodeEncoder().In())
	}
	return nil
}

// commonClasses returns the number of classes that both models of a pair have: their first.
func commonClasses(a, b *model.Model) int { return min(len(a.Classes), len(b.Classes)) }

func pairOf(engines []*Engine) *Pair {
	p := &Pair{engines: engines, roles: roles{serves: engines[0].model.ID}}
	for _, shadow := range engines[1:] {
		p.roles.shadow = shadow.model.ID
	}
	return p
}

// Serving returns the engine that serves. It belongs to the pair: the caller may query
// it between windows, but must not step it.
func (p *Pair) Serving() *Engine { return p.engines[0] }

// Shadow returns the engine in the shadow, or nil. It belongs to the pair, too.
func (p *Pair) Shadow() *Engine {
	if len(p.engines) == 1 {
		return nil
	}
	return p.engines[1]
}

// AssignRoles sets which model serves from the next window on, and which is in its
// shadow, "" for none: a replay gets them from the ledger. A model without an engine
// here may have a role, so that a replay accepts and refuses past commands as the
// worker did that had both models.
func (p *Pair) AssignRoles(serves, shadow string) {
	p.roles = roles{serves, shadow}
	for i, e := range p.engines {
		if e.model.ID == serves {
			p.engines[0], p.engines[i] = p.engines[i], p.engines[0]
			return
		}
	}
}

// Step processes the next window in both engines, as [Engine.Step] does, and then
// executes its commands: a promotion takes effect from the next window on. The outcome
// belongs to the caller; the shadow's is in its field Shadow.
func (p *Pair) Step(w *event.Window) *event.Outcome {
	events := *w
	events.Commands = nil
	out := p.Serving().Step(&events)
	for _, shadow := range p.engines[1:] {
		out.Shadow = shadow.Step(&events)
		out.Compared = compare(p.Serving(), shadow, out)
		if shadow.asker != nil {
			shadow.asker.Follow(out.Predictions, shadow.nodes.Number)
		}
		if shadow.actor != nil {
			shadow.actor.Follow(out.Predictions, shadow.nodes.Number)
		}
	}
	served := p.roles.serves
	for i := range w.Commands {
		p.execute(&w.Commands[i], out)
	}
	if p.roles.serves != served {
		out.Promoted = p.roles.serves
	}
	return out
}

// Err returns the first error of the engines' [Engine.Err].
func (p *Pair) Err() error {
	for _, e := range p.engines {
		if err := e.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Close frees the blocks of the engines, see [Config.Blocks]. The pair cannot be used
// afterwards.
func (p *Pair) Close() {
	for _, e := range p.engines {
		e.pending.Close()
	}
}

// Take puts an engine that has stepped the same windows into the shadow, in place of the one
// there. The pair owns it from then on. It returns an error, and changes nothing, if the
// models cannot form a pair.
func (p *Pair) Take(shadow *Engine) error {
	serving := p.Serving()
	if shadow.next != serving.next {
		panic(fmt.Sprintf("pipeline: an engine at window %d for the shadow of one at %d", shadow.next, serving.next))
	}
	if err := Compatible(serving.model, shadow.model); err != nil {
		return err
	}
	for _, e := range p.engines[1:] {
		if e.snapshot == nil { // else its blocks are read, and freed with the process
			e.pending.Close()
		}
	}
	p.engines = []*Engine{serving, shadow}
	p.roles.shadow = shadow.model.ID
	return nil
}

// compare compares what two engines predicted for the nodes whose labels they both learned in
// the window of out, on the classes that both have: probabilities are those given that the
// class is one of these.
func compare(serving, shadow *Engine, out *event.Outcome) (c event.Comparison) {
	if len(out.Labelled) == 0 {
		return c
	}
	common := commonClasses(serving.model, shadow.model)
	place := make(map[event.ID]int, len(out.Shadow.Labelled))
	for i := range out.Shadow.Labelled {
		place[out.Shadow.Labelled[i].Node] = i
	}
	for i := range out.Labelled {
		j, both := place[out.Labelled[i].Node]
		if class := int(out.Labelled[i].Class); both && class < common {
			c.Labels++
			c.Lead += serving.scorer.LossAmong(i, class, common) - shadow.scorer.LossAmong(j, class, common)
		}
	}
	return c
}

// Recycle gives an outcome of Step back, with that of the shadow; see
// [Engine.Recycle].
func (p *Pair) Recycle(out *event.Outcome) {
	for _, e := range p.engines {
		if out == nil { // of before an engine was taken into the shadow
			return
		}
		e.Recycle(out)
		out = out.Shadow
	}
}

// execute executes a command, or refuses it.
func (p *Pair) execute(c *event.Command, out *event.Outcome) {
	switch {
	case c.Name == event.Forget, c.Name == event.Shadow: // the caller's
	case c.Name != event.Promote:
		out.Decline(c)
	case c.Model == p.roles.serves: // already promoted
	case p.roles.shadow == "":
		out.Refuse(c.Origin, event.ImpossibleCommand, fmt.Sprintf("promote %.40s: there is no model in the shadow", c.Model))
	case c.Model != p.roles.shadow:
		out.Refuse(c.Origin, event.ImpossibleCommand, fmt.Sprintf("promote %.40s: the model in the shadow is %s", c.Model, p.roles.shadow))
	default:
		p.AssignRoles(p.roles.shadow, p.roles.serves)
	}
}
