package replay

import (
	"fmt"

	"github.com/gvbll/gvbll/topics/ledger"
)

// RoleAssigner is an engine of two models, of which one serves and the other is in
// its shadow. Each has its own chain in the ledger, which does not depend on its role.
// So a worker that has only one of them, or another second one, can replay the same
// windows and compare the chain of the model that it has.
type RoleAssigner interface {
	Engine
	// AssignRoles sets the model that serves from the next window on and the one in
	// its shadow, "" for none. The engine need not have these models: it then treats
	// commands as an engine that has them would.
	AssignRoles(serves, shadow string)
}

// Has reports whether the engine has the model.
func (t *Terms) Has(model string) bool {
	return model == t.Model || model != "" && model == t.Shadow
}

// checkRole returns an error, with the remedy, if another model than the engine's serves
// after the record's window, and a command decides between the two.
func (t *Terms) checkRole(r *ledger.Record) error {
	name, model, serves := t.Names.Ledger, t.Model, r.Serves()
	_, stepped := r.ChainOf(model)
	switch {
	case t.Has(serves) || !stepped:
		return nil
	case r.Promoted == "":
		return fmt.Errorf("ledger %s: model %s is in the shadow of model %s: start with --model and --shadow for the "+
			"two, in any order, or promote it first ('gvbll promote')", name, model, serves)
	}
	return fmt.Errorf("ledger %s: model %s was promoted after window %d, and this is model %s: start with --model for "+
		"the new one, and --shadow for the old one to keep it in the shadow", name, serves, r.Window, model)
}

// assignRoles gives the models the roles that they had in a window of the ledger. If
// another model served that window, our models' outcomes are compared by their next
// chains in the ledger.
func assignRoles(e Engine, r *ledger.Record) {
	if a, ok := e.(RoleAssigner); ok {
		shadow := ""
		if r.Shadow != nil {
			shadow = r.Shadow.Model
		}
		a.AssignRoles(r.Model, shadow)
	}
}
