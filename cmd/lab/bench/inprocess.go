package bench

import (
	"slices"
	"sync"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// inProcess measures a graph in two shards on a thread each, with its lead, against an engine
// on one thread. They take turns, with a label for each arrival. Times are those on the clock,
// the lowest tenth of windows: the ratio needs two processors that nothing else uses.
func (c Config) inProcess() ([]Row, error) {
	const shards = 2
	m, err := c.Model()
	if err != nil {
		return nil, err
	}
	e, err := pipeline.New(m, like)
	if err != nil {
		return nil, err
	}
	s, err := pipeline.NewSharded(m, like, shards, onThreads)
	if err != nil {
		return nil, err
	}
	one, two := c.onClock(e, 1), c.onClock(s, shards)
	if err := inTurn(2*c.Window*c.windows(), one, two); err != nil {
		return nil, err
	}
	a, b := one.least(), two.least()
	return []Row{
		figure("shards-in-process-1", 1e9/a, "arrivals/s"),
		figure("shards-in-process-2", 1e9/b, "arrivals/s"),
		atLeast("shards-in-process-2-against-1", a/b, "times", 1.6),
	}, s.Err()
}

// onThreads is a [pipeline.Runner] with a thread for each.
func onThreads(n int, each func(i int)) {
	var others sync.WaitGroup
	for i := 1; i < n; i++ {
		others.Go(func() { each(i) })
	}
	each(0)
	others.Wait()
}

// graphOfWindows is an engine, or all shards of a graph.
type graphOfWindows interface {
	Step(*event.Window) *event.Outcome
	Recycle(*event.Outcome)
}

// onClock is a graph whose steps are measured on the clock.
type onClock struct {
	part
	g graphOfWindows
}

// onClock returns the graph grown to the workload's size. Its windows are times as large as the
// workload's.
func (w Workload) onClock(g graphOfWindows, times int) *onClock {
	w.Window *= times
	x := &onClock{g: g, part: part{w: w, stream: w.Stream(), recycle: g.Recycle}}
	for window := range x.stream.Growth() {
		g.Recycle(g.Step(window))
	}
	x.begin()
	return x
}

// step measures the whole window as one stage.
func (x *onClock) step() error {
	window := x.next()
	x.enter.run(func() { x.last = x.g.Step(window) })
	return nil
}

// least returns the lowest tenth of the windows' times, for each arrival.
func (x *onClock) least() float64 {
	slices.Sort(x.enter.times)
	return x.enter.times[len(x.enter.times)/10]
}
