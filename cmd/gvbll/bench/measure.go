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

// Cost is what arrivals cost.
type Cost struct {
	Nanoseconds float64 // an arrival, the median of windows
	Allocations float64 // an arrival
	Bytes       float64 // allocated an arrival
}

// PerSecond is how many arrivals a second takes.
func (c Cost) PerSecond() float64 { return 1e9 / c.Nanoseconds }

// samples are the measured windows, of per arrivals each.
type samples struct {
	per    int
	took   []float64
	before runtime.MemStats
}

func begin(per int) *samples {
	s := &samples{per: per}
	runtime.GC()
	runtime.ReadMemStats(&s.before)
	return s
}

func (s *samples) run(f func()) {
	start := time.Now()
	f()
	s.took = append(s.took, float64(time.Since(start).Nanoseconds())/float64(s.per))
}

// runAlone is run for what takes one thread, by its CPU time. The goroutine must be
// locked to its thread.
func (s *samples) runAlone(f func()) {
	start := cpuTime()
	f()
	s.took = append(s.took, float64(cpuTime()-start)/float64(s.per))
}

func (s *samples) cost() Cost {
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	slices.Sort(s.took)
	n := float64(len(s.took) * s.per)
	return Cost{
		Nanoseconds: s.took[len(s.took)/2],
		Allocations: float64(after.Mallocs-s.before.Mallocs) / n,
		Bytes:       float64(after.TotalAlloc-s.before.TotalAlloc) / n,
	}
}

// graph is a graph that arrivals come into, and where they come from.
type graph struct {
	w      Workload
	source *source
	g      *gnn.Graph
	x      []gnn.Vector
	near   [][]int32
	links  []int32
	nodes  []int32
	z      []float32
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
		w: w, source: w.source(), g: gnn.NewGraph(m.Encoder, options...), x: make([]gnn.Vector, size), near: make([][]int32, size),
		nodes: make([]int32, w.Window), z: make([]float32, w.Window*w.Embedding),
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

// draw makes the next n nodes.
func (g *graph) draw(n int) {
	for i := range n {
		g.x[i], g.links = g.source.next(g.links[:0])
		g.near[i] = append(g.near[i][:0], g.links...)
	}
}

// arrive adds, links and embeds the window that was drawn.
func (g *graph) arrive() {
	g.g.Arrive(g.x[:g.w.Window], g.near[:g.w.Window], nil, g.z)
}

// measure takes so many windows.
func (g *graph) measure(windows int) Cost {
	for range 3 { // buffers take their size
		g.draw(g.w.Window)
		g.arrive()
	}
	s := begin(g.w.Window)
	for range windows {
		g.draw(g.w.Window)
		s.run(g.arrive)
	}
	return s.cost()
}

// Graph measures graph and encoder alone: windows of arrivals are added, linked
// and embedded, on one thread unless the options say otherwise.
func (w Workload) Graph(windows int, options ...gnn.Option) (Cost, error) {
	g, err := w.grow(options...)
	if err != nil {
		return Cost{}, err
	}
	return g.measure(windows), nil
}

// Engine measures whole steps, on one thread: graph, encoder, predictions with
// their uncertainty, the join of labels, scores and the update.
func (w Workload) Engine(windows int, labelled bool) (Cost, error) {
	step, err := w.steps(labelled)
	if err != nil {
		return Cost{}, err
	}
	s := begin(w.WithDefaults().Window)
	for range windows {
		s.run(step())
	}
	return s.cost(), nil
}

// InTurn measures the CPU time of whole steps, with labels, of an engine for each
// workload, one step of each after the other, so that what else the machine does
// falls on all of them. It returns nanoseconds an arrival, medians of windows.
func InTurn(windows int, workloads ...Workload) ([]float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	steps, measured := make([]func() func(), len(workloads)), make([]*samples, len(workloads))
	for i, w := range workloads {
		var err error
		if steps[i], err = w.steps(true); err != nil {
			return nil, err
		}
	}
	for i, w := range workloads {
		measured[i] = begin(w.WithDefaults().Window)
	}
	for range windows {
		for i, step := range steps {
			measured[i].runAlone(step())
		}
	}
	costs := make([]float64, len(workloads))
	for i, s := range measured {
		costs[i] = s.cost().Nanoseconds
	}
	return costs, nil
}

// steps grows an engine's graph and returns what makes its next step ready.
func (w Workload) steps(labelled bool) (func() func(), error) {
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
	for grown := 0; grown < w.Nodes; {
		n := min(1000, w.Nodes-grown)
		e.Step(stream.Grow(n))
		grown += n
	}
	for range 3 { // buffers take their size
		e.Step(stream.Next(labelled))
	}
	var out *event.Outcome // the last, given back as a worker's engine does
	return func() func() {
		window := stream.Next(labelled)
		return func() {
			if out != nil {
				e.Recycle(out)
			}
			out = e.Step(window)
		}
	}, nil
}

// Memory measures what the graph takes, in bytes: a node without its edges, and
// an edge.
func (w Workload) Memory() (node, edge float64, err error) {
	w = w.WithDefaults()
	m, err := w.Model()
	if err != nil {
		return 0, 0, err
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	src := w.source()
	x, near := make([]gnn.Vector, w.Nodes), make([]int32, 0, w.Nodes*w.Degree/2)
	ends := make([]int, w.Nodes+1)
	for v := range x {
		x[v], near = src.next(near)
		ends[v+1] = len(near)
	}
	empty := heap()
	g := gnn.NewGraph(m.Encoder)
	for lo := 0; lo < w.Nodes; lo += 1000 {
		g.Add(x[lo:min(lo+1000, w.Nodes)])
	}
	nodes := heap()
	for v := range int32(w.Nodes) {
		g.LinkAll(v, near[ends[v]:ends[v+1]])
	}
	linked := heap()
	runtime.KeepAlive(g)
	return (nodes - empty) / float64(w.Nodes), (linked - nodes) / float64(g.Edges()), nil
}

// Hubs measures arrivals that all name the same few nodes, of a degree of 10 and
// of the given one, and returns the costs of both.
func (w Workload) Hubs(degree, windows int) (low, high Cost, err error) {
	w = w.WithDefaults()
	const crowd = 700
	run := func(degree int) (Cost, error) {
		w := w
		w.Nodes = crowd
		g, err := w.grow()
		if err != nil {
			return Cost{}, err
		}
		hubs := make([]int32, crowd)
		for i := range hubs {
			hubs[i] = int32(i)
		}
		for g.g.Degree(0) < degree {
			g.g.LinkAll(g.g.Add(g.x[:1]), hubs)
		}
		// Each window names others of the crowd, so that degrees hardly grow.
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
	if low, err = run(10); err != nil {
		return low, high, err
	}
	high, err = run(degree)
	return low, high, err
}

// Head measures the last layer on a window of rows: predicting with every head
// of the pool and the uncertainty split, and learning from as many labels.
func (w Workload) Head(windows int) (predict, learn Cost, err error) {
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
	split, u := posterior.NewPredictive(w.Classes, 16), make([]posterior.Uncertainty, w.Window)
	said := make([]float32, w.Window*len(heads)*w.Classes)
	p, l := begin(w.Window), begin(w.Window)
	for range windows {
		p.run(func() {
			split.Serve(heads, 0, rows, said, u)
		})
		l.run(func() { online.Learn(rows, labels) })
	}
	return p.cost(), l.cost(), nil
}
