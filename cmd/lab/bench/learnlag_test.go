package bench

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// lags are the values of pipeline.Config.LearnLag that are compared with none.
var lags = []int{1, 2, 4}

// BenchmarkLearnLag compares engines with the default pool and a label for each arrival that learn some
// windows late, and have a second thread for that, with one that learns at once. They step in
// turn. The first figure of a lag is the ratio of the times of a window, each the lowest tenth: it
// needs two processors that nothing else uses. The second is computed from the CPU time of the
// two threads.
func BenchmarkLearnLag(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w := given.WithDefaults()
	w.Pool, w.Nodes = true, min(w.Nodes, 20_000)
	var all []*lagging
	for _, lag := range append([]int{0}, lags...) {
		all = append(all, w.lagging(b, lag))
	}
	loop(b, func() {
		for _, l := range all {
			l.step()
		}
	})
	at0 := all[0].typical()
	b.ReportMetric(1e9/at0.wall, "arrivals/s")
	b.ReportMetric(at0.cpu(), "ns/arrival")
	for stage, took := range map[string]float64{
		"enter": at0.enter, "serve": at0.serve, "serve-beside": at0.half, "learn": at0.others - at0.enter, "learn-beside": at0.learning,
	} {
		b.ReportMetric(took, stage+"-ns")
	}
	for i, lag := range lags {
		t := all[1+i].typical()
		for name, value := range map[string]float64{
			"times": at0.wall / t.wall, "computed-times": at0.cpu() / t.beside(), "first-ns": t.serve + t.others, "second-ns": t.half + t.learning,
		} {
			b.ReportMetric(value, fmt.Sprintf("lag-%d-%s", lag, name))
		}
	}
}

// lagging is an engine that has entered a window.
type lagging struct {
	engine  *pipeline.Engine
	stream  *Stream
	per     float64 // arrivals in a window
	next    *event.Window
	last    *event.Outcome
	running sync.WaitGroup
	jobs    []int64 // CPU time of the other thread's, of which the last learns
	took    []window
}

// window is what a window took, in nanoseconds an arrival.
type window struct {
	wall           float64
	serve, others  float64 // CPU time of the engine's thread: in Serve, and in Enter and Learn
	enter          float64 // CPU time of Enter alone
	half, learning float64 // CPU time of the other: in Serve, and learning
}

func (w window) cpu() float64 { return w.serve + w.others + w.half + w.learning }

// beside returns the time of a window on two processors of their own: learning runs beside all
// but Serve, and in Serve each has a part.
func (w window) beside() float64 { return max(w.serve, w.half) + max(w.others, w.learning) }

func (w Workload) lagging(t testing.TB, lag int) *lagging {
	w = w.WithDefaults()
	m, err := w.Model()
	must(t, err)
	l := &lagging{stream: w.Stream(), per: float64(w.Window)}
	l.engine, err = pipeline.New(m, pipeline.Config{LearnLag: lag, Local: pipeline.Local{Run: l.run}})
	must(t, err)
	for window := range l.stream.growth() {
		l.engine.Step(window)
	}
	l.draw()
	l.engine.Enter(l.next)
	for range warmUp + lag {
		l.step()
	}
	l.took = nil
	return l
}

// run runs a job on a thread, and measures it.
func (l *lagging) run(job func()) (wait func()) {
	done := make(chan struct{})
	l.running.Go(func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		began := cpuTime()
		job()
		l.jobs = append(l.jobs, cpuTime()-began)
	})
	return func() { <-done }
}

// draw draws the next window, which shares no memory with the one before.
func (l *lagging) draw() {
	w := *l.stream.Next(true)
	w.Nodes, w.Labels = slices.Clone(w.Nodes), slices.Clone(w.Labels)
	for i := range w.Nodes {
		w.Nodes[i].Neighbours = slices.Clone(w.Nodes[i].Neighbours)
	}
	l.next = &w
}

// step ends the window and enters the next one, beside which it is learned, and measures both.
func (l *lagging) step() {
	l.draw()
	l.jobs = nil
	began, begun := time.Now(), cpuTime()
	l.engine.Serve()
	served := cpuTime()
	out := l.engine.Learn()
	if l.last != nil {
		l.engine.Recycle(l.last)
	}
	l.last = out
	learned := cpuTime()
	l.engine.Enter(l.next)
	entered := cpuTime()
	l.running.Wait()
	took := window{
		wall:  float64(time.Since(began).Nanoseconds()) / l.per,
		serve: float64(served-begun) / l.per, others: float64(entered-served) / l.per, enter: float64(entered-learned) / l.per,
	}
	if last := len(l.jobs) - 1; last >= 0 {
		took.learning = float64(l.jobs[last]) / l.per
		for _, job := range l.jobs[:last] {
			took.half += float64(job) / l.per
		}
	}
	l.took = append(l.took, took)
}

// typical returns the medians of what windows took, of the time on the clock the lowest tenth:
// other programs make it longer.
func (l *lagging) typical() window {
	quantile := func(q float64, of func(window) float64) float64 {
		var list []float64
		for _, w := range l.took {
			list = append(list, of(w))
		}
		slices.Sort(list)
		return list[int(q*float64(len(list)))]
	}
	return window{
		wall:  quantile(0.1, func(w window) float64 { return w.wall }),
		serve: quantile(0.5, func(w window) float64 { return w.serve }), others: quantile(0.5, func(w window) float64 { return w.others }),
		enter: quantile(0.5, func(w window) float64 { return w.enter }),
		half:  quantile(0.5, func(w window) float64 { return w.half }), learning: quantile(0.5, func(w window) float64 { return w.learning }),
	}
}
