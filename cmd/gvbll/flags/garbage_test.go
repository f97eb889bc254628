package flags

import "testing"

// TestGarbagePercent: a live heap within the budget has Go's default GOGC. A larger one
// has the GOGC by which a cycle starts after a budget of new garbage, but never so small
// a GOGC that the collector runs all the time.
func TestGarbagePercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 100}, {garbageBudget, 100}, {2 * garbageBudget, 50}, {10 * garbageBudget, 10}, {1 << 40, 5}} {
		if got := garbagePercent(c.live); got != c.want {
			t.Errorf("with %d live bytes GOGC is %d, want %d", c.live, got, c.want)
		}
	}
}
