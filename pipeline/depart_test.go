package pipeline_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
)

// oracleGraph is a naive implementation of the graph of a stream with departures and
// events of edges.
type oracleGraph struct {
	here  []event.ID
	x     map[event.ID][]float32
	edges [][2]event.ID // between nodes that are in the graph
	waits []waitingEdge
	left  []event.ID // nodes that have left
	taken int        // edges removed by events
}

// waitingEdge is an edge that an end of has not arrived.
type waitingEdge struct {
	ends [2]event.ID
	// free means that neither end had arrived when the edge came, and the source has
	// not arrived since. Other edges are of their first end, which is in the graph.
	free bool
}

// leave removes a node, if it is in the graph.
func (v *oracleGraph) leave(id event.ID) {
	if _, here := v.x[id]; !here {
		return
	}
	delete(v.x, id)
	v.left = append(v.left, id)
	v.here = slices.DeleteFunc(v.here, func(h event.ID) bool { return h == id })
	v.edges = slices.DeleteFunc(v.edges, func(e [2]event.ID) bool { return e[0] == id || e[1] == id })
	v.waits = slices.DeleteFunc(v.waits, func(w waitingEdge) bool {
		return !w.free && w.ends[0] == id || w.free && w.ends[1] == id
	})
}

// add adds an edge, which may have to wait.
func (v *oracleGraph) add(a, b event.ID) {
	_, hasA := v.x[a]
	_, hasB := v.x[b]
	if !hasA && hasB {
		a, b = b, a
	}
	v.waits = append(v.waits, waitingEdge{ends: [2]event.ID{a, b}, free: !hasA && !hasB && a != b})
}

// remove removes an edge, also from those that wait.
func (v *oracleGraph) remove(a, b event.ID) {
	is := func(e [2]event.ID) bool { return e == [2]event.ID{a, b} || e == [2]event.ID{b, a} }
	before := len(v.edges) + len(v.waits)
	v.edges = slices.DeleteFunc(v.edges, is)
	v.waits = slices.DeleteFunc(v.waits, func(w waitingEdge) bool { return is(w.ends) })
	v.taken += before - len(v.edges) - len(v.waits)
}

// bind adds to the graph the edges that no longer have to wait.
func (v *oracleGraph) bind() {
	v.waits = slices.DeleteFunc(v.waits, func(w waitingEdge) bool {
		e := w.ends
		_, hasA := v.x[e[0]]
		_, hasB := v.x[e[1]]
		if (!hasA || !hasB) && e[0] != e[1] {
			return false
		}
		if e[0] != e[1] && !slices.Contains(v.edges, e) && !slices.Contains(v.edges, [2]event.ID{e[1], e[0]}) {
			v.edges = append(v.edges, e)
		}
		return true
	})
	for i := range v.waits {
		if _, here := v.x[v.waits[i].ends[0]]; here {
			v.waits[i].free = false
		}
	}
}

// step applies a window and returns the nodes to serve, in order.
func (v *oracleGraph) step(w *event.Window) (served []event.ID) {
	asks := make(map[int]bool) // by index in the window
	gone := make(map[int]bool) // events of nodes that leave after them
	for i := range w.Nodes {
		n := &w.Nodes[i]
		switch {
		case n.Departed:
			for _, id := range []event.ID{n.ID, {Str: n.ID.String()}} {
				if id != n.ID && (!n.ByKey || n.ID.Str != "") {
					continue
				}
				v.leave(id)
				for j := range w.Nodes[:i] {
					gone[j] = gone[j] || w.Nodes[j].ID == id
				}
			}
		case !n.OnlyEdges():
			if _, here := v.x[n.ID]; !here {
				v.here = append(v.here, n.ID)
				asks[i] = !n.Context
			}
			v.x[n.ID] = n.Dense
		}
	}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		switch _, here := v.x[n.ID]; {
		case n.Departed, !n.OnlyEdges() && gone[i], n.Featureless && !here:
			continue
		case asks[i]:
			served = append(served, n.ID)
		}
		if !n.OnlyEdges() {
			for _, u := range n.Neighbours {
				v.add(n.ID, u)
			}
		}
		for _, e := range n.AllEdges() {
			if e.Remove {
				v.remove(e.Source, e.Target)
			} else {
				v.add(e.Source, e.Target)
			}
		}
		v.bind()
	}
	v.bind()
	return served
}

// embed encodes the whole graph from scratch.
func (v *oracleGraph) embed(enc gnn.Encoder) map[event.ID][]float32 {
	place := map[event.ID]int32{}
	var x []gnn.Vector
	for i, id := range v.here {
		place[id] = int32(i)
		x = append(x, gnn.Vector{Dense: v.x[id]})
	}
	var src, dst []int32
	for _, e := range v.edges {
		a, b := place[e[0]], place[e[1]]
		src, dst = append(src, a, b), append(dst, b, a)
	}
	z := enc.Encode(x, src, dst)
	all := map[event.ID][]float32{}
	for i, id := range v.here {
		all[id] = z[i*enc.Out() : (i+1)*enc.Out()]
	}
	return all
}

// TestGraphEqualsOracle: while nodes arrive, leave and return, and edges are added and
// removed, the graph has the nodes and edges of the naive implementation, as many edges
// wait, and predictions are those of its embeddings.
func TestGraphEqualsOracle(t *testing.T) {
	for _, kind := range []gnn.Kind{gnn.KindSAGE, gnn.KindGCN, gnn.KindGAT, gnn.KindGIN} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(kind, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 41))
				m := modelOf(t, rng, kind, 1+int(seed)%3)
				e := newEngine(t, m, pipeline.Config{Samples: 2})
				l := newRandomStream(rng, m)
				v := &oracleGraph{x: map[event.ID][]float32{}}
				for range 80 {
					l.nodes = min(l.nodes, 30) // so that the same nodes return
					w := l.window()
					w.Labels = nil
					served, out := v.step(w), e.Step(w)
					if out.Levels.Nodes != len(v.here) || out.Levels.Edges != len(v.edges) || out.Levels.WaitingEdges != len(v.waits) || len(out.Predictions) != len(served) {
						t.Fatalf("window %d: levels %+v and %d predictions, want %d nodes, %d edges, %d edges waiting and %d predictions", w.Number, out.Levels, len(out.Predictions), len(v.here), len(v.edges), len(v.waits), len(served))
					}
					all := v.embed(m.Encoder)
					for i, id := range served {
						p := make([]float64, len(m.Classes))
						posterior.MAP(&m.Prior, posterior.Rows{Z: all[id], Tau: []float64{1}}, p)
						for c, x := range out.Predictions[i].Probabilities {
							if out.Predictions[i].Node != id || math.Abs(float64(x)-p[c]) > 1e-4 {
								t.Fatalf("window %d: node %v with probabilities %v, want %v with %v", w.Number, out.Predictions[i].Node, out.Predictions[i].Probabilities, id, p)
							}
						}
					}
				}
				if len(v.left) < 20 || v.taken < 5 {
					t.Fatalf("%d nodes left the graph and %d edges were removed, want at least 20 and 5", len(v.left), v.taken)
				}
			})
		}
	}
}

// TestDeparturesBoundMemory: memory does not grow on a stream in which as many nodes leave
// as arrive.
func TestDeparturesBoundMemory(t *testing.T) {
	m := modelOf(t, rand.New(rand.NewPCG(1, 42)), gnn.KindSAGE, 2)
	e := newEngine(t, m, pipeline.Config{Samples: 1, MaxPending: 100})
	rng := rand.New(rand.NewPCG(2, 42))
	const arrivals, stay = 50, 4
	number := int64(0)
	id := func(window int64, i int) event.ID { return event.ID{Str: fmt.Sprintf("node-%d-%d", window, i)} }
	run := func(windows int) uint64 {
		for range windows {
			w := &event.Window{Number: number}
			for i := range arrivals {
				n := event.Node{Origin: &event.Origin{}, ID: id(number, i)}
				for range m.Encoder.In() {
					n.Dense = append(n.Dense, rng.Float32())
				}
				for k := range 3 {
					n.Neighbours = append(n.Neighbours, id(max(number-int64(k), 0), rng.IntN(arrivals)))
				}
				w.Nodes = append(w.Nodes, n)
				if number >= stay {
					w.Nodes = append(w.Nodes, event.Node{Origin: &event.Origin{}, ID: id(number-stay, i), Departed: true})
				}
				if number > 0 && i%2 == 0 {
					w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: id(number-1, i), Index: 1})
				}
			}
			e.Step(w)
			number++
		}
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := run(200)
	snapshot := len(snapshotOf(t, e, nil))
	after := run(800)
	if grown := int64(after) - int64(before); grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes in 40,000 arrivals and departures, want at most 1 MiB", grown)
	}
	if now := len(snapshotOf(t, e, nil)); now > snapshot*5/4 {
		t.Errorf("a snapshot has %d bytes, want at most a quarter more than %d", now, snapshot)
	}
}
