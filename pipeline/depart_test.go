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

// oracleGraph is a naive implementation of the graph of a stream with departures.
type oracleGraph struct {
	here  []event.ID
	x     map[event.ID][]float32
	edges [][2]event.ID // between nodes that are in the graph
	named [][2]event.ID // edges from a node of the graph to one that has not arrived
}

// leave removes a node, if it is in the graph.
func (v *oracleGraph) leave(id event.ID) {
	if _, here := v.x[id]; !here {
		return
	}
	delete(v.x, id)
	v.here = slices.DeleteFunc(v.here, func(h event.ID) bool { return h == id })
	v.edges = slices.DeleteFunc(v.edges, func(e [2]event.ID) bool { return e[0] == id || e[1] == id })
	v.named = slices.DeleteFunc(v.named, func(e [2]event.ID) bool { return e[0] == id })
}

// step applies a window and returns the nodes to serve, in order.
func (v *oracleGraph) step(w *event.Window) (served []event.ID) {
	type naming struct {
		id   event.ID
		of   []event.ID
		asks bool
	}
	var all []naming
	gone := func(id event.ID) {
		v.leave(id)
		all = slices.DeleteFunc(all, func(n naming) bool { return n.id == id })
	}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if n.Departed {
			gone(n.ID)
			if n.ByKey && n.ID.Str == "" {
				gone(event.ID{Str: n.ID.String()})
			}
			continue
		}
		_, here := v.x[n.ID]
		if !here {
			v.here = append(v.here, n.ID)
		}
		v.x[n.ID] = n.Dense
		all = append(all, naming{n.ID, n.Neighbours, !here && !n.Context})
	}
	for _, n := range all {
		for _, u := range n.of {
			v.named = append(v.named, [2]event.ID{n.id, u})
		}
		if n.asks {
			served = append(served, n.id)
		}
	}
	v.named = slices.DeleteFunc(v.named, func(e [2]event.ID) bool {
		if _, here := v.x[e[1]]; !here {
			return false
		}
		if e[0] != e[1] && !slices.Contains(v.edges, e) && !slices.Contains(v.edges, [2]event.ID{e[1], e[0]}) {
			v.edges = append(v.edges, e)
		}
		return true
	})
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

// TestDeparturesEqualOracle: while nodes arrive, leave and return, the graph has the nodes
// and edges of the naive implementation, and predictions are those of its embeddings.
func TestDeparturesEqualOracle(t *testing.T) {
	for _, kind := range []gnn.Kind{gnn.KindSAGE, gnn.KindGCN, gnn.KindGAT, gnn.KindGIN} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(kind, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 41))
				m := modelOf(t, rng, kind, 1+int(seed)%3)
				e := newEngine(t, m, pipeline.Config{Samples: 2})
				l := newRandomStream(rng, m)
				v := &oracleGraph{x: map[event.ID][]float32{}}
				left := 0
				for range 80 {
					l.nodes = min(l.nodes, 30) // so that the same nodes return
					w := l.window()
					w.Labels = nil
					served, out := v.step(w), e.Step(w)
					left += out.Counts.Departures
					if out.Levels.Nodes != len(v.here) || out.Levels.Edges != len(v.edges) || len(out.Predictions) != len(served) {
						t.Fatalf("window %d: levels %+v and %d predictions, want %d nodes, %d edges and %d predictions", w.Number, out.Levels, len(out.Predictions), len(v.here), len(v.edges), len(served))
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
				if left < 20 {
					t.Fatalf("%d nodes left the graph, want at least 20", left)
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
