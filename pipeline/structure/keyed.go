package structure

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// Keyed gives events by name the attributes and neighbours that keys make, see [keys.State]. Methods do nothing on nil.
type Keyed struct {
	state   *keys.State
	columns []string
	hidden  map[string]bool // keys that are no attributes
	id      func(v int32) event.ID
}

// NewKeyed returns what gives events to the keys of a model's schema, nil if it has none. classes must have those whose
// labels are told; id returns the id of a node.
func NewKeyed(s *attributes.Schema, classes []string, id func(v int32) event.ID) (*Keyed, error) {
	if s == nil || s.Keys == nil {
		return nil, nil
	}
	state, err := keys.New(s.Keys, classes)
	k := &Keyed{state: state, columns: s.Keys.Columns(), hidden: make(map[string]bool), id: id}
	for name := range s.Keys {
		k.hidden[name] = !slices.ContainsFunc(s.Attributes, func(a attributes.Attribute) bool { return a.Name == name })
	}
	return k, err
}

// Derive returns an event with what its keys make of it: the event itself if it has no features by name. A node that is sent
// again, whose number is v, keeps what its first event got. enters reports whether the event is to be counted.
func (k *Keyed) Derive(node *event.Node, v int32, known bool) (full *event.Node, enters bool) {
	switch {
	case k == nil || known && node.Named == nil:
		return node, false
	case node.Named == nil:
		k.see(node)
		return node, true
	case known:
		if values, has := k.state.Of(v); has {
			return k.with(node, values, nil), false
		}
	}
	values, links := k.see(node)
	return k.with(node, values, links), true
}

// see has the state read an event, and returns what it makes of it. One without a time has that of its record.
func (k *Keyed) see(node *event.Node) ([]float64, []keys.To) {
	at := node.Time
	if at == 0 && node.Origin != nil {
		at = node.Origin.Time
	}
	k.state.Begin(at)
	for i := range node.Named {
		switch a := &node.Named[i]; a.Kind {
		case event.Number:
			k.state.Number(a.Name, a.Number)
		case event.Text, event.Bool:
			k.state.Text(a.Name, a.String())
		}
	}
	return k.state.End()
}

// with returns an event with attributes and neighbours.
func (k *Keyed) with(node *event.Node, values []float64, links []keys.To) *event.Node {
	full := *node
	full.Named = make([]event.Attribute, 0, len(node.Named)+len(values))
	for _, a := range node.Named {
		if !k.hidden[a.Name] {
			full.Named = append(full.Named, a)
		}
	}
	for i, name := range k.columns {
		a := event.Attribute{Name: name}
		if !math.IsNaN(values[i]) {
			a.Kind, a.Number = event.Number, values[i]
		}
		full.Named = append(full.Named, a)
	}
	if len(links) == 0 {
		return &full
	}
	full.Neighbours = slices.Clone(node.Neighbours)
	full.Marks = append(slices.Clone(node.Marks), make([]event.Mark, len(node.Neighbours)-len(node.Marks))...)
	for _, l := range links {
		full.Neighbours = append(full.Neighbours, k.id(l.Node))
		full.Marks = append(full.Marks, event.Mark{Kind: l.Kind})
	}
	return &full
}

// Enter counts the event that was derived last, as that of node v.
func (k *Keyed) Enter(v int32, enters bool) {
	if enters {
		k.state.Enter(v)
	}
}

// left has no more edges go to nodes.
func (k *Keyed) left(nodes []int32) {
	for _, v := range nodes {
		k.state.Leave(v)
	}
}

// labelled counts that the class of node v changes.
func (k *Keyed) labelled(v, was, is int32) {
	if k != nil {
		k.state.Label(v, was, is)
	}
}

// count reports how many keys there are.
func (k *Keyed) count(out *event.Outcome) {
	if k != nil {
		out.Figures.Set(event.Keys, float64(k.state.Len()))
		out.Figures.Count(event.KeysDropped, k.state.TakeDropped())
	}
}

// declare declares the state by key of count nodes.
func (k *Keyed) declare(s *snapshot.Schema, count int, gone func(v int32) bool) {
	if k != nil {
		k.state.State(s, count, gone)
	}
}
