package trial

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// failed is the error that ends a trial, or one of its runs or scenarios.
type failed struct{ error }

// must ends what the goroutine has begun with caught or catch, unless err is nil.
func must(err error) {
	if err != nil {
		panic(failed{err})
	}
}

// fail ends it with an error.
func fail(format string, args ...any) { must(fmt.Errorf(format, args...)) }

// need returns v, and ends it unless err is nil.
func need[T any](v T, err error) T {
	must(err)
	return v
}

// catch is deferred, and sets the error of what must has ended.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case failed:
		*err = r.error
	default:
		panic(r)
	}
}

// caught calls f and returns the error that ended it.
func caught(f func()) (err error) {
	defer catch(&err)
	f()
	return nil
}

// beside calls f while send runs on a goroutine of its own, which has to end when stop is closed.
func beside(send func(stop <-chan struct{}), f func()) {
	sent, stop := make(chan error, 1), make(chan struct{})
	go func() { sent <- caught(func() { send(stop) }) }()
	err := caught(f)
	close(stop)
	must(errors.Join(err, <-sent))
}

// ticking calls f at once and at every tick, until it returns true. It fails if the context ends before.
func ticking(ctx context.Context, every time.Duration, f func() (done bool)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			must(ctx.Err())
		}
	}
}

// await calls f at once and at every tick, until it returns "", for at most so long. Then it fails with what f says is missing.
func await(ctx context.Context, within time.Duration, f func() (missing string)) {
	end := time.Now().Add(within)
	ticking(ctx, 20*time.Millisecond, func() bool {
		missing := f()
		if missing != "" && time.Now().After(end) {
			fail("within %v: %s", within, missing)
		}
		return missing == ""
	})
}

// closed reports whether a channel on which nothing is sent was closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
