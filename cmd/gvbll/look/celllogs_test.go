package look

import (
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/retrain"
)

// TestKeysOfCells: a model whose keys link events of one account is not trained on all cells, where two accounts may have one number.
func TestKeysOfCells(t *testing.T) {
	l := &Log{cells: []*Log{{}, {}}}
	serving := &model.Model{Meta: model.Meta{Schema: &attributes.Schema{Keys: keys.Declared{"card": {}}}}}
	if _, err := l.Train(t.Context(), retrain.Config{Serving: serving}); err == nil || !strings.Contains(err.Error(), "give --cell") {
		t.Errorf("a model with keys is trained on all cells: error %v", err)
	}
}

// TestIdsOfCells: nodes of two cells never have one id, and the id that a node has in its own cell comes back, whatever it is.
func TestIdsOfCells(t *testing.T) {
	seen := make(map[event.ID]bool)
	for _, id := range []event.ID{
		{Num: 17}, {Str: "17"}, {Num: -3}, {Str: "-3"}, {Num: 0}, {Str: "0"}, {Str: "017"}, {Str: "a/b"}, {Str: `"17"`}, {Str: `"`}, {Str: "é\n"},
	} {
		for cell := range int32(12) {
			w := event.Window{
				Nodes: []event.Node{{
					ID: id, Neighbours: []event.ID{id}, Dropped: []event.ID{id}, Implicit: []event.ID{id}, Edges: []event.Edge{{Source: id, Target: id}},
				}},
				Labels: []event.Label{{Node: id}},
			}
			inCell(&w, cell)
			n := &w.Nodes[0]
			for _, other := range []event.ID{n.Neighbours[0], n.Dropped[0], n.Implicit[0], n.Edges[0].Source, n.Edges[0].Target, w.Labels[0].Node} {
				if other != n.ID {
					t.Errorf("%v of cell %d is %v and %v", id, cell, n.ID, other)
				}
			}
			if seen[n.ID] {
				t.Errorf("%v is another node, too", n.ID)
			}
			seen[n.ID] = true
			if own := inGraph(n.ID); own != id {
				t.Errorf("%v of cell %d comes back as %v", id, cell, own)
			}
		}
	}
}
