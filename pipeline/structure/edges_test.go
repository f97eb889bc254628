package structure_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestEdgesEqualRebuiltGraph: on a graph whose nodes and edges came and went, arrivals get
// the predictions of an engine that was given the remaining graph at once: by every encoder
// and both kinds of serving, from rows of both precisions, and after restoring a snapshot.
func TestEdgesEqualRebuiltGraph(t *testing.T) {
	for _, kind := range pipelinetest.Kinds {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(kind, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 43))
				m := pipelinetest.ModelOf(t, rng, kind, 1+int(seed)%2)
				if seed >= 2 {
					pipelinetest.AddPool(t, m, seed%2 == 0)
				}
				cfg := pipeline.Config{Samples: 2, BFloat16: seed%3 == 1}
				e := pipelinetest.NewEngine(t, m, cfg)
				l := pipelinetest.NewRandomStream(rng, m)
				v := &pipelinetest.OracleGraph{X: map[event.ID][]float32{}}
				labels := map[event.ID]int32{}
				probes := 0
				for round := range 60 {
					l.Nodes = min(l.Nodes, 30)
					w := l.Window()
					onlyContext(w)
					v.Left = nil
					v.Step(w)
					e.Step(w)
					for _, id := range v.Left {
						delete(labels, id)
					}
					w = &event.Window{Number: l.Number, Labels: someLabels(rng, v, labels, len(m.Classes))}
					l.Number++
					e.Step(w)
					if round%10 < 9 || len(v.Here) == 0 {
						continue
					}
					restored, _, err := pipelinetest.Restore(m, cfg, pipelinetest.SnapshotOf(t, e, nil))
					if err != nil {
						t.Fatal(err)
					}
					e = restored
					probe := probeOf(l, v)
					probes++
					want := rebuilt(t, m, cfg, v, labels).Step(&event.Window{Number: 3, Nodes: probe.Nodes}).Predictions[0]
					got := e.Step(probe).Predictions[0]
					v.Step(probe)
					for c, p := range got.Probabilities {
						if math.Abs(float64(p-want.Probabilities[c])) > 1e-4 {
							t.Fatalf("window %d: node %v has the probabilities %v, want %v on the rebuilt graph", probe.Number, got.Node, got.Probabilities, want.Probabilities)
						}
					}
					// What was served for the probe would count for its neighbours.
					gone := &event.Window{Number: l.Number, Nodes: []event.Node{{Origin: &event.Origin{}, ID: got.Node, Departed: true}}}
					l.Number++
					e.Step(gone)
					v.Step(gone)
				}
				if v.Taken < 5 || probes < 4 {
					t.Errorf("%d edges were removed and %d arrivals compared, want at least 5 and 4", v.Taken, probes)
				}
			})
		}
	}
}

// onlyContext makes all arrivals of a window context, of which nothing is learned, and
// leaves out labels.
func onlyContext(w *event.Window) {
	w.Labels = nil
	for i := range w.Nodes {
		w.Nodes[i].Context = true
	}
}

// someLabels returns labels of context nodes that have none yet, and adds them to labels.
func someLabels(rng *rand.Rand, v *pipelinetest.OracleGraph, labels map[event.ID]int32, classes int) (list []event.Label) {
	for _, id := range v.Here {
		if _, labelled := labels[id]; !labelled && !strings.HasPrefix(id.Str, "probe") && rng.IntN(4) == 0 {
			labels[id] = rng.Int32N(int32(classes))
			list = append(list, event.Label{Origin: &event.Origin{}, Node: id, Index: labels[id]})
		}
	}
	return list
}

// rebuilt returns an engine of the graph and its labels, at window 3.
func rebuilt(t *testing.T, m *model.Model, cfg pipeline.Config, v *pipelinetest.OracleGraph, labels map[event.ID]int32) *pipelinetest.Engine {
	t.Helper()
	nodes, edges := &event.Window{}, &event.Window{Number: 1, Nodes: []event.Node{{Origin: &event.Origin{}, Edges: []event.Edge{}}}}
	learned := &event.Window{Number: 2}
	for _, id := range v.Here {
		nodes.Nodes = append(nodes.Nodes, event.Node{Origin: &event.Origin{}, ID: id, Dense: v.X[id], Context: true})
		if y, labelled := labels[id]; labelled {
			learned.Labels = append(learned.Labels, event.Label{Origin: &event.Origin{}, Node: id, Index: y})
		}
	}
	for _, e := range v.Edges {
		edges.Nodes[0].Edges = append(edges.Nodes[0].Edges, event.Edge{Source: e[0], Target: e[1]})
	}
	e := pipelinetest.NewEngine(t, m, cfg)
	for _, w := range []*event.Window{nodes, edges, learned} {
		e.Step(w)
	}
	return e
}

// probeOf returns a window with the arrival of a new node beside nodes of the graph.
func probeOf(l *pipelinetest.RandomStream, v *pipelinetest.OracleGraph) *event.Window {
	n := event.Node{Origin: &event.Origin{}, ID: event.ID{Str: fmt.Sprint("probe-", l.Number)}, Dense: make([]float32, l.M.Encoder.In())}
	for i := range n.Dense {
		n.Dense[i] = float32(l.RNG.NormFloat64())
	}
	for range 1 + l.RNG.IntN(5) {
		n.Neighbours = append(n.Neighbours, v.Here[l.RNG.IntN(len(v.Here))])
	}
	w := &event.Window{Number: l.Number, Nodes: []event.Node{n}}
	l.Number++
	return w
}

// TestNewNodeTwiceBesideAHub: a node that comes twice in its first window, while the pool
// keeps the sum of a hub's neighbours, is predicted with its second features.
func TestNewNodeTwiceBesideAHub(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
	pipelinetest.AddPool(t, m, true)
	once, twice := pipelinetest.NewEngine(t, m, pipeline.Config{}), pipelinetest.NewEngine(t, m, pipeline.Config{})
	features := func() []float32 { return []float32{rng.Float32(), rng.Float32(), rng.Float32(), 0, 0} }
	hub, x := event.ID{Str: "hub"}, features()
	first := &event.Window{}
	for i := range int64(50) {
		first.Nodes = append(first.Nodes, event.Node{Origin: &event.Origin{}, ID: event.ID{Num: i}, Dense: features(), Neighbours: []event.ID{hub}})
	}
	first.Nodes = append(first.Nodes, event.Node{Origin: &event.Origin{}, ID: hub, Dense: features()})
	node := event.Node{Origin: &event.Origin{}, ID: event.ID{Str: "new"}, Dense: x, Neighbours: []event.ID{hub}}
	before := node
	before.Dense = features()
	once.Step(first)
	twice.Step(first)
	want := once.Step(&event.Window{Number: 1, Nodes: []event.Node{node}}).Predictions
	if diff := cmp.Diff(want, twice.Step(&event.Window{Number: 1, Nodes: []event.Node{before, node}}).Predictions); diff != "" {
		t.Errorf("predictions (-once +twice)\n%s", diff)
	}
}

// TestFollowersForgetEdges: what a pool counts around a node forgets an edge that was removed: it predicts like one that
// never saw the edge.
func TestFollowersForgetEdges(t *testing.T) {
	served := func(edge string) []event.Prediction {
		m := pipelinetest.SmallModel(t)
		pipelinetest.AddPool(t, m, true)
		e, offset := pipelinetest.NewEngine(t, m, pipeline.Config{}), int64(0)
		var out *event.Outcome
		for i, text := range []string{
			"node 1 x=1,0\nnode 2 x=0,1\nnode 3 x=5,-3", "edges 1-2" + edge, "edges !1-3", "label 3 red", "node 4 x=1,1 nbr=1",
		} {
			w := pipelinetest.ParseWindow(t, text, &offset)
			w.Number = int64(i)
			out = e.Step(w)
		}
		return out.Predictions
	}
	if diff := cmp.Diff(served(""), served(" 1-3")); diff != "" {
		t.Errorf("predictions (-never +removed)\n%s", diff)
	}
}

// TestManyRemovalsOfAHub: an event that takes the edges of a hub away, one by one and
// mixed with additions, filters the hub's list once. One by one, the removals of this test
// would read 10¹⁰ neighbours.
func TestManyRemovalsOfAHub(t *testing.T) {
	const n = 100_000
	m := pipelinetest.ModelOf(t, rand.New(rand.NewPCG(1, 1)), gnn.KindSAGE, 2)
	e := pipelinetest.NewEngine(t, m, pipeline.Config{})
	x := make([]float32, m.Encoder.In())
	hub := event.ID{Num: n}
	nodes := &event.Window{Nodes: []event.Node{{Origin: &event.Origin{}, ID: hub, Dense: x, Context: true}}}
	edges := event.Node{Origin: &event.Origin{}}
	for i := range int64(n) {
		nodes.Nodes = append(nodes.Nodes, event.Node{Origin: &event.Origin{}, ID: event.ID{Num: i}, Dense: x, Context: true, Neighbours: []event.ID{hub}})
		edges.Edges = append(edges.Edges,
			event.Edge{Source: event.ID{Num: i}, Target: hub, Remove: true},
			event.Edge{Source: hub, Target: event.ID{Num: i / 2}})
	}
	e.Step(nodes)
	began := time.Now()
	out := e.Step(&event.Window{Number: 1, Nodes: []event.Node{edges}})
	t.Logf("%d removals and additions took %v", n, time.Since(began))
	// Of each i, the removal comes before the additions at 2i and 2i+1, but for 0 and 1.
	if out.Figures.Int(event.EdgesRemoved) != n || out.Figures.Int(event.GraphEdges) != n/2 {
		t.Errorf("%d edges were removed and %d are left, want %d and %d", out.Figures.Int(event.EdgesRemoved), out.Figures.Int(event.GraphEdges), n, n/2)
	}
}
