package structure_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// TestKeepLeavesInParts: where very many nodes are due at once, a bounded part leaves in each
// window.
func TestKeepLeavesInParts(t *testing.T) {
	const n, most = 50_000, 10_000
	m := pipelinetest.ModelOf(t, rand.New(rand.NewPCG(1, 47)), gnn.KindSAGE, 2)
	e := pipelinetest.NewEngine(t, m, pipeline.Config{Keep: structure.Keep{Nodes: 1000, Edges: 1000}})
	first := &event.Window{}
	for i := range int64(n) {
		first.Nodes = append(first.Nodes, event.Node{Origin: &event.Origin{}, ID: event.ID{Num: i}, Dense: make([]float32, m.Encoder.In()), Context: true, Time: 1000, Neighbours: []event.ID{{Num: i / 2}}})
	}
	e.Step(first)
	left, windows := 0, 0
	for left < n {
		w := &event.Window{Number: e.Next()}
		for i := range int64(20) {
			w.Nodes = append(w.Nodes, event.Node{Origin: &event.Origin{}, ID: event.ID{Num: -1}, Dense: make([]float32, m.Encoder.In()), Context: true, Time: 5000 + i})
		}
		out := e.Step(w)
		if out.Figures.Int(event.NodesExpired)+out.Figures.Int(event.EdgesExpired) > most {
			t.Fatalf("%+v left in a window, want at most %d", out.Figures.Kept(), most)
		}
		if left, windows = left+out.Figures.Int(event.NodesExpired), windows+1; windows > 50 {
			t.Fatalf("%d nodes of %d left in %d windows", left, n, windows)
		}
	}
	if windows < n/most {
		t.Errorf("all left in %d windows", windows)
	}
}

// TestWatermark: one event whose time is far in the future, or no time at all, leaves the graph
// as it is. Nothing that comes later than the record of an event counts.
func TestWatermark(t *testing.T) {
	const day = 86_400_000
	for name, wrong := range map[string]event.Node{
		"time in microseconds": {Origin: &event.Origin{Time: 100 * day}, Time: 100 * day * 1000},
		"record in the future": {Origin: &event.Origin{Time: 40_000 * day}, Time: 40_000 * day},
		"time alone":           {Origin: &event.Origin{}, Time: 1 << 62},
		"time before all":      {Origin: &event.Origin{Time: 100 * day}, Time: -1 << 62},
		"no time":              {Origin: &event.Origin{}},
	} {
		m := pipelinetest.ModelOf(t, rand.New(rand.NewPCG(1, 48)), gnn.KindSAGE, 1)
		e := pipelinetest.NewEngine(t, m, pipeline.Config{Keep: structure.Keep{Nodes: 30 * day}})
		step := func(n event.Node, id int64) *event.Outcome {
			n.ID, n.Dense, n.Context = event.ID{Num: id}, make([]float32, m.Encoder.In()), true
			return e.Step(&event.Window{Number: e.Next(), Nodes: []event.Node{n}})
		}
		for i := range int64(20) {
			step(event.Node{Origin: &event.Origin{Time: (80 + i) * day}, Time: (80 + i) * day}, i)
		}
		step(wrong, 100)
		if out := step(event.Node{Origin: &event.Origin{Time: 101 * day}, Time: 101 * day}, 101); out.Figures.Int(event.GraphNodes) != 22 {
			t.Errorf("%s: %d nodes in the graph, want all 22", name, out.Figures.Int(event.GraphNodes))
		}
		for i := range int64(25) {
			step(event.Node{Origin: &event.Origin{Time: (102 + i) * day}, Time: (102 + i) * day}, 102+i)
		}
		if out := step(event.Node{Origin: &event.Origin{}}, 1000); out.Figures.Int(event.GraphNodes) > 36 {
			t.Errorf("%s: %d nodes in the graph after 27 days, want those of about 30", name, out.Figures.Int(event.GraphNodes))
		}
	}
}

// TestKeepText: what is no time is refused in a line that says what to give.
func TestKeepText(t *testing.T) {
	for text, want := range map[string]string{
		"nodes=90d,edges=30d": "nodes=90d,edges=30d", "edges=720h": "edges=30d", "nodes=1500ms": "nodes=1500ms", "edges=90m,nodes=60s": "nodes=1m,edges=90m",
		"nodes": "", "nodes=": "", "nodes=90": "", "nodes=0d": "", "nodes=-1d": "", "nodes=1.5d": "", "nodes=9999999d": "", "nodes=99999999999999999999d": "",
		"nodes=1d,nodes=2d": "", "labels=1d": "", "nodes=1h30m": "", "nodes=1d,": "", "nodes=dd": "", "nodes=1y": "",
	} {
		k, err := structure.ParseKeep(text)
		if want != "" && (err != nil || k.String() != want) {
			t.Errorf("%q: %v, %v, want %s", text, k, err, want)
		}
		if want == "" && (err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "=90d")) {
			t.Errorf("%q: %v, want an error with an example", text, err)
		}
	}
}
