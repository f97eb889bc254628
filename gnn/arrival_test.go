//go:build unix

package gnn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// The benchmarks' bars are for windows of arrivals on one core. The graph has
// power-law degrees, 14 on average, 128 features, 128 hidden units and embeddings of
// 64 numbers. Bars that are ratios compare two lines of one run.
//
// Besides wall time the benchmarks report cpu-ns, the processor time: about what
// wall time would be on an idle machine.

// cpu returns the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// arrivals are nodes with features and edges, in order of arrival.
type arrivals struct {
	x    []Vector // shared by the nodes
	edge []int32  // the other ends of the edges, perArrival for each node
	near [][]int32

	nodes   []int32 // storage
	weighed []WeighedEdge
}

const perArrival = 7 // edges of an arrival: half of the mean degree

// attach draws n arrivals whose edges go to the ends of earlier edges: preferential
// attachment (Barabási, Albert: Emergence of Scaling in Random Networks, 1999).
func attach(rng *rand.Rand, n, dim int) *arrivals {
	a := &arrivals{x: make([]Vector, 512), edge: make([]int32, n*perArrival)}
	for i := range a.x {
		a.x[i] = randomVector(rng, dim, 1)
	}
	for e := perArrival; e < len(a.edge); e++ {
		// Choose one of the two ends of an edge of an earlier node.
		old := rng.IntN(e - e%perArrival)
		if a.edge[e] = int32(old / perArrival); rng.IntN(2) == 0 {
			a.edge[e] = a.edge[old]
		}
	}
	return a
}

// arrive adds the next n nodes to g and sets z to their embeddings.
func (a *arrivals) arrive(g *Graph, n int, z []float32) {
	a.near = a.near[:0]
	for v := g.Len(); v < g.Len()+n; v++ {
		a.near = append(a.near, a.edge[v*perArrival:][:perArrival])
	}
	if g.kinds == nil {
		g.Arrive(a.x[:n], a.near, nil, z)
		return
	}
	first := g.Add(a.x[:n])
	a.nodes = a.nodes[:0]
	for v := first; int(v) < g.Len(); v++ {
		a.link(g, v)
		a.nodes = append(a.nodes, v)
	}
	a.weigh(g)
	g.Embed(a.nodes, z)
}

func (a *arrivals) weigh(g *Graph) {
	if g.kinds != nil {
		g.Weigh(a.weighed...)
		a.weighed = a.weighed[:0]
	}
}

// link adds the edges of a node, of one kind after the other if the graph tells kinds apart.
func (a *arrivals) link(g *Graph, v int32) {
	near := a.edge[int(v)*perArrival:][:perArrival]
	g.LinkAll(v, near)
	if g.kinds != nil {
		for i, u := range near {
			k := uint8((int(v) + i) % g.kinds.enc.means)
			a.weighed = append(a.weighed, WeighedEdge{v, u, k, k, 1 + float32(i)/4})
		}
	}
}

// grown returns a graph of the first n arrivals.
func (a *arrivals) grown(n int, enc Encoder, options ...Option) *Graph {
	g := NewGraph(enc, options...)
	for g.Len() < n {
		first := g.Add(a.x[:min(len(a.x), n-g.Len())])
		for v := first; int(v) < g.Len(); v++ {
			a.link(g, v)
		}
		a.weigh(g)
	}
	return g
}

// benchGraph is a graph to which a benchmark adds arrivals. It is kept between calls of the
// benchmark function, because growing it takes longer than the measurement.
type benchGraph struct {
	enc      Encoder
	options  []Option
	from, to int // arrivals are measured while the number of nodes is between these
	a        *arrivals
	g        *Graph
}

// newBenchGraph returns a graph that has n nodes when measuring begins.
func newBenchGraph(enc Encoder, n int, options ...Option) *benchGraph {
	l := &benchGraph{enc: enc, options: options, from: n, to: n + min(n/4, 50_000) + 1000}
	l.a = attach(rand.New(rand.NewPCG(1, 1)), l.to, enc.In())
	return l
}

// touchMemory grows the heap to what the graph will need. On a virtual machine the first
// access to a page can cost more than everything else in an arrival, and only large graphs
// would pay for it.
func (l *benchGraph) touchMemory() {
	self, aggregate := l.enc.rowLayout()
	room := make([]byte, l.to*(4*(self+aggregate)+300)+1<<24)
	for i := 0; i < len(room); i += 4096 {
		room[i] = 1
	}
	runtime.KeepAlive(room)
	runtime.GC()
}

// measure measures b.N windows of arrivals.
func (l *benchGraph) measure(b *testing.B, window int) {
	z := make([]float32, window*l.enc.Out())
	b.ReportAllocs()
	b.StopTimer()
	b.ResetTimer()
	var before, after runtime.MemStats
	allocs, worked := uint64(0), time.Duration(0)
	for left := b.N; left > 0; {
		if l.g == nil || l.g.Len()+window > l.to {
			l.g = nil
			l.touchMemory()
			l.g = l.a.grown(l.from, l.enc, l.options...)
			l.g.kinds.settle(l.g, upTo(l.from))
		}
		n := min(left, (l.to-l.g.Len())/window)
		runtime.ReadMemStats(&before)
		b.StartTimer()
		start := cpu()
		for range n {
			l.a.arrive(l.g, window, z)
		}
		worked += cpu() - start
		b.StopTimer()
		runtime.ReadMemStats(&after)
		allocs += after.Mallocs - before.Mallocs
		left -= n
	}
	arrived := float64(b.N * window)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/arrived, "ns/arrival")
	b.ReportMetric(arrived/b.Elapsed().Seconds(), "arrivals/s")
	b.ReportMetric(float64(worked)/arrived, "cpu-ns/arrival")
	b.ReportMetric(float64(allocs)/arrived, "allocs/arrival")
}

// BenchmarkArrival measures windows of 500 arrivals at 169,000 nodes, by encoder. The bar
// for GraphSAGE is 196,000 arrivals/s, with less than 0.1 allocs/arrival.
func BenchmarkArrival(b *testing.B) {
	for _, kind := range kinds {
		l := newBenchGraph(randomEncoder(rand.New(rand.NewPCG(1, 1)), kind, ReLU, 128, 128, 64), 169_000)
		b.Run(string(kind), func(b *testing.B) { l.measure(b, 500) })
	}
}

// BenchmarkArrivalByWindow measures windows of several sizes. The bar for a window of 1 is
// 68,000 arrivals/s.
func BenchmarkArrivalByWindow(b *testing.B) {
	l := newBenchGraph(randomSAGE(rand.New(rand.NewPCG(1, 1)), 128, 128, 64), 169_000)
	for _, window := range []int{1, 10, 100, 500} {
		b.Run(fmt.Sprint(window), func(b *testing.B) { l.measure(b, window) })
	}
}

// BenchmarkArrivalByNodes: an arrival into 10 M nodes must take at most 1.5 times as long
// as into 10 K. The graph of 4 M nodes takes 7 GB, and that of 10 M nodes, with a quarter
// of the width, 6 GB.
func BenchmarkArrivalByNodes(b *testing.B) {
	for _, c := range []struct {
		width int
		nodes []int
	}{{128, []int{10_000, 100_000, 1_000_000, 4_000_000}}, {32, []int{10_000, 1_000_000, 10_000_000}}} {
		enc := randomSAGE(rand.New(rand.NewPCG(1, 1)), c.width, c.width, c.width/2)
		for _, n := range c.nodes {
			l := newBenchGraph(enc, n)
			b.Run(fmt.Sprintf("width=%d/nodes=%d", c.width, n), func(b *testing.B) { l.measure(b, 500) })
		}
	}
}

// BenchmarkArrivalByDegree: every arrival names 7 of 700 nodes, which have degree 10 or
// 100,000. The latter must take at most 1.3 times as long. Low degrees would grow, so that
// each window uses other nodes; in both cases a window's nodes are read before measuring.
func BenchmarkArrivalByDegree(b *testing.B) {
	const window, crowd, dim = 500, 700, 128
	enc := randomSAGE(rand.New(rand.NewPCG(1, 1)), dim, dim, 64)
	a := attach(rand.New(rand.NewPCG(1, 1)), 512, dim)
	lattice := func(rounds int) *Graph { // each node has edges to the 5 before and the 5 after it
		g := NewGraph(enc)
		for g.Len() < rounds*crowd {
			v := g.Add(a.x[:1])
			for u := max(v-5, 0); u < v; u++ {
				g.Link(v, u)
			}
		}
		return g
	}
	const rounds = 100
	hubs := lattice(1)
	all := upTo(crowd)
	for range 100_000 {
		hubs.LinkAll(hubs.Add(a.x[:1]), all)
	}
	nodes, near := make([]int32, window), make([]int32, crowd)
	z := make([]float32, window*64)
	nearest := float32(0)
	pick := make([]int32, perArrival)
	for _, degree := range []int{10, 100_000} {
		round, g := rounds, hubs
		b.Run(fmt.Sprintf("degree=%d", degree), func(b *testing.B) {
			b.StopTimer()
			b.ResetTimer()
			rng := rand.New(rand.NewPCG(1, 1))
			worked := time.Duration(0)
			for range b.N {
				if round == rounds && degree == 10 {
					round, g = 0, lattice(rounds)
				}
				for i := range near {
					near[i] = int32(i)
					if degree == 10 {
						near[i] += int32(round * crowd)
					}
				}
				round = min(round+1, rounds)
				for _, v := range near {
					for _, x := range g.rows.whole.Row(v) {
						nearest += x
					}
					nearest += float32(g.Degree(v))
				}
				b.StartTimer()
				start := cpu()
				first := g.Add(a.x[:window])
				for i := range nodes {
					nodes[i] = first + int32(i)
					for k := range pick {
						pick[k] = near[rng.IntN(crowd/perArrival)*perArrival+k]
					}
					g.LinkAll(nodes[i], pick)
				}
				g.Embed(nodes, z)
				worked += cpu() - start
				b.StopTimer()
			}
			b.ReportMetric(float64(worked)/float64(b.N*window), "cpu-ns/arrival")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*window), "ns/arrival")
		})
	}
}

// BenchmarkBFloat16 measures time, memory and error of rows of bfloat16 relative to those
// of float32.
func BenchmarkBFloat16(b *testing.B) {
	enc := randomSAGE(rand.New(rand.NewPCG(1, 1)), 128, 128, 64)
	l := newBenchGraph(enc, 169_000, BFloat16())
	b.Run("arrival", func(b *testing.B) { l.measure(b, 500) })
	b.Run("error", func(b *testing.B) {
		for b.Loop() {
			mean, worst := bfloat16Error(l.a, enc, 20_000)
			b.ReportMetric(mean, "mean-error")
			b.ReportMetric(worst, "worst-error")
		}
	})
}

// bfloat16Error compares the embeddings of a graph's first n nodes with and without
// bfloat16. It returns the norm of the difference relative to that of the embedding, on
// average and at worst.
func bfloat16Error(a *arrivals, enc Encoder, n int) (mean, worst float64) {
	exact, short := make([]float32, n*enc.Out()), make([]float32, n*enc.Out())
	a.grown(n, enc).Embed(upTo(n), exact)
	a.grown(n, enc, BFloat16()).Embed(upTo(n), short)
	for i := 0; i < len(exact); i += enc.Out() {
		off, size := 0.0, 0.0
		for j := i; j < i+enc.Out(); j++ {
			d := float64(short[j]) - float64(exact[j])
			off += d * d
			size += float64(exact[j]) * float64(exact[j])
		}
		relative := math.Sqrt(off / size)
		mean += relative / float64(n)
		worst = max(worst, relative)
	}
	return mean, worst
}

// TestBFloat16: with bfloat16, embeddings differ by little from those without, also for
// hubs. After features are replaced and replaced back, they have the same bits again.
func TestBFloat16(t *testing.T) {
	ofEachKind(t, func(t *testing.T, random func(*rand.Rand, ...int) Encoder) {
		rng := rand.New(rand.NewPCG(4, 4))
		enc := random(rng, 24, 32, 16)
		const n = 3000
		a := attach(rng, n, 24)
		mean, worst := bfloat16Error(a, enc, n)
		if mean == 0 || mean > 0.005 || worst > 0.05 {
			t.Errorf("relative error of embeddings %g on average and %g at worst, want more than 0, at most 0.005 and at most 0.05", mean, worst)
		}
		g := a.grown(n, enc, BFloat16(), Workers(3))
		want := embedAll(g)
		for v := range int32(n) {
			g.Replace(v, a.x[1])
		}
		embedAll(g)
		for v := range int32(n) {
			g.Replace(v, a.x[int(v)%len(a.x)])
		}
		if !slices.Equal(embedAll(g), want) {
			t.Error("embeddings have other bits after features were replaced and replaced back")
		}
	})
}

// TestArrivalsAllocateLittle: an arrival makes less than 0.1 allocations, in windows of one
// or many, with the growth of the graph included.
func TestArrivalsAllocateLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("it counts allocations of large graphs, by one goroutine")
	}
	ofEachKind(t, func(t *testing.T, random func(*rand.Rand, ...int) Encoder) {
		rng := rand.New(rand.NewPCG(1, 1))
		enc := random(rng, 16, 16, 8)
		a := attach(rng, 20_000, 16)
		for _, window := range []int{1, 100} {
			g := a.grown(10_000, enc)
			z := make([]float32, window*8)
			a.arrive(g, window, z)
			if allocs := testing.AllocsPerRun(50, func() { a.arrive(g, window, z) }); allocs >= 0.1*float64(window) {
				t.Errorf("%v allocations in a window of %d, want less than %v", allocs, window, 0.1*float64(window))
			}
		}
	})
}

// BenchmarkMemory measures the heap by node and by edge. The bar is 3·128·4 + 128 bytes a
// node without adjacency.
func BenchmarkMemory(b *testing.B) {
	const n = 169_000
	enc := randomSAGE(rand.New(rand.NewPCG(1, 1)), 128, 128, 64)
	a := attach(rand.New(rand.NewPCG(1, 1)), n, 128)
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for name, enc := range map[string]Encoder{"graphsage": enc, "kinds=3": randomSAGEKinds(rand.New(rand.NewPCG(1, 1)), 3, 128, 128, 64)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				empty := heap()
				g := NewGraph(enc)
				for g.Len() < n {
					g.Add(a.x[:min(len(a.x), n-g.Len())])
				}
				nodes := heap()
				for v := range int32(n) {
					a.link(g, v)
				}
				a.weigh(g)
				g.kinds.settle(g, upTo(n))
				b.ReportMetric((nodes-empty)/n, "bytes/node")
				b.ReportMetric((heap()-nodes)/float64(g.Edges()), "bytes/edge")
				b.ReportMetric((heap()-empty)/n, "bytes")
				runtime.KeepAlive(g)
			}
		})
	}
}

// BenchmarkArrivalOfKinds: an arrival whose edges are of three kinds must take at most 1.6 times the
// processor time of one whose edges are of none, and one of a single kind the same within 3 %.
func BenchmarkArrivalOfKinds(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	none := newBenchGraph(randomSAGE(rng, 128, 128, 64), 169_000)
	three := newBenchGraph(randomSAGEKinds(rng, 3, 128, 128, 64), 169_000)
	for range 3 {
		b.Run("none", func(b *testing.B) { none.measure(b, 500) })
		b.Run("three", func(b *testing.B) { three.measure(b, 500) })
	}
}

// BenchmarkWorkers measures the products of a window of 512, and the whole window. Two
// workers must do the products in at most 1/1.6 of the time of one.
func BenchmarkWorkers(b *testing.B) {
	const window = 512
	enc := randomSAGE(rand.New(rand.NewPCG(1, 1)), 128, 128, 64)
	for _, workers := range []int{1, 2} {
		g := NewGraph(enc, Workers(workers))
		g.Add(attach(rand.New(rand.NewPCG(1, 1)), window, 128).x)
		x := make([]float32, window*256)
		z := make([]float32, window*64)
		b.Run(fmt.Sprintf("products/workers=%d", workers), func(b *testing.B) {
			product := func(_ *workspace, from, to int) {
				n := to - from
				kernel.ProductRowsApart(g.rows.whole.From(int32(from)), g.rowLen, x[from*128:to*128], g.projector.weight, n, 128, 256)
				enc.linearMaps(1)[0].apply(z[from*64:to*64], x[from*256:to*256])
			}
			for b.Loop() {
				g.workers.parallel(window, chunkRows, product)
			}
		})
	}
	for _, workers := range []int{1, 2} {
		l := newBenchGraph(enc, 169_000, Workers(workers))
		b.Run(fmt.Sprintf("arrival/workers=%d", workers), func(b *testing.B) { l.measure(b, window) })
	}
}

// BenchmarkFirstProduct multiplies vectors of 1433 features, 1.3% of them nonzero, as in
// Cora. Sparse vectors must take at most a tenth of the time of the same vectors in dense
// form.
func BenchmarkFirstProduct(b *testing.B) {
	const dim, window = 1433, 512
	rng := rand.New(rand.NewPCG(1, 1))
	enc := randomSAGE(rng, dim, 128, 64)
	dense, thin := make([]Vector, window), make([]Vector, window)
	for i := range dense {
		dense[i] = randomVector(rng, dim, 0.013)
		thin[i] = sparse(dense[i])
	}
	p := enc.projection()
	out := p.out
	dst := make([]float32, window*out)
	var room []float32
	for name, x := range map[string][]Vector{"dense": dense, "sparse": thin} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for i := 0; i < window; i += blockRows {
					room = p.rows(dst[i*out:], out, x[i:i+blockRows], room)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*window), "ns/vector")
		})
	}
}
