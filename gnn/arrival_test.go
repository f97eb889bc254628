package gnn

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// The bars that the graph is held to are stated on windows of arrivals into a
// graph with power-law degrees, 14 in the mean, 128 features, 128 hidden units
// and embeddings of 64 numbers, on one core. Ratios are of two lines of one
// run.

// arrivals are the lives of graphs of given sizes: what arrives and whom it
// names.
type arrivals struct {
	x    []Vector // in turn
	edge []int32  // perArrival a node
}

const perArrival = 7 // edges that an arrival brings: half of the mean degree

// attach draws n arrivals, each with edges to ends of older edges (Barabási,
// Albert: Emergence of Scaling in Random Networks, 1999).
func attach(rng *rand.Rand, n, dim int) *arrivals {
	a := &arrivals{x: make([]Vector, 512), edge: make([]int32, n*perArrival)}
	for i := range a.x {
		a.x[i] = randomVector(rng, dim, 1)
	}
	for e := perArrival; e < len(a.edge); e++ {
		// One of the two ends of one of the edges before this node.
		old := rng.IntN(e - e%perArrival)
		if a.edge[e] = int32(old / perArrival); rng.IntN(2) == 0 {
			a.edge[e] = a.edge[old]
		}
	}
	return a
}

// arrive adds the next nodes to g and sets z to their embeddings.
func (a *arrivals) arrive(g *Graph, nodes []int32, z []float32) {
	first := g.Add(a.x[:len(nodes)])
	for i := range nodes {
		v := first + int32(i)
		nodes[i] = v
		g.LinkAll(v, a.edge[int(v)*perArrival:][:perArrival])
	}
	g.Embed(nodes, z)
}

// grown returns a graph of the first n arrivals.
func (a *arrivals) grown(n int, enc Encoder) *Graph {
	g := NewGraph(enc)
	for g.Len() < n {
		first := g.Add(a.x[:min(len(a.x), n-g.Len())])
		for v := first; int(v) < g.Len(); v++ {
			g.LinkAll(v, a.edge[int(v)*perArrival:][:perArrival])
		}
	}
	return g
}

// benchmarkArrivals takes windows into a graph of n nodes until it has more by
// a bit, then into another.
func benchmarkArrivals(b *testing.B, enc Encoder, n, window int) {
	more := n/4 + 2*window
	rng := rand.New(rand.NewPCG(1, 1))
	a := attach(rng, n+more, enc.In())
	nodes, z := make([]int32, window), make([]float32, window*enc.Out())
	g := a.grown(n, enc)
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if g.Len()+window > n+more {
			b.StopTimer()
			g = a.grown(n, enc)
			b.StartTimer()
		}
		a.arrive(g, nodes, z)
	}
	arrived := float64(b.N * window)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/arrived, "ns/arrival")
	b.ReportMetric(arrived/b.Elapsed().Seconds(), "arrivals/s")
}

// BenchmarkArrival: windows of 500 at 169,000 nodes.
func BenchmarkArrival(b *testing.B) {
	for _, kind := range kinds {
		b.Run(string(kind), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			benchmarkArrivals(b, randomEncoder(rng, kind, ReLU, 128, 128, 64), 169_000, 500)
		})
	}
}

// BenchmarkArrivalWindow: a window of one against larger ones.
func BenchmarkArrivalWindow(b *testing.B) {
	for _, window := range []int{1, 10, 100, 500} {
		b.Run(fmt.Sprint(window), func(b *testing.B) {
			benchmarkArrivals(b, randomSAGE(rand.New(rand.NewPCG(1, 1)), 128, 128, 64), 169_000, window)
		})
	}
}
