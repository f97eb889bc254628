package heads

// beside runs a job on another thread, or is nil where there is none. It starts the job, and returns
// a function that waits for its end.
type beside func(job func()) (wait func())

// start starts a job, or does it where there is no other thread.
func (b beside) start(job func()) (wait func()) {
	if b == nil {
		job()
		return func() {}
	}
	return b(job)
}

// Fewest is the number of rows for which the other thread is worth waking.
const Fewest = 16

// can reports whether n rows are shared with the other thread.
func (b beside) can(n int) bool { return b != nil && n >= Fewest }

// share calls first for rows 0 to n, or, if there is another thread, for half of them while
// second is called there for the others.
func (b beside) share(n int, first, second func(from, to int)) {
	if !b.can(n) {
		first(0, n)
		return
	}
	wait := b(func() { second(n/2, n) })
	first(0, n/2)
	wait()
}
