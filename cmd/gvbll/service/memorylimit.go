package service

import (
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// roomForEngine returns an error unless a second engine fits into the memory beside the
// first. It takes what is live in the heap now, nearly all of which is the first one; files
// of pending predictions count for neither.
func roomForEngine() error {
	used := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(used)
	live, mapped := used[0].Value.Uint64(), used[1].Value.Uint64()-used[2].Value.Uint64()
	if limit := memoryLimit(); mapped+live > limit {
		return fmt.Errorf("it takes %d MiB, and %d of %d MiB are in use", live>>20, mapped>>20, limit>>20)
	}
	return nil
}

// memoryLimit returns the memory that the process may use: the least of GOMEMLIMIT, the limit of
// its control group, and what the machine has.
func memoryLimit() uint64 {
	least := uint64(debug.SetMemoryLimit(-1))
	for _, limit := range []memlimit.Provider{memlimit.FromCgroup, memlimit.FromSystem} {
		if n, err := limit(); err == nil && n > 0 { // without an error there is one
			least = min(least, n)
		}
	}
	return min(least, math.MaxInt64)
}
