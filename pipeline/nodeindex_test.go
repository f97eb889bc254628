package pipeline

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestIntegers: integers behaves as a map for ids in any order, and its list is at most a
// few times as long as the number of ids, whatever ids a producer sends.
func TestIntegers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	m, want := integers{sparse: make(map[int64]int32)}, map[int64]int32{}
	for v := range int32(20_000) {
		id := int64(v)
		switch rng.IntN(6) {
		case 0:
			id = rng.Int64()
		case 1:
			id = -rng.Int64N(10_000) - 1
		case 2:
			id = 1 << rng.IntN(63)
		case 3:
			id = rng.Int64N(200_000)
		case 4:
			id = []int64{math.MaxInt64, math.MinInt64, 0}[rng.IntN(3)]
		}
		if _, there := want[id]; there {
			continue
		}
		if _, known := m.get(id); known {
			t.Fatalf("id %d is known before it was put", id)
		}
		m.put(id, v)
		want[id] = v
		if len(m.dense) > 4*(len(want)+1024) {
			t.Fatalf("the list has %d entries for %d ids, want at most %d", len(m.dense), len(want), 4*(len(want)+1024))
		}
	}
	for id, v := range want {
		if got, known := m.get(id); !known || got != v {
			t.Errorf("get(%d) = %d, %v, want %d", id, got, known, v)
		}
	}
}
