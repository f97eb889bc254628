package kafkatest

import (
	"testing"
	"time"
)

// Patience is how long a test waits at most, of virtual time or of the wall's.
const Patience = time.Minute

// Await asks every 10 ms until the answer is yes, and ends the test if it is not within [Patience].
// What the test waits for is a clause: "a worker owns the graph". Only the test's goroutine may call it.
func Await(t testing.TB, what string, yes func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !yes(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", Patience, what)
		}
	}
}

// Receive returns what comes on a channel, or the zero value if it is closed, and ends the test as
// Await does if neither happens.
func Receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case x := <-from:
		return x
	case <-time.After(Patience):
		t.Fatalf("after %v still not: %s", Patience, what)
		panic("unreachable")
	}
}
