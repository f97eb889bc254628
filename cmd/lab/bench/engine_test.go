package bench

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/topics/wire"
)

// BenchmarkEncoder measures the graph and the encoder alone, on one thread, with windows and
// with one arrival at a time.
func BenchmarkEncoder(b *testing.B) {
	single := given
	single.Window = 1
	b.Run("windows", func(b *testing.B) { b.ReportMetric(1e9/graphCosts(b, given)[0], "arrivals/s") })
	b.Run("single", func(b *testing.B) { b.ReportMetric(1e9/graphCosts(b, single)[0], "arrivals/s") })
}

// BenchmarkEngine measures whole steps of the engine, on one thread: graph, encoder, predictions
// with their uncertainty, the join of labels, scores and the update.
func BenchmarkEngine(b *testing.B) {
	next := given.steps(b)
	s := begin(given.WithDefaults().Window)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	loop(b, func() { s.run(next()) })
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(s.per*len(s.times)), "allocations/arrival")
	b.ReportMetric(1e9/s.median(), "arrivals/s")
}

// BenchmarkPool compares the engine with the default pool to the engine with the paper's heads,
// and measures the pool on sparse features like Cora's. A round is 20 windows, after which the
// sparse graph is as large as Cora; each round starts from new engines, which step in turns, so
// that other load on the machine affects all alike. The best round counts: -benchtime 4x.
func BenchmarkPool(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	paper := given.WithDefaults()
	paper.Nodes = min(paper.Nodes, 20_000)
	dense := paper
	dense.Pool = true
	sparse := Workload{Nodes: 1000, Degree: 4, Features: 1433, Density: 0.0127, Hidden: 64, Embedding: 16, Classes: 7, Window: 85, Pool: true}
	var best [3]float64 // CPU time, nanoseconds an arrival
	for b.Loop() {
		var next [3]func() func()
		var took [3]*samples
		for i, w := range []Workload{paper, dense, sparse} {
			next[i], took[i] = w.steps(b), begin(w.Window)
		}
		for range 20 {
			for i := range next {
				took[i].runCPU(next[i]())
			}
		}
		for i := range best {
			if t := took[i].median(); best[i] == 0 || t < best[i] {
				best[i] = t
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(best[1]/best[0], "pool/paper")
	b.ReportMetric(best[2]/1000, "µs/sparse-arrival")
}

var largeGraph = flag.Int("large", 10_000_000, "nodes of the larger graph of BenchmarkSize, which take 18 GB with the usual -hidden")

// BenchmarkSize compares the cost of an arrival in a very large graph with that in one of ten
// thousand nodes.
func BenchmarkSize(b *testing.B) {
	small, large := given, given
	small.Nodes, large.Nodes = 10_000, *largeGraph
	costs := graphCosts(b, small, large)
	b.ReportMetric(costs[1]/costs[0], "large/small")
}

// BenchmarkHubs compares arrivals that all name the same 700 nodes, once when these have a
// hundred thousand edges and once when they have ten.
func BenchmarkHubs(b *testing.B) {
	const crowd = 700
	w := given.WithDefaults()
	most := min(100_000, 2*w.Nodes)
	w.Nodes = crowd
	hubs := make([]int32, crowd)
	for i := range hubs {
		hubs[i] = int32(i)
	}
	var graphs [2]*graph
	var took [2]*samples
	for k, degree := range []int{10, most} {
		g := w.grow(b)
		for g.g.Degree(0) < degree {
			g.g.LinkAll(g.g.Add(g.x[:1]), hubs)
		}
		graphs[k], took[k] = g, begin(w.Window)
	}
	t := 0
	loop(b, func() {
		for k, g := range graphs {
			for range aTurn {
				g.draw(w.Window)
				for i := range w.Window { // arrivals name the hubs in rotation, so that degrees hardly grow
					for k := range g.near[i] {
						g.near[i][k] = hubs[(t*w.Window+i*len(g.near[i])+k)%crowd]
					}
				}
				took[k].run(g.arrive)
				t++
			}
		}
	})
	b.ReportMetric(took[1].median()/took[0].median(), "high/low")
}

// BenchmarkMemory measures the bytes of a node without its edges, and those of an edge.
func BenchmarkMemory(b *testing.B) {
	w := given.WithDefaults()
	m, err := w.Model()
	must(b, err)
	for b.Loop() {
		src := w.source()
		x, near := make([]gnn.Vector, w.Nodes), make([]int32, 0, w.Nodes*w.Degree/2)
		ends := make([]int, w.Nodes+1) // the end of each node's neighbours in near
		for v := range x {
			x[v], near = src.next(near)
			ends[v+1] = len(near)
		}
		empty := heapBytes()
		g := gnn.NewGraph(m.Encoder)
		for lo := 0; lo < w.Nodes; lo += 1000 {
			g.Add(x[lo:min(lo+1000, w.Nodes)])
		}
		nodes := heapBytes()
		for v := range int32(w.Nodes) {
			g.LinkAll(v, near[ends[v]:ends[v+1]])
		}
		b.ReportMetric((heapBytes()-nodes)/float64(g.Edges()), "B/edge")
		b.ReportMetric((nodes-empty)/float64(w.Nodes), "B/node")
		runtime.KeepAlive(g)
	}
}

// BenchmarkUpdate compares learning a window of labels with predicting it: the predictions of both
// of the paper's heads with the uncertainty split, and the update from a label for each row.
func BenchmarkUpdate(b *testing.B) {
	w := given.WithDefaults()
	m, err := w.Model()
	must(b, err)
	rng := rand.New(rand.NewPCG(w.Seed, 4))
	rows := posterior.Rows{Z: make([]float32, w.Window*w.Embedding), Tau: make([]float64, w.Window)}
	labels := make([]int32, w.Window)
	for i := range rows.Z {
		rows.Z[i] = float32(rng.NormFloat64())
	}
	for i := range labels {
		rows.Tau[i], labels[i] = 1, rng.Int32N(int32(w.Classes))
	}
	online := posterior.NewOnline(m.Prior, posterior.DefaultConfig())
	heads := []*posterior.Gaussian{online.Posterior(), &m.Prior}
	predictive, split := posterior.NewPredictive(w.Classes, 16), make([]posterior.Uncertainty, w.Window)
	probs := make([]float32, w.Window*len(heads)*w.Classes)
	predict, learn := begin(w.Window), begin(w.Window)
	loop(b, func() {
		predict.run(func() { predictive.Serve(heads, 0, rows, probs, split) })
		learn.run(func() { online.Learn(rows, labels) })
	})
	b.ReportMetric(learn.median()/predict.median(), "learn/predict")
}

// BenchmarkSparse compares sparse features like Cora's with the same as dense vectors: the first
// product of a window, and the bytes of its nodes on the wire.
func BenchmarkSparse(b *testing.B) {
	w := given
	w.Features, w.Density, w.Nodes = 1433, 0.013, 1000
	g := w.grow(b)
	w = g.w
	g.draw(w.Window)
	x, dense := g.x[:w.Window], make([]gnn.Vector, w.Window)
	for i := range x {
		dense[i].Dense = densely(x[i], w.Features)
	}
	one, other := begin(w.Window), begin(w.Window)
	loop(b, func() {
		one.run(func() { g.g.Add(x) })
		other.run(func() { g.g.Add(dense) })
	})
	b.ReportMetric(other.median()/one.median(), "dense/sparse")
	few, many := 0, 0
	for _, n := range w.Stream().Next(false).Nodes {
		n.Neighbours = nil
		few += len(wire.AppendNode(nil, &n))
		n.Dense, n.Index, n.Value = densely(gnn.Vector{Index: n.Index, Value: n.Value}, w.Features), nil, nil
		many += len(wire.AppendNode(nil, &n))
	}
	b.ReportMetric(float64(many)/float64(few), "dense/sparse-bytes")
}

func densely(x gnn.Vector, features int) []float32 {
	dense := make([]float32, features)
	for k, index := range x.Index {
		dense[index] = x.Value[k]
	}
	return dense
}

// BenchmarkWorkers compares a matrix product of two workers with that of one: the embedding of a
// window of nodes without edges. Adding nodes is a product too, but it also takes memory that
// another goroutine prepares at the same time.
func BenchmarkWorkers(b *testing.B) {
	w := given
	w.Nodes = 1000
	product := func(workers int) func() {
		g := w.grow(b, gnn.Workers(workers))
		g.draw(g.w.Window)
		first := g.g.Add(g.x[:g.w.Window])
		nodes := make([]int32, g.w.Window)
		for i := range nodes {
			nodes[i] = first + int32(i)
		}
		return func() { g.g.Embed(nodes, g.z) }
	}
	alone, both := product(1), product(2)
	one, two := begin(1), begin(1)
	loop(b, func() {
		for range aTurn {
			one.run(alone)
		}
		for range aTurn {
			two.run(both)
		}
	})
	b.ReportMetric(one.median()/two.median(), "one/two")
}
