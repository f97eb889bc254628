package pipeline

import "github.com/gvbll/gvbll/pipeline/event"

// Waits reports whether the prediction of a node in the graph waits for its label.
func (e *Engine) Waits(id event.ID) bool {
	v, known := e.nodes.Number(id)
	return known && e.pending.Waits(v)
}

// Overdue is [structure.Nodes.Overdue] after Enter.
func (e *Engine) Overdue() []event.Node { return e.nodes.Overdue() }
