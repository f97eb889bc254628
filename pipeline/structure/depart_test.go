package structure_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/posterior"
)

// TestGraphEqualsOracle: while nodes arrive, leave and return, and edges are added and
// removed, the graph has the nodes and edges of the naive implementation, as many edges
// wait, as many departures are counted, and predictions are those of its embeddings.
func TestGraphEqualsOracle(t *testing.T) {
	for _, kind := range []gnn.Kind{gnn.KindSAGE, gnn.KindGCN, gnn.KindGAT, gnn.KindGIN} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(kind, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 41))
				m := pipelinetest.ModelOf(t, rng, kind, 1+int(seed)%3)
				e := pipelinetest.NewEngine(t, m, pipeline.Config{Samples: 2})
				l := pipelinetest.NewRandomStream(rng, m)
				v := &pipelinetest.OracleGraph{X: map[event.ID][]float32{}}
				departures := 0
				for range 80 {
					l.Nodes = min(l.Nodes, 30) // so that the same nodes return
					w := l.Window()
					w.Labels = nil
					served, out := v.Step(w), e.Step(w)
					if departures += out.Figures.Int(event.Departures); departures != len(v.Left) {
						t.Fatalf("window %d: %d departures so far, want %d", w.Number, departures, len(v.Left))
					}
					if out.Figures.Int(event.GraphNodes) != len(v.Here) || out.Figures.Int(event.GraphEdges) != len(v.Edges) || out.Figures.Int(event.WaitingEdges) != len(v.Waits) || len(out.Predictions) != len(served) {
						t.Fatalf("window %d: levels %+v and %d predictions, want %d nodes, %d edges, %d edges waiting and %d predictions", w.Number, out.Figures.Kept(), len(out.Predictions), len(v.Here), len(v.Edges), len(v.Waits), len(served))
					}
					all := v.Embed(m.Encoder)
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
				if len(v.Left) < 20 || v.Taken < 5 {
					t.Fatalf("%d nodes left the graph and %d edges were removed, want at least 20 and 5", len(v.Left), v.Taken)
				}
			})
		}
	}
}

// TestDeparturesBoundMemory: memory does not grow on a stream in which as many nodes leave
// as arrive.
func TestDeparturesBoundMemory(t *testing.T) {
	m := pipelinetest.ModelOf(t, rand.New(rand.NewPCG(1, 42)), gnn.KindSAGE, 2)
	e := pipelinetest.NewEngine(t, m, pipeline.Config{Samples: 1, Bounds: pipeline.Bounds{Pending: 100}})
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
	snapshot := len(pipelinetest.SnapshotOf(t, e, nil))
	after := run(800)
	if grown := int64(after) - int64(before); grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes in 40,000 arrivals and departures, want at most 1 MiB", grown)
	}
	if now := len(pipelinetest.SnapshotOf(t, e, nil)); now > snapshot*5/4 {
		t.Errorf("a snapshot has %d bytes, want at most a quarter more than %d", now, snapshot)
	}
}
