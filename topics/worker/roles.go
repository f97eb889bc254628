package worker

import (
	"cmp"
	"fmt"

	"github.com/gvbll/gvbll/topics/ledger"
)

// RoleAssigner is an engine of two models, of which one serves and the other is in
// its shadow. Each has a chain of its own in the ledger, which is the same in either
// role; so a worker that has one of them alone, or another beside it, replays the
// same windows and compares what it can.
type RoleAssigner interface {
	Engine
	// AssignRoles says which model serves from the next window on and which is in its
	// shadow, "" for none. The engine need not have them: commands are obeyed as they
	// were by one that has.
	AssignRoles(serves, shadow string)
}

// has tells whether the engine has the model.
func (c *Config) has(model string) bool {
	return model == c.Model || model != "" && model == c.Shadow
}

// checkServes returns an error, with the remedy, when the engine does not have the
// model that serves behind the record's window.
func (c *Config) checkServes(r *ledger.Record) error {
	name, model, serves := c.Names.Ledger, c.Model, r.Serves()
	if c.has(serves) {
		return nil
	}
	_, stepped := r.ChainOf(model)
	switch {
	case stepped && r.Promoted == "":
		return fmt.Errorf("ledger %s: model %s is in the shadow of model %s: start with --model and --shadow for the two, in any order, or promote it first ('gvbll promote')", name, model, serves)
	case stepped:
		return fmt.Errorf("ledger %s: model %s was promoted behind window %d, and this is model %s: start with --model for the new one, and --shadow for the old if it is to go on beside it", name, serves, r.Window, model)
	}
	return fmt.Errorf("ledger %s belongs to model %s, and this is model %s: start the other model with --shadow beside the first, or under its own --prefix", name, serves, model)
}

// assignRoles gives the models the roles that they had in a window of the ledger.
// The window may have been served by a model that is not here: what ours made of it,
// their next chains in the ledger prove.
func (p *replayer) assignRoles(r *ledger.Record) {
	if a, ok := p.engine.(RoleAssigner); ok {
		shadow := ""
		if r.Shadow != nil {
			shadow = r.Shadow.Model
		}
		a.AssignRoles(r.Model, shadow)
	}
}

// assignOwnRoles gives the models that are here the roles in which an owner goes on
// behind the ledger's end. The model that serves there must be one of them.
func (p *replayer) assignOwnRoles() error {
	serves := cmp.Or(p.last.serves, p.cfg.Model)
	if !p.cfg.has(serves) {
		return fmt.Errorf("ledger %s: model %s was promoted, and this is model %s: start with --model for the one that serves", p.cfg.Names.Ledger, serves, p.cfg.Model)
	}
	shadow := p.cfg.Shadow
	if serves == shadow {
		shadow = p.cfg.Model
	}
	if s := p.last.shadow; s != nil && s.Model != serves && s.Model != shadow {
		p.cfg.Logger.Warn("the model in the shadow is not given any more, and is left behind", "model", s.Model)
	}
	if a, ok := p.engine.(RoleAssigner); ok {
		a.AssignRoles(serves, shadow)
	}
	return nil
}
