package structure

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/pipeline/event"
)

// inputs makes what the encoder takes of an event's features.
type inputs struct {
	numbers    *numbers
	width      int // of the encoder
	normalizer *gnn.Normalizer
	named      *attributes.Encoder // of the model's schema, nil if it has none
	keepsNames bool
	passing    *passing // nil for a model of nodes
}

// begin begins a window.
func (n *inputs) begin() {
	if n.named != nil {
		n.named.Reset()
	}
}

// encode returns the features of an event, or why they do not fit the model. Features by
// name are encoded by the model's schema, and the event's vector is set to the result, which
// is valid until the next window enters.
func (n *inputs) encode(node *event.Node) (x gnn.Vector, why event.Reason, detail string) {
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
			return x, event.PartialFeatures, fmt.Sprintf("features by name, and the model has %d without names: train "+
				"it on a table with names (docs/data.md)", n.width)
		}
		var err error
		if x, err = n.encodeNamed(node); err != nil {
			return x, event.BadFeatures, err.Error()
		}
		node.Dense, node.Index, node.Value = x.Dense, x.Index, x.Value
	}
	x = features(node)
	d := n.width
	switch {
	case x.Dense != nil && len(x.Dense) != d:
		return x, event.WrongDimension, fmt.Sprintf("%d features, the model has %d", len(x.Dense), d)
	case len(x.Index) > 0 && int64(x.Index[len(x.Index)-1]) >= int64(d):
		return x, event.WrongDimension, fmt.Sprintf("feature index %d, the model has %d features", x.Index[len(x.Index)-1], d)
	}
	return x, "", ""
}

// try is encode of an event that does not enter, and so is not counted.
func (n *inputs) try(node *event.Node) (x gnn.Vector, why event.Reason, detail string) {
	x, why, detail = n.encode(node)
	if n.named != nil {
		n.named.TakeTally()
	}
	return x, why, detail
}

// encodeNamed encodes features by name: all of a node's, or, if updates may be partial, those
// that the event names on top of those that were kept.
func (n *inputs) encodeNamed(node *event.Node) (gnn.Vector, error) {
	if err := n.named.FitsTime(node.Time); err != nil {
		return gnn.Vector{}, err
	}
	if v, known := n.numbers.index.number(node.ID); known && n.numbers.kept != nil {
		n.named.Resume(node.Time, []byte(n.numbers.kept.at(v)))
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
	x := n.named.End()
	node.Odd = n.named.Odd()
	return x, nil
}

// count reports the window's values by name.
func (n *inputs) count(out *event.Outcome) {
	if n.named != nil {
		if t := n.named.TakeTally(); t.Rows > 0 {
			out.Odd.Attributes = (*event.Attributes)(&t)
		}
	}
}

// normalised returns the encoder's input for features x: x itself if the model does not
// normalise, or else a vector in the memory of dst.
func (n *inputs) normalised(dst, x gnn.Vector) gnn.Vector {
	if n.unnormalised() {
		return x
	}
	return n.normalizer.Apply(dst, x)
}

// unnormalised reports whether the model does not normalise features.
func (n *inputs) unnormalised() bool { return n.normalizer.Kind == gnn.NormalizeNone }
