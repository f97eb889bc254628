package worker

import (
	"math"
	"sync"
	"time"
)

// cost is what a cell takes of a process, in multiples of an idle and empty one, which takes some .8 MB and .0002 of a core. A core
// that is busy all the time counts as much as 4 GB.
type cost struct {
	mu    sync.Mutex
	nodes int       // of its graph
	began time.Time // of counting steps; zero before that
	at    time.Time // when busy was that
	busy  float64   // seconds of steps, which count for less the longer ago they were
}

const (
	nodesOfIdle = 500  // take as much memory as an idle cell
	idleOfCore  = 5000 // as many idle cells take a core
	lately      = 300. // seconds, after which a step counts for a third
	surely      = 30.  // seconds of counting, before which little is known
)

// begin begins to count steps: those of a replay before say nothing of the load.
func (c *cost) begin(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began, c.at, c.busy = now, now, 0
}

// step counts a window that took so long, and after which the graph has so many nodes.
func (c *cost) step(now time.Time, nodes int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes = nodes; !c.began.IsZero() {
		c.busy, c.at = fade(c.busy, now.Sub(c.at))+took.Seconds(), now
	}
}

// of returns the cost.
func (c *cost) of(now time.Time) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := lately - fade(lately, now.Sub(c.began))
	return 1 + float64(c.nodes)/nodesOfIdle + idleOfCore*fade(c.busy, now.Sub(c.at))/max(counted, surely)
}

// fade returns what is left of seconds after a while.
func fade(seconds float64, after time.Duration) float64 {
	return seconds * math.Exp(-after.Seconds()/lately)
}
