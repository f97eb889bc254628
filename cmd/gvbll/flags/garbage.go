package flags

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// garbageBudget is the garbage, in bytes, after which a large heap is collected.
const garbageBudget = 256 << 20

// boundGarbage lowers GOGC once the live heap exceeds garbageBudget, so that a cycle
// starts after that much new garbage instead of as much as is live. Most of a worker's
// heap is the rows of its graph, which hold no pointers, so a cycle is cheap; fresh
// pages are expensive on some systems. A GOGC in the environment takes precedence.
func boundGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	live, percent := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, 100
	var wait func()
	wait = func() { // a finalizer runs once in each cycle
		runtime.SetFinalizer(new(*byte), func(**byte) {
			metrics.Read(live)
			if p := garbagePercent(live[0].Value.Uint64()); p != percent {
				percent = p
				debug.SetGCPercent(p)
			}
			wait()
		})
	}
	wait()
}

// garbagePercent returns the GOGC for a heap with that many live bytes.
func garbagePercent(live uint64) int {
	const least = 5
	if live <= garbageBudget {
		return 100
	}
	return max(int(100*garbageBudget/live), least)
}
