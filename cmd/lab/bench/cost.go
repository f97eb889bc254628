package bench

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
)

// cost is the time and the allocations of an arrival.
type cost struct {
	nanoseconds float64 // median over windows
	allocations float64 // mean
}

// perSecond returns the rate in arrivals per second.
func (c cost) perSecond() float64 { return 1e9 / c.nanoseconds }

// samples are the measured times of windows.
type samples struct {
	per    int       // arrivals in a window
	times  []float64 // nanoseconds per arrival, by window
	before runtime.MemStats
}

// begin collects earlier garbage and starts a measurement.
func begin(per int) *samples {
	s := &samples{per: per}
	runtime.GC()
	runtime.ReadMemStats(&s.before)
	return s
}

// run measures the wall-clock time of a window.
func (s *samples) run(f func()) {
	start := time.Now()
	f()
	s.times = append(s.times, float64(time.Since(start).Nanoseconds())/float64(s.per))
}

// runCPU measures a window in CPU time of the calling thread, which does not count the
// time that other programs take. The goroutine must be locked to its thread.
func (s *samples) runCPU(f func()) {
	start := cpuTime()
	f()
	s.times = append(s.times, float64(cpuTime()-start)/float64(s.per))
}

// cost ends the measurement.
func (s *samples) cost() cost {
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	slices.Sort(s.times)
	return cost{
		nanoseconds: s.times[len(s.times)/2],
		allocations: float64(after.Mallocs-s.before.Mallocs) / float64(len(s.times)*s.per),
	}
}

// warmUp is the number of windows before the measured ones. In them buffers grow to
// their final size.
const warmUp = 3

// graph is a graph with a source of arrivals.
type graph struct {
	w      Workload
	source *source
	g      *gnn.Graph
	x      []gnn.Vector // features of the drawn nodes
	near   [][]int32    // neighbours of the drawn nodes
	links  []int32      // scratch of draw
	z      []float32    // embeddings of a window
}

// grow returns a graph of the workload's size.
func (w Workload) grow(options ...gnn.Option) (*graph, error) {
	w = w.WithDefaults()
	m, err := w.Model()
	if err != nil {
		return nil, err
	}
	const chunk = 1000
	size := max(chunk, w.Window)
	g := &graph{
		w: w, source: w.source(), g: gnn.NewGraph(m.Encoder, options...),
		x: make([]gnn.Vector, size), near: make([][]int32, size), z: make([]float32, w.Window*w.Embedding),
	}
	for g.g.Len() < w.Nodes {
		n := min(chunk, w.Nodes-g.g.Len())
		g.draw(n)
		first := g.g.Add(g.x[:n])
		for i := range n {
			g.g.LinkAll(first+int32(i), g.near[i])
		}
	}
	return g, nil
}

// draw draws the next n nodes.
func (g *graph) draw(n int) {
	for i := range n {
		g.x[i], g.links = g.source.next(g.links[:0])
		g.near[i] = append(g.near[i][:0], g.links...)
	}
}

// arrive adds, links and embeds the drawn window.
func (g *graph) arrive() {
	g.g.Arrive(g.x[:g.w.Window], g.near[:g.w.Window], nil, g.z)
}

// graphCost measures the graph and the encoder alone, on one thread: it adds, links and
// embeds windows of arrivals.
func (w Workload) graphCost(windows int) (cost, error) {
	g, err := w.grow()
	if err != nil {
		return cost{}, err
	}
	for range warmUp {
		g.draw(g.w.Window)
		g.arrive()
	}
	s := begin(g.w.Window)
	for range windows {
		g.draw(g.w.Window)
		s.run(g.arrive)
	}
	return s.cost(), nil
}

// stepCost measures whole steps of the engine, on one thread: graph, encoder,
// predictions with their uncertainty, the join of labels, scores and the update.
func (w Workload) stepCost(windows int, labelled bool) (cost, error) {
	next, err := w.steps(labelled)
	if err != nil {
		return cost{}, err
	}
	s := begin(w.WithDefaults().Window)
	for range windows {
		s.run(next())
	}
	return s.cost(), nil
}

// stepCosts measures whole steps, with labels, of one engine for each workload. The
// engines step in turns, so that other load on the machine affects all of them alike. It
// returns nanoseconds of CPU time per arrival.
func stepCosts(windows int, workloads ...Workload) ([]float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	next, measured := make([]func() func(), len(workloads)), make([]*samples, len(workloads))
	for i, w := range workloads {
		var err error
		if next[i], err = w.steps(true); err != nil {
			return nil, err
		}
	}
	for i, w := range workloads {
		measured[i] = begin(w.WithDefaults().Window)
	}
	for range windows {
		for i := range workloads {
			measured[i].runCPU(next[i]())
		}
	}
	costs := make([]float64, len(workloads))
	for i, s := range measured {
		costs[i] = s.cost().nanoseconds
	}
	return costs, nil
}

// steps creates an engine and grows its graph to the workload's size. Each call of next
// draws a window and returns a function that steps the engine with it.
func (w Workload) steps(labelled bool) (next func() func(), err error) {
	w = w.WithDefaults()
	m, err := w.Model()
	if err != nil {
		return nil, err
	}
	e, err := pipeline.New(m, pipeline.Config{})
	if err != nil {
		return nil, err
	}
	stream := w.Stream()
	for window := range stream.growth() {
		e.Step(window)
	}
	for range warmUp {
		e.Step(stream.Next(labelled))
	}
	var last *event.Outcome // recycled before the next step, as a worker does
	return func() func() {
		window := stream.Next(labelled)
		return func() {
			if last != nil {
				e.Recycle(last)
			}
			last = e.Step(window)
		}
	}, nil
}

// graphBytes measures the memory of a node without its edges, and that of an edge.
func (w Workload) graphBytes() (node, edge float64, err error) {
	w = w.WithDefaults()
	m, err := w.Model()
	if err != nil {
		return 0, 0, err
	}
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
	linked := heapBytes()
	runtime.KeepAlive(g)
	return (nodes - empty) / float64(w.Nodes), (linked - nodes) / float64(g.Edges()), nil
}

// hubCost measures arrivals that all name the same 700 nodes, once when these have
// degree 10 and once when they have the given degree.
func (w Workload) hubCost(degree, windows int) (low, high cost, err error) {
	w = w.WithDefaults()
	const crowd = 700
	w.Nodes = crowd
	measure := func(degree int) (cost, error) {
		g, err := w.grow()
		if err != nil {
			return cost{}, err
		}
		hubs := make([]int32, crowd)
		for i := range hubs {
			hubs[i] = int32(i)
		}
		for g.g.Degree(0) < degree {
			g.g.LinkAll(g.g.Add(g.x[:1]), hubs)
		}
		// Arrivals name the hubs in rotation, so that degrees hardly grow.
		s := begin(w.Window)
		for t := range windows {
			g.draw(w.Window)
			for i := range w.Window {
				for k := range g.near[i] {
					g.near[i][k] = hubs[(t*w.Window+i*len(g.near[i])+k)%crowd]
				}
			}
			s.run(g.arrive)
		}
		return s.cost(), nil
	}
	if low, err = measure(10); err != nil {
		return low, high, err
	}
	high, err = measure(degree)
	return low, high, err
}

// productCost measures a matrix product alone: it embeds a window of nodes without edges.
// Adding nodes is a product too, but it also takes memory that another goroutine prepares
// at the same time.
func (w Workload) productCost(workers, windows int) (cost, error) {
	g, err := w.grow(gnn.Workers(workers))
	if err != nil {
		return cost{}, err
	}
	g.draw(w.Window)
	first := g.g.Add(g.x[:w.Window])
	nodes := make([]int32, w.Window)
	for i := range nodes {
		nodes[i] = first + int32(i)
	}
	s := begin(w.Window)
	for range windows {
		s.run(func() { g.g.Embed(nodes, g.z) })
	}
	return s.cost(), nil
}

// headCost measures the last layer on a window of rows: the predictions of both of the
// paper's heads with the uncertainty split, and the update from a label for each row.
func (w Workload) headCost(windows int) (predict, learn cost, err error) {
	w = w.WithDefaults()
	m, err := w.Model()
	if err != nil {
		return predict, learn, err
	}
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
	p, l := begin(w.Window), begin(w.Window)
	for range windows {
		p.run(func() { predictive.Serve(heads, 0, rows, probs, split) })
		l.run(func() { online.Learn(rows, labels) })
	}
	return p.cost(), l.cost(), nil
}

// heapBytes returns the bytes of live objects.
func heapBytes() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
