package audit

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TestArrivals: which node events count as arrivals, window after window.
func TestArrivals(t *testing.T) {
	id := func(n int64) event.ID { return event.ID{Num: n} }
	seven := event.ID{Str: "7"}
	known := arrivals{make(map[event.ID]bool)}
	for _, c := range []struct {
		name   string
		nodes  []event.Node
		forgot []event.ID
		want   map[event.ID]bool
	}{
		{"the first, of which one is context", []event.Node{{ID: id(1)}, {ID: id(2), Context: true}}, nil, map[event.ID]bool{id(1): true, id(2): false}},
		{"an update, and a node that comes twice", []event.Node{{ID: id(1)}, {ID: id(3)}, {ID: id(3)}}, nil, map[event.ID]bool{id(3): true}},
		{"a node that leaves at once", []event.Node{{ID: id(4)}, {ID: id(4), Departed: true}}, nil, map[event.ID]bool{}},
		{"a node that leaves", []event.Node{{ID: id(1), Departed: true}}, nil, map[event.ID]bool{}},
		{"and comes again", []event.Node{{ID: id(1)}}, nil, map[event.ID]bool{id(1): true}},
		{"two nodes of one key come", []event.Node{{ID: id(7)}, {ID: seven}}, nil, map[event.ID]bool{id(7): true, seven: true}},
		{"both leave by the key", []event.Node{{ID: id(7), Departed: true, ByKey: true}}, nil, map[event.ID]bool{}},
		{"and come again", []event.Node{{ID: id(7)}, {ID: seven}}, nil, map[event.ID]bool{id(7): true, seven: true}},
		{"a node that was forgotten comes again", []event.Node{{ID: id(3)}, {ID: id(1)}}, []event.ID{id(3)}, map[event.ID]bool{id(3): true}},
		{"a node that is refused", []event.Node{{ID: id(9), Origin: &event.Origin{Offset: 1}}}, nil, map[event.ID]bool{}},
		{"and one that is not", []event.Node{{ID: id(9)}}, nil, map[event.ID]bool{id(9): true}},
	} {
		w := &event.Window{Nodes: c.nodes, Commands: []event.Command{{Name: event.Forget, Nodes: c.forgot}}}
		for i := range w.Nodes {
			if w.Nodes[i].Origin == nil {
				w.Nodes[i].Origin = &event.Origin{}
			}
		}
		got := known.take(w, map[place]bool{{offset: 1}: true}, c.forgot != nil)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: arrivals, -want +got\n%s", c.name, diff)
		}
	}
	// After a checkpoint, every node of the window may be an arrival.
	w := &event.Window{Nodes: []event.Node{{ID: id(1), Origin: &event.Origin{}}, {ID: id(1), Departed: true, Origin: &event.Origin{}}}}
	if got := (arrivals{}).take(w, nil, false); !maps.Equal(got, map[event.ID]bool{id(1): true}) {
		t.Errorf("without a census the arrivals are %v, want node 1", got)
	}
}
