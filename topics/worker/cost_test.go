package worker

import (
	"math"
	"testing"
	"time"
)

// TestCost: an idle cell costs 1, whatever its replay took, one of 5,000 nodes ten more, and one that is busy for a fifth of the time as
// much as a thousand idle ones. What was long ago is forgotten, and the first seconds do not count for much.
func TestCost(t *testing.T) {
	var c cost
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	about := func(want float64) {
		t.Helper()
		if got := c.of(now); math.Abs(got-want) > want/50 {
			t.Errorf("a cell costs %.1f, want %.1f", got, want)
		}
	}
	about(1)
	c.step(now, 5000, time.Hour)
	about(11)
	c.begin(now)
	about(11)
	now = now.Add(time.Second)
	c.step(now, 5000, 600*time.Millisecond)
	about(11 + 100)
	for range 1000 {
		now = now.Add(time.Second)
		c.step(now, 0, 200*time.Millisecond)
	}
	about(1 + 1000)
	now = now.Add(time.Hour)
	about(1)
}
