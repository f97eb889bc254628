package structure

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
)

// Encode returns the features of an event, or why they do not fit the model. Features by
// name are encoded by the model's schema, and the event's vector is set to the result, which
// is valid until the next window enters.
func (n *Nodes) Encode(node *event.Node) (x gnn.Vector, why event.Reason, detail string) {
	switch {
	case n.passing != nil:
		if x, why, detail = n.passing.vector(node); why == "" {
			node.Dense = x.Dense
		}
		return x, why, detail
	case node.Graph != nil:
		return x, event.BadFeatures, "a graph with nodes of its own, and the model classifies nodes"
	}
	if node.Named != nil && !n.keepsNames {
		if n.named == nil {
			return x, event.PartialFeatures, fmt.Sprintf("features by name, and the model has %d without names: train it on a table with names (docs/data.md)", n.encoder.In())
		}
		var err error
		if x, err = n.encodeNamed(node); err != nil {
			return x, event.BadFeatures, err.Error()
		}
		node.Dense, node.Index, node.Value = x.Dense, x.Index, x.Value
	}
	x = Features(node)
	d := n.encoder.In()
	switch {
	case x.Dense != nil && len(x.Dense) != d:
		return x, event.WrongDimension, fmt.Sprintf("%d features, the model has %d", len(x.Dense), d)
	case len(x.Index) > 0 && int64(x.Index[len(x.Index)-1]) >= int64(d):
		return x, event.WrongDimension, fmt.Sprintf("feature index %d, the model has %d features", x.Index[len(x.Index)-1], d)
	}
	return x, "", ""
}

// Try is Encode of an event that does not enter, and so is not counted.
func (n *Nodes) Try(node *event.Node) (x gnn.Vector, why event.Reason, detail string) {
	x, why, detail = n.Encode(node)
	if n.named != nil {
		n.named.TakeTally()
	}
	return x, why, detail
}

// encodeNamed encodes features by name: all of a node's, or, if updates may be partial, those
// that the event names on top of those that were kept.
func (n *Nodes) encodeNamed(node *event.Node) (gnn.Vector, error) {
	if err := n.named.FitsTime(node.Time); err != nil {
		return gnn.Vector{}, err
	}
	if v, known := n.index.number(node.ID); known && n.kept != nil {
		n.named.Resume(node.Time, []byte(n.kept.at(v)))
	} else {
		n.named.Begin(node.Time)
	}
	for i := range node.Named {
		a := &node.Named[i]
		var err error
		switch a.Kind {
		case event.Gap:
			n.named.Gap(a.Name)
		case event.Number:
			err = n.named.Number(a.Name, a.Number)
		case event.Bool:
			err = n.named.Bool(a.Name, a.Number != 0)
		case event.Text:
			err = n.named.Text(a.Name, a.Text)
		case event.Nested:
			err = n.named.Nested(a.Name)
		case event.Numbers:
			err = n.named.Vector(a.Name, a.Numbers)
		}
		if err != nil {
			return gnn.Vector{}, err
		}
	}
	return n.named.End(), nil
}

// countAttributes reports the window's values by name.
func (n *Nodes) countAttributes(out *event.Outcome) {
	if n.named != nil {
		if t := n.named.TakeTally(); t.Rows > 0 {
			out.Attributes = (*event.Attributes)(&t)
		}
	}
}
