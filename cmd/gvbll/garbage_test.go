package main

import "testing"

// TestGarbagePercent: small heaps are collected as Go does, large ones whenever the
// budget is spent, and the largest not all the time.
func TestGarbagePercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 100}, {garbageBudget, 100}, {2 * garbageBudget, 50}, {10 * garbageBudget, 10}, {1 << 40, 5}} {
		if got := garbagePercent(c.live); got != c.want {
			t.Errorf("%d bytes live: %d %%, want %d", c.live, got, c.want)
		}
	}
}
