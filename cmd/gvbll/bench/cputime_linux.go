package bench

import "golang.org/x/sys/unix"

// cpuTime returns the CPU time of the calling thread, in nanoseconds. It does not count
// the time that other programs take.
func cpuTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // every Linux has this clock
	}
	return t.Nano()
}
