package gnn

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
)

// TestParallel: when parallel returns, every row has been done exactly once, whether
// helpers were awake or not, and no two workers used a workspace at the same time.
func TestParallel(t *testing.T) {
	for _, processors := range []int{1, 2, 4} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		g := NewGraph(randomSAGE(rand.New(rand.NewPCG(1, 2)), 4, 4, 3), Workers(3))
		for _, rows := range []int{64, 65, 500, 2000} {
			for range 200 {
				done := make([]int32, rows) // not atomic: the race detector finds rows with two writers
				var busy [3]atomic.Bool
				g.workers.parallel(rows, chunkRows, func(w *workspace, from, to int) {
					k := 0
					for w != &g.workers.space[k] {
						k++
					}
					if busy[k].Swap(true) {
						t.Error("two chunks use one workspace at the same time")
					}
					for i := from; i < to; i++ {
						done[i]++
					}
					busy[k].Store(false)
				})
				if i := slices.IndexFunc(done, func(n int32) bool { return n != 1 }); i >= 0 {
					t.Fatalf("row %d of %d was done %d times, want once", i, rows, done[i])
				}
			}
		}
	}
}

// TestHelpersEnd: helpers end some time after the last job, so that an idle graph has no
// goroutines.
func TestHelpersEnd(t *testing.T) {
	g := NewGraph(randomSAGE(rand.New(rand.NewPCG(1, 2)), 4, 4, 3), Workers(4))
	g.workers.parallel(1000, chunkRows, func(*workspace, int, int) {})
	for k := range g.workers.awake {
		for g.workers.awake[k].Load() {
			runtime.Gosched()
		}
	}
}
