package bench

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// samples are the measured times of windows.
type samples struct {
	per   int       // arrivals in a window
	times []float64 // nanoseconds per arrival, by window
}

// begin collects earlier garbage and starts a measurement.
func begin(per int) *samples {
	runtime.GC()
	return &samples{per: per}
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

// median returns nanoseconds per arrival.
func (s *samples) median() float64 {
	slices.Sort(s.times)
	return s.times[len(s.times)/2]
}

// mean returns the mean time of an arrival. It counts what only some windows do, which the
// median leaves out.
func (s *samples) mean() (nanoseconds float64) {
	for _, x := range s.times {
		nanoseconds += x / float64(len(s.times))
	}
	return nanoseconds
}

// warmUp is the number of windows before the measured ones. In them buffers grow to
// their final size.
const warmUp = 3

// leastWindows is how many windows are measured at least, whatever -benchtime says.
const leastWindows = 20

// aTurn is how many windows one side of a comparison has before it is the other's turn, so that most of them find the caches
// as its own left them.
const aTurn = 8

// loop calls window at least leastWindows times.
func loop(b *testing.B, window func()) {
	for range leastWindows {
		window()
	}
	for b.Loop() {
		window()
	}
	b.ReportMetric(0, "ns/op")
}

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
func (w Workload) grow(t testing.TB, options ...gnn.Option) *graph {
	w = w.WithDefaults()
	m, err := w.Model()
	must(t, err)
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
	return g
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

// graphCosts measures the graph and the encoder alone, on one thread, of each workload: they add, link
// and embed windows of arrivals in turns, so that other load on the machine affects all of them alike.
// It returns the medians of nanoseconds an arrival.
func graphCosts(b *testing.B, workloads ...Workload) (costs []float64) {
	var arrivals []func(measured *samples)
	var took []*samples
	for _, w := range workloads {
		g := w.grow(b)
		arrivals = append(arrivals, func(measured *samples) {
			g.draw(g.w.Window)
			measured.run(g.arrive)
		})
		took = append(took, begin(g.w.Window))
		for range warmUp {
			arrivals[len(arrivals)-1](&samples{per: 1})
		}
	}
	loop(b, func() {
		for i := range arrivals {
			arrivals[i](took[i])
		}
	})
	for _, s := range took {
		costs = append(costs, s.median())
	}
	return costs
}

// steps creates an engine and grows its graph to the workload's size. Each call of next
// draws a window, with labels, and returns a function that steps the engine with it.
func (w Workload) steps(t testing.TB) (next func() func()) {
	w = w.WithDefaults()
	m, err := w.Model()
	must(t, err)
	e, err := pipeline.New(m, pipeline.Config{})
	must(t, err)
	stream := w.Stream()
	for window := range stream.growth() {
		e.Step(window)
	}
	for range warmUp {
		e.Step(stream.Next(true))
	}
	var last *event.Outcome // recycled before the next step, as a worker does
	return func() func() {
		window := stream.Next(true)
		return func() {
			if last != nil {
				e.Recycle(last)
			}
			last = e.Step(window)
		}
	}
}

// heapBytes returns the bytes of live objects.
func heapBytes() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
