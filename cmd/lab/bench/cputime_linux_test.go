package bench

import "golang.org/x/sys/unix"

// cpuTime returns the CPU time of the calling thread, in nanoseconds. It does not count
// the time that other programs take.
func cpuTime() int64 { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// processTime is cpuTime of all threads of the process.
func processTime() int64 { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(err) // every Linux has these clocks
	}
	return t.Nano()
}
