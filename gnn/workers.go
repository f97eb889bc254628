package gnn

import (
	"runtime"
	"sync/atomic"
	"time"
)

// chunkRows is how many rows a worker takes at a time, where rows are shared. A
// call with less than two chunks is for one.
const chunkRows = 32

// idleTime is how long a helper spinLimit out for the next job before it ends. Waking
// a thread can take as long as a window's product, so the layers of one call, and
// calls that follow each other closely, find their helpers awake; between
// windows there are none.
const idleTime = 100 * time.Microsecond

// spinLimit is how often the caller spinLimit whether its helpers are done, before it lets
// others have the processor between two spinLimit.
const spinLimit = 1000

// helperPool are the goroutines that help the one that calls.
type helperPool struct {
	job   atomic.Pointer[job]
	awake []atomic.Bool // by worker; the first is the caller
}

// job is rows to share, or columns. Whoever is free takes the next chunk, so a
// helper that wakes late has taken none, and nobody waits for it.
type job struct {
	rows, chunk int
	do          func(w *workspace, from, to int)
	next        atomic.Int64 // row that nobody has taken
	left        atomic.Int64 // chunks that are not done
}

// work does chunks until none is left to take.
func (j *job) work(w *workspace) {
	for {
		from := int(j.next.Add(int64(j.chunk))) - j.chunk
		if from >= j.rows {
			return
		}
		j.do(w, from, min(from+j.chunk, j.rows))
		j.left.Add(-1)
	}
}

// alone reports whether one worker had best do all of so many rows.
func (g *Graph) serial(rows int) bool { return len(g.work) == 1 || rows < 2*chunkRows }

// split has the workers share rows, a chunk at a time, of which each is done by one
// of them, and returns when all are done.
func (g *Graph) parallel(rows, chunk int, do func(w *workspace, from, to int)) {
	j := &job{rows: rows, chunk: chunk, do: do}
	chunks := (rows + chunk - 1) / chunk
	j.left.Store(int64(chunks))
	g.helpers.job.Store(j)
	for k := 1; k < min(len(g.work), chunks); k++ {
		if !g.helpers.awake[k].Swap(true) {
			go g.helpers.help(k, &g.work[k])
		}
	}
	j.work(&g.work[0])
	// What is left is a part of a chunk. To sleep until then, and be woken, would
	// take longer, and put the helper to sleep in turn.
	for looked := 0; j.left.Load() > 0; looked++ {
		if looked >= spinLimit {
			runtime.Gosched()
		}
	}
	g.helpers.job.Store(nil)
}

// help works on one job after the other, and ends when none has come for a
// while. A job that comes at that moment is done without it.
func (c *helperPool) help(k int, w *workspace) {
	defer c.awake[k].Store(false)
	var last *job
	for until := time.Now().Add(idleTime); time.Now().Before(until); runtime.Gosched() {
		if j := c.job.Load(); j != nil && j != last {
			j.work(w)
			last, until = j, time.Now().Add(idleTime)
		}
	}
}
