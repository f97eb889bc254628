package structure_test

import (
	"slices"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// TestDropped: an update that says which neighbour is no more removes that edge alone, in the window of the edge, too; an event
// or a label that says nothing changes nothing.
func TestDropped(t *testing.T) {
	id := func(s string) event.ID { return event.ID{Str: s} }
	payment := func(card string, dropped ...string) event.Node {
		n := event.Node{Origin: &event.Origin{}, ID: id("pay:1"), Dense: []float32{1}, Neighbours: []event.ID{id(card), id("shop")}, Implicit: []event.ID{id(card), id("shop")}}
		for _, d := range dropped {
			n.Dropped = append(n.Dropped, id(d))
		}
		return n
	}
	nothing := event.Node{Origin: &event.Origin{}, Edges: []event.Edge{}}
	for what, windows := range map[string][][]event.Node{
		"in two windows":         {{payment("c1")}, {nothing, payment("c2", "c1")}},
		"in one window":          {{payment("c1"), nothing, payment("c2", "c1")}},
		"of one that never came": {{payment("c2")}, {payment("c2", "c1")}},
		"and back":               {{payment("c1")}, {payment("c2", "c1")}, {payment("c1", "c2")}, {payment("c2", "c1")}},
	} {
		h, err := pipeline.NewHistory(pipeline.HistoryConfig{Features: 1, Classes: []string{"a"}})
		if err != nil {
			t.Fatal(err)
		}
		for i, nodes := range windows {
			h.Step(&event.Window{Number: int64(i), Nodes: nodes, Labels: []event.Label{{Origin: &event.Origin{}, Skip: true}}})
		}
		nodes, edges := h.Nodes(func(*pipeline.Recorded) bool { return true })
		var near []string
		for _, e := range edges {
			for _, v := range []int32{e.Source, e.Target} {
				if nodes[v].ID.Str != "pay:1" {
					near = append(near, nodes[v].ID.Str)
				}
			}
		}
		slices.Sort(near)
		if !slices.Equal(slices.Compact(near), []string{"c2", "shop"}) {
			t.Errorf("%s: the payment has edges to %q, want c2 and shop", what, near)
		}
	}
}
