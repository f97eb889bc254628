package structure

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// keyed gives events by name the attributes and neighbours that the keys of the model's schema make, see [keys.State].
// Methods do nothing on nil.
type keyed struct {
	state   *keys.State
	numbers *numbers
	columns []string
	hidden  map[string]bool // keys that are no attributes
	copies  []*keyedEvent   // of the window, the first used ones; the others are to be used again
	used    int
}

// keyedEvent is a copy of an event, with more attributes and neighbours, and their memory.
type keyedEvent struct {
	node       event.Node
	named      []event.Attribute
	neighbours []event.ID
	marks      []event.Mark
	own        int // of neighbours: the others come from keys
}

// newKeyed returns nil for a schema without keys. classes must have those whose labels are told.
func newKeyed(schema *attributes.Schema, classes []string, ids *numbers) *keyed {
	if schema == nil || schema.Keys == nil {
		return nil
	}
	state, err := keys.New(schema.Keys, classes)
	if err != nil {
		panic(err) // a model is checked when it is read
	}
	k := &keyed{state: state, numbers: ids, columns: schema.Keys.Columns(), hidden: make(map[string]bool)}
	for name := range schema.Keys {
		k.hidden[name] = !slices.ContainsFunc(schema.Attributes, func(a attributes.Attribute) bool { return a.Name == name })
	}
	return k
}

// derive returns an event with what its keys make of it: the event itself if it has no features by name. A node that is sent
// again, whose number is v, keeps what its first event got.
func (k *keyed) derive(node *event.Node, v int32, known bool) (full *event.Node, fresh bool) {
	if k == nil || node.Named == nil {
		return node, k != nil && !known
	}
	if k.used == len(k.copies) {
		k.copies = append(k.copies, &keyedEvent{})
	}
	c := k.copies[k.used]
	k.used++
	c.node, c.own = *node, len(node.Neighbours)
	c.named = c.named[:0]
	for _, a := range node.Named {
		if !k.hidden[a.Name] {
			c.named = append(c.named, a)
		}
	}
	var values []float64
	var links []keys.To
	if has := false; known {
		values, has = k.state.Of(v)
		fresh = !has
	} else {
		fresh = true
	}
	if fresh {
		values, links = See(k.state, node)
	}
	for i, x := range values {
		a := event.Attribute{Name: k.columns[i], Kind: event.Number, Number: x}
		if math.IsNaN(x) {
			a.Kind, a.Number = event.Gap, 0
		}
		c.named = append(c.named, a)
	}
	c.node.Named = c.named
	c.link(links, k.numbers)
	return &c.node, fresh
}

// See has a state by key read an event, and returns what it makes of it. One without a time has that of its record.
func See(state *keys.State, node *event.Node) ([]float64, []keys.To) {
	at := node.Time
	if at == 0 && node.Origin != nil {
		at = node.Origin.Time
	}
	state.Begin(at)
	for i := range node.Named {
		switch a := &node.Named[i]; a.Kind {
		case event.Number:
			state.Number(a.Name, a.Number)
		case event.Text:
			state.Text(a.Name, a.Text)
		case event.Bool:
			state.Text(a.Name, a.String())
		}
	}
	return state.End()
}

// link adds neighbours.
func (c *keyedEvent) link(links []keys.To, ids *numbers) {
	if len(links) == 0 {
		return
	}
	c.neighbours = append(c.neighbours[:0], c.node.Neighbours...)
	marked := c.node.Marks != nil || slices.ContainsFunc(links, func(l keys.To) bool { return l.Kind != "" })
	if c.marks = append(c.marks[:0], c.node.Marks...); marked {
		c.marks = append(c.marks, make([]event.Mark, c.own-len(c.marks))...)
	}
	for _, l := range links {
		c.neighbours = append(c.neighbours, ids.id(l.Node))
		if marked {
			c.marks = append(c.marks, event.Mark{Kind: l.Kind})
		}
	}
	if c.node.Neighbours = c.neighbours; marked {
		c.node.Marks = c.marks
	}
}

// enter counts the event that was derived last, as that of node v, which is a new one.
func (k *keyed) enter(v int32, node *event.Node, fresh bool) {
	switch {
	case !fresh:
	case node.Named == nil:
		k.state.Skip(v)
	default:
		k.state.Enter(v)
	}
}

// withdraw takes neighbours that leave in this window out of what keys made.
func (k *keyed) withdraw() {
	if k == nil {
		return
	}
	for _, c := range k.copies[:k.used] {
		node, kept := &c.node, c.own
		for i := c.own; i < len(node.Neighbours); i++ {
			if _, known := k.numbers.index.number(node.Neighbours[i]); known {
				node.Neighbours[kept] = node.Neighbours[i]
				if node.Marks != nil {
					node.Marks[kept] = node.Marks[i]
				}
				kept++
			}
		}
		if node.Neighbours = node.Neighbours[:kept]; node.Marks != nil {
			node.Marks = node.Marks[:kept]
		}
	}
}

// left has no more edges go to nodes.
func (k *keyed) left(nodes []int32) {
	if k != nil {
		for _, v := range nodes {
			k.state.Leave(v)
		}
	}
}

// labelled counts that the class of node v changes.
func (k *keyed) labelled(v, was, is int32) {
	if k != nil {
		k.state.Label(v, was, is)
	}
}

// count reports how many keys there are.
func (k *keyed) count(out *event.Outcome) {
	if k != nil {
		out.Figures.Set(event.Keys, float64(k.state.Len()))
		out.Figures.Count(event.KeysDropped, k.state.TakeDropped())
	}
}

// dropWindow forgets what points into the window's memory.
func (k *keyed) dropWindow() {
	if k == nil {
		return
	}
	for _, c := range k.copies[:k.used] {
		clear(c.named)
		clear(c.neighbours)
		c.node = event.Node{}
	}
	k.used = 0
}

// declare declares the state by key of count nodes.
func (k *keyed) declare(s *snapshot.Schema, count int) {
	if k != nil {
		k.state.State(s, count, k.numbers.gone)
	}
}
