package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// garbageBudget is how much garbage a large heap gathers between two collections, in
// bytes.
const garbageBudget = 256 << 20

// boundGarbage has the collector run, once more than the budget lives, when the
// garbage has come to the budget and not when it has come to as much again. Most of a
// worker's heap are the rows of its graph, which the collector need not look into: a
// collection costs next to nothing, and garbage in memory that was never touched
// costs more than all else that an arrival takes, where a system gives memory slowly.
// What GOGC says stands.
func boundGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	live, percent := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, 100
	var wait func()
	wait = func() { // a finalizer runs once a collection
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

// garbagePercent is what GOGC would have to say where so many bytes live.
func garbagePercent(live uint64) int {
	const least = 5
	if live <= garbageBudget {
		return 100
	}
	return max(int(100*garbageBudget/live), least)
}
