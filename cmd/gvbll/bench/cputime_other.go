//go:build !linux

package bench

import "time"

var began = time.Now()

// cpuTime returns the time by the clock, in nanoseconds: this system does not tell a
// thread its own.
func cpuTime() int64 { return time.Since(began).Nanoseconds() }
