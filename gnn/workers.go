package gnn

import (
	"runtime"
	"sync/atomic"
)

// This file is the one place in the package with atomics, and, apart
// from state.go, which restores adjacency lists and rows at once, with
// goroutines. None of them can affect a result: a job's chunks are disjoint rows
// or columns of the output, and each is computed by one worker from inputs that
// do not change during the job, so it does not matter which worker computes a
// chunk, or when.

// chunkRows is how many rows a worker claims at a time. A call with fewer than
// two chunks is done by the caller alone.
const chunkRows = 32

// idlePolls is how many times a helper polls for the next job before it ends. Waking a
// thread can take as long as a window's product; with this, the layers of one
// call, and calls in close succession, find their helpers awake, and between
// windows there are none. There is no clock, which in a test's virtual time would stand still while a helper polls.
const idlePolls = 1000

// spinLimit is how many times the caller polls for its helpers to finish before
// it yields the processor between polls.
const spinLimit = 1000

// workers share the work of a call. The first is the caller, whom goroutines help.
type workers struct {
	space []workspace         // of each; at least one
	job   atomic.Pointer[job] // the job to help with; nil for none
	awake []atomic.Bool       // by worker: its goroutine runs; [0] is the caller's and unused
}

// job is a range of rows, or columns, that the workers share. A worker that is
// free claims the next chunk, so a helper that wakes late holds up no chunk.
type job struct {
	rows, chunk int
	do          func(w *workspace, from, to int)
	next        atomic.Int64 // the first row not claimed
	left        atomic.Int64 // chunks not done
}

// work does chunks until all are claimed.
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

// serial reports whether the caller should do that many rows alone.
func (p *workers) serial(rows int) bool { return len(p.space) == 1 || rows < 2*chunkRows }

// parallel calls do for chunks of the rows, each on one of the workers, and
// returns when all are done.
func (p *workers) parallel(rows, chunk int, do func(w *workspace, from, to int)) {
	j := &job{rows: rows, chunk: chunk, do: do}
	chunks := (rows + chunk - 1) / chunk
	j.left.Store(int64(chunks))
	p.job.Store(j)
	for k := 1; k < min(len(p.space), chunks); k++ {
		if !p.awake[k].Swap(true) {
			go p.help(k, &p.space[k])
		}
	}
	j.work(&p.space[0])
	// At most a part of a chunk is left for each helper. To sleep until then
	// and be woken would take longer, and would let the helpers fall idle.
	for polls := 0; j.left.Load() > 0; polls++ {
		if polls >= spinLimit {
			runtime.Gosched()
		}
	}
	p.job.Store(nil)
}

// help works on one job after the other and ends when none has come for
// idlePolls. A job that comes at that moment is done without it.
func (p *workers) help(k int, w *workspace) {
	defer p.awake[k].Store(false)
	var last *job
	for polls := 0; polls < idlePolls; polls++ {
		if j := p.job.Load(); j != nil && j != last {
			j.work(w)
			last, polls = j, 0
		}
		runtime.Gosched()
	}
}
