package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// lags are the values of pipeline.Config.LearnLag that are compared with none.
var lags = []int{1, 2, 4}

// learnLag compares engines with the default pool and a label for each arrival that learn on a
// thread of their own, some windows late, with one that learns at once. They step ten windows
// in turn. The first figure of a lag is the ratio of the time of a window. It needs two processors that
// nothing else uses; the second is computed from the CPU time of the two threads.
func learnLag(_ context.Context, c Config) ([]Row, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w := c.Workload
	w.Pool, w.Nodes = true, min(c.Nodes, 20_000)
	var all []*lagging
	for _, lag := range append([]int{0}, lags...) {
		l, err := w.lagging(lag)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	turns := 20
	if c.Quick {
		turns = 1
	}
	for range turns {
		for _, l := range all {
			l.step(10)
		}
	}
	at0 := all[0].medians()
	list := []Row{figure("learn-lag-0", 1e9/at0.wall, "arrivals/s")}
	for i, lag := range lags {
		m := all[1+i].medians()
		list = append(list,
			atLeast(fmt.Sprintf("learn-lag-%d", lag), at0.wall/m.wall, "times", 1.6),
			figure(fmt.Sprintf("learn-lag-%d-computed", lag), at0.alone()/m.beside(), "times"),
			figure(fmt.Sprintf("learn-lag-%d-learner", lag), m.learner/(m.learner+m.serve+m.others), "of the CPU time"),
		)
	}
	return list, nil
}

// lagging is an engine and what its windows took.
type lagging struct {
	engine  *pipeline.Engine
	stream  *Stream
	last    *event.Outcome
	learner int64 // CPU time of the learner's thread so far
	took    []window
}

// window is what windows took, in nanoseconds an arrival.
type window struct {
	wall          float64
	serve, others float64 // CPU time of the engine's thread: in Serve, and in Enter and Learn
	learner       float64 // CPU time of the learner's
}

// alone returns the time of a window on one thread.
func (w window) alone() float64 { return w.serve + w.others + w.learner }

// beside returns the time of a window on two processors: learning runs beside all but Serve.
func (w window) beside() float64 { return w.serve + max(w.others, w.learner) }

func (w Workload) lagging(lag int) (*lagging, error) {
	w = w.WithDefaults()
	m, err := w.Model()
	if err != nil {
		return nil, err
	}
	l := &lagging{stream: w.Stream()}
	run := func(job func()) (wait func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			began := cpuTime()
			job()
			l.learner += cpuTime() - began
		}()
		return func() { <-done }
	}
	if l.engine, err = pipeline.New(m, pipeline.Config{LearnLag: lag, Run: run}); err != nil {
		return nil, err
	}
	for grown := 0; grown < w.Nodes; grown += 1000 {
		l.engine.Step(l.stream.Grow(min(1000, w.Nodes-grown)))
	}
	l.step(warmUp + lag)
	l.took = nil
	return l, nil
}

// step steps the engine with the next windows, and measures them.
func (l *lagging) step(n int) {
	windows := make([]*event.Window, n) // drawn before, so that learning runs beside the engine alone
	for i := range windows {
		w := *l.stream.Next(true)
		w.Nodes, w.Labels = slices.Clone(w.Nodes), slices.Clone(w.Labels)
		for k := range w.Nodes {
			w.Nodes[k].Neighbours = slices.Clone(w.Nodes[k].Neighbours)
		}
		windows[i] = &w
	}
	learner, began := l.learner, time.Now()
	var serve, others int64
	for _, w := range windows {
		if l.last != nil {
			l.engine.Recycle(l.last)
		}
		begun := cpuTime()
		l.engine.Enter(w)
		entered := cpuTime()
		l.engine.Serve()
		served := cpuTime()
		l.last = l.engine.Learn()
		serve += served - entered
		others += entered - begun + cpuTime() - served
	}
	l.engine.Pooled() // waits for the learner
	arrivals := float64(n * len(windows[0].Nodes))
	l.took = append(l.took, window{
		wall:  float64(time.Since(began).Nanoseconds()) / arrivals,
		serve: float64(serve) / arrivals, others: float64(others) / arrivals, learner: float64(l.learner-learner) / arrivals,
	})
}

func (l *lagging) medians() window {
	median := func(of func(window) float64) float64 {
		var list []float64
		for _, w := range l.took {
			list = append(list, of(w))
		}
		slices.Sort(list)
		return list[len(list)/2]
	}
	return window{
		median(func(w window) float64 { return w.wall }), median(func(w window) float64 { return w.serve }),
		median(func(w window) float64 { return w.others }), median(func(w window) float64 { return w.learner }),
	}
}
