package kafkatest

import (
	"testing"
	"time"
)

// patience is how long a test waits at most, of virtual time or of the wall's.
const patience = time.Minute

// Await asks every 10 ms until the answer is yes, and ends the test if it is not within a minute. What
// the test waits for is a clause: "a worker owns the graph". It must be called by the test's goroutine.
func Await(t testing.TB, what string, yes func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !yes(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v of waiting, and not yet: %s", patience, what)
		}
	}
}
