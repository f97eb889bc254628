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

// where and left are what the environment's GVBLL_CRASH says, as in
// "after-produce:3": the point, and how often it is still passed, that time
// included.
var (
	where string
	left  atomic.Int64
)

func init() {
	name, times, _ := strings.Cut(os.Getenv("GVBLL_CRASH"), ":")
	if name == "" {
		return
	}
	n, err := strconv.ParseInt(times, 10, 64)
	if err != nil || n < 1 || !slices.Contains(Points, name) {
		fmt.Fprintf(os.Stderr, "GVBLL_CRASH=%s: want the name of a point and how often it is passed, as in %s:3\n", os.Getenv("GVBLL_CRASH"), AfterProduce)
		os.Exit(2)
	}
	where = name
	left.Store(n)
}

// Point kills the process, as SIGKILL does, when it is the one that
// GVBLL_CRASH names and is passed for the time that it says.
func Point(name string) {
	if name == where && left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}
