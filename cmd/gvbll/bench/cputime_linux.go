package bench

import "golang.org/x/sys/unix"

// cpuTime is the CPU time, in nanoseconds, of the thread that calls it: what
// other programs take is not in it.
func cpuTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // Linux has this clock
	}
	return t.Nano()
}
