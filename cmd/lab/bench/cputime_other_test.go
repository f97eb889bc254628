//go:build !linux

package bench

import "time"

var began = time.Now()

// cpuTime returns wall-clock time, in nanoseconds: CPU time of a thread is read on Linux
// only.
func cpuTime() int64 { return time.Since(began).Nanoseconds() }

// processTime is the same of all threads.
func processTime() int64 { return cpuTime() }
