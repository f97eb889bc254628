package replay

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TestExclusions: the events, labels and edges of a node that was forgotten in a window are
// removed from the windows before it, and kept from that window on. Integer and string ids
// with the same text are different nodes.
func TestExclusions(t *testing.T) {
	number, text, other := event.ID{Num: 7}, event.ID{Str: "7"}, event.ID{Num: 8}
	var excluded exclusions
	excluded.add(5, []event.Command{{Name: event.Forget, Nodes: []event.ID{number}}, {Name: event.Promote, Nodes: []event.ID{other}}})
	excluded.add(3, []event.Command{{Name: event.Forget, Nodes: []event.ID{number}}})
	window := func(n int64) *event.Window {
		return &event.Window{
			Number: n,
			Nodes: []event.Node{
				{ID: number, Neighbours: []event.ID{other}},
				{ID: text, Neighbours: []event.ID{number, other, number}},
				{ID: other, Neighbours: []event.ID{number}},
				{ID: number, Departed: true},
				{ID: number, Departed: true, ByKey: true},
				{ID: number, Edges: []event.Edge{{Source: number, Target: other}, {Source: other, Target: text}, {Source: other, Target: number}}},
				{ID: number, Featureless: true, Neighbours: []event.ID{other}},
				{ID: other, Featureless: true, Neighbours: []event.ID{number, text}},
			},
			Labels:  []event.Label{{Node: number}, {Node: text}},
			Refused: []event.Refusal{{Reason: event.Empty}},
		}
	}
	w := window(4)
	excluded.remove(w)
	want := &event.Window{
		Number: 4,
		Nodes: []event.Node{
			{ID: text, Neighbours: []event.ID{other}},
			{ID: other},
			{ID: number, Departed: true, ByKey: true}, // may be the departure of text, which has the same key
			{ID: number, Edges: []event.Edge{{Source: other, Target: text}}},
			{ID: other, Featureless: true, Neighbours: []event.ID{text}},
		},
		Labels: []event.Label{{Node: text}}, Refused: []event.Refusal{{Reason: event.Empty}},
	}
	if d := cmp.Diff(want, w, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("the window before, -want +got\n%s", d)
	}
	w = window(5)
	excluded.remove(w)
	if d := cmp.Diff(window(5), w); d != "" {
		t.Errorf("the window of the command, -want +got\n%s", d)
	}
	excluded.add(6, []event.Command{{Name: event.Forget, Nodes: []event.ID{text}}})
	w = window(4)
	excluded.remove(w)
	if len(w.Nodes) != 3 || len(w.Nodes[1].Edges)+len(w.Nodes[2].Neighbours) != 0 || len(w.Labels) != 0 {
		t.Errorf("number and text forgotten: %+v, want one node, two events without edges, and no labels", w)
	}

	never := []event.Command{{Name: event.Forget, Nodes: []event.ID{{Str: "9"}, {Num: 9}, text}}, {Name: event.Forget, Nodes: []event.ID{{Str: "a"}, other}}}
	excluded.add(7, never)
	w = window(4)
	excluded.remove(w)
	if d := cmp.Diff([]string{"9", "a"}, excluded.unknown(never)); d != "" {
		t.Errorf("nodes that no event names, -want +got\n%s", d)
	}
}
