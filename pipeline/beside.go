package pipeline

// beside runs a job on another thread, as [Config.Run] does, or is nil where there is none.
type beside func(job func()) (wait func())

// beside returns Run where it has an effect.
func (c Config) beside() beside {
	if c.LearnLag == 0 {
		return nil
	}
	return c.Run
}

// start starts a job, or does it where there is no other thread.
func (b beside) start(job func()) (wait func()) {
	if b == nil {
		job()
		return func() {}
	}
	return b(job)
}

// fewest is the number of rows for which the other thread is worth waking.
const fewest = 16

// can reports whether n rows are shared with the other thread.
func (b beside) can(n int) bool { return b != nil && n >= fewest }

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
