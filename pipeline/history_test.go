package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// TestHistoryIsTheEngines: after every window, a history has the nodes, edges and labels
// that an engine has, and the features that were sent last.
func TestHistoryIsTheEngines(t *testing.T) {
	for name, cfg := range map[string]pipeline.Config{"for ever": {}, "for a time": {Keep: structure.Keep{Nodes: 200, Edges: 100}, Bounds: pipeline.Bounds{Pending: 10}}} {
		t.Run(name, func(t *testing.T) { historyIsTheEngines(t, cfg) })
	}
}

func historyIsTheEngines(t *testing.T, cfg pipeline.Config) {
	rng := rand.New(rand.NewPCG(8, 8))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 1)
	e := pipelinetest.NewEngine(t, m, cfg)
	h, err := pipeline.NewHistory(pipeline.HistoryConfig{Features: m.Encoder.In(), Classes: m.Classes, Settings: cfg})
	if err != nil {
		t.Fatal(err)
	}
	l := pipelinetest.NewRandomStream(rng, m)
	here, expired := make(map[event.ID]bool), 0
	sent, came := make(map[event.ID]gnn.Vector), make(map[event.ID]int64)
	for range 150 {
		w := l.Window()
		for i := range w.Nodes {
			w.Nodes[i].Time += 50 * w.Number
		}
		e.Enter(w)
		for _, n := range append(slices.Clone(e.Overdue()), w.Nodes...) {
			if n.Departed {
				delete(here, n.ID)
				if n.ByKey && n.ID.Str == "" {
					delete(here, event.ID{Str: n.ID.String()})
				}
			} else if !n.OnlyEdges() {
				if sent[n.ID] = (gnn.Vector{Dense: n.Dense}); !here[n.ID] {
					here[n.ID], came[n.ID] = true, w.Number
				}
			}
		}
		expired += len(e.Overdue())
		e.Serve()
		out := e.Learn()
		h.Step(w)
		nodes, edges := h.Nodes(func(*pipeline.Recorded) bool { return true })
		near := make(map[event.ID][]string)
		for _, pair := range edges {
			u, v := nodes[pair.Source].ID, nodes[pair.Target].ID
			near[u], near[v] = append(near[u], fmt.Sprint(v)), append(near[v], fmt.Sprint(u))
		}
		labelled := 0
		for _, n := range nodes {
			r, there := e.Node(n.ID)
			if !there {
				t.Fatalf("window %d: node %v is in the history and not in the graph", w.Number, n.ID)
			}
			label := ""
			if n.Class >= 0 {
				label = h.Classes()[n.Class]
				labelled++
			}
			var want []string
			for _, x := range r.Neighbours {
				want = append(want, fmt.Sprint(x.Node))
			}
			slices.Sort(want)
			slices.Sort(near[n.ID])
			if n.Context != r.Context || label != r.Label || len(near[n.ID]) != r.Degree || len(want) == r.Degree && !slices.Equal(near[n.ID], want) {
				t.Fatalf("window %d, node %v: context %t, class %q, neighbours %v, want %t, %q and %v", w.Number, n.ID, n.Context, label, near[n.ID], r.Context, r.Label, want)
			}
			if !reflect.DeepEqual(n.Features.Dense, sent[n.ID].Dense) || n.Window != came[n.ID] {
				t.Fatalf("window %d, node %v: came in window %d with %v, want %d and %v", w.Number, n.ID, n.Window, n.Features, came[n.ID], sent[n.ID])
			}
		}
		if n := out.Figures; n.Int(event.GraphNodes) != len(nodes) || n.Int(event.GraphEdges) != len(edges) {
			t.Fatalf("window %d: %d nodes and %d edges, the graph has %d and %d", w.Number, len(nodes), len(edges), n.Int(event.GraphNodes), n.Int(event.GraphEdges))
		}
	}
	if (expired > 100) != (cfg.Keep != structure.Keep{}) {
		t.Errorf("%d departures and removals because of age", expired)
	}
}

// TestHistoryKeepsEveryClass: a history keeps labels of classes that the serving model lacks
// by name, a label that came before its node, and the first of two labels; an index means a
// class that was given. Of a flood of new classes it keeps 65,536.
func TestHistoryKeepsEveryClass(t *testing.T) {
	h, err := pipeline.NewHistory(pipeline.HistoryConfig{Features: 1, Classes: []string{"a", "b"}, Settings: pipeline.Config{Labels: serve.FirstStands}})
	if err != nil {
		t.Fatal(err)
	}
	label := func(v int64, class string, index int32) event.Label {
		return event.Label{Origin: &event.Origin{}, Node: event.ID{Num: v}, Class: class, Index: index}
	}
	h.Step(&event.Window{Labels: []event.Label{label(3, "new", 0)}})
	w := &event.Window{Number: 1, Labels: []event.Label{label(1, "", 1), label(1, "a", 0), label(2, "", 2), label(4, "newer", 0)}}
	for v := range int64(5) {
		w.Nodes = append(w.Nodes, event.Node{Origin: &event.Origin{}, ID: event.ID{Num: v}, Dense: []float32{1}, Time: 10 * v})
	}
	h.Step(w)
	nodes, _ := h.Nodes(func(n *pipeline.Recorded) bool { return n.Class >= 0 })
	var got []string
	for _, n := range nodes {
		got = append(got, fmt.Sprintf("%v %s, came in %d at %d, label in %d", n.ID, h.Classes()[n.Class], n.Window, n.Time, n.Labelled))
	}
	want := []string{"1 b, came in 1 at 10, label in 1", "3 new, came in 1 at 30, label in 1", "4 newer, came in 1 at 40, label in 1"}
	if !slices.Equal(got, want) {
		t.Errorf("labelled nodes %q, want %q", got, want)
	}
	flood := &event.Window{Number: 2}
	for i := range int64(4 << 16) {
		flood.Labels = append(flood.Labels, label(10+i, fmt.Sprint("flood ", i), 0))
	}
	h.Step(flood)
	h.Step(&event.Window{Number: 3, Labels: []event.Label{label(0, "one more", 0)}})
	if n := len(h.Classes()); n != 2+1<<16 {
		t.Errorf("after a flood of labels there are %d classes, want the two given and 65536", n)
	}
}
