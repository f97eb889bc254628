//go:build crashpoints

package crash

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// The environment variable GVBLL_CRASH sets these, for example "after-produce:3": the
// process is killed the third time it passes that point.
var (
	where string       // name of the point
	left  atomic.Int64 // passages up to the one that kills
)

func init() {
	name, times, _ := strings.Cut(os.Getenv("GVBLL_CRASH"), ":")
	if name == "" {
		return
	}
	n, err := strconv.ParseInt(times, 10, 64)
	if err != nil || n < 1 || !slices.Contains(slices.Concat(Points, OfBases), name) {
		fmt.Fprintf(os.Stderr, "GVBLL_CRASH=%s: want the name of a point and at which passage to kill, such as %s:3\n",
			os.Getenv("GVBLL_CRASH"), AfterProduce)
		os.Exit(2)
	}
	where = name
	left.Store(n)
}

// Point kills the process by SIGKILL if this is the passage that GVBLL_CRASH names.
func Point(name string) {
	if name == where && left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	}
}
