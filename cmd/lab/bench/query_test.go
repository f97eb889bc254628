package bench

import (
	"math/rand/v2"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// BenchmarkNode measures how long a query about a node delays the engine, on a graph of
// 100,000 nodes with 20 neighbours on average, and for the node of the largest degree.
func BenchmarkNode(b *testing.B) {
	for _, hub := range []bool{false, true} {
		name := "any"
		if hub {
			name = "hub"
		}
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			m := pipelinetest.ModelOf(b, rng, gnn.KindSAGE, 2)
			e := pipelinetest.NewEngine(b, m, pipeline.Config{})
			const nodes, window = 100_000, 1000
			for n := 0; n < nodes; n += window {
				w := &event.Window{Number: e.Next()}
				for i := range window {
					node := event.Node{ID: event.ID{Num: int64(n + i)}, Dense: make([]float32, 5)}
					for range 10 {
						node.Neighbours = append(node.Neighbours, event.ID{Num: int64(float64(n+i) * rng.Float64() * rng.Float64() * rng.Float64())})
					}
					w.Nodes = append(w.Nodes, node)
				}
				e.Step(w)
			}
			for b.Loop() {
				id := event.ID{}
				if !hub {
					id.Num = rng.Int64N(nodes)
				}
				e.Node(id)
			}
		})
	}
}
