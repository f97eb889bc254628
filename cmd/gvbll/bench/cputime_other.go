//go:build !linux

package bench

import "time"

var began = time.Now()

// cpuTime is the time, in nanoseconds, where a thread's own cannot be known.
func cpuTime() int64 { return time.Since(began).Nanoseconds() }
