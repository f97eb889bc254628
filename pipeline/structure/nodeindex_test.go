package structure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
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

// TestChosenIDs: ids that are chosen to collide in a table of their low or high bits, or to
// spread its dense part, take memory in proportion to their number, and are all found.
func TestChosenIDs(t *testing.T) {
	const n = 1 << 16
	for name, id := range map[string]func(i int64) event.ID{
		"a counter":              func(i int64) event.ID { return event.ID{Num: i} },
		"a counter downwards":    func(i int64) event.ID { return event.ID{Num: n - i} },
		"the same low bits":      func(i int64) event.ID { return event.ID{Num: i << 40} },
		"the same high bits":     func(i int64) event.ID { return event.ID{Num: math.MaxInt64 - i} },
		"negative":               func(i int64) event.ID { return event.ID{Num: math.MinInt64 + i<<32} },
		"at the end of the list": func(i int64) event.ID { return event.ID{Num: 4*(i+1024) + 3} },
		"strings of zeros":       func(i int64) event.ID { return event.ID{Str: fmt.Sprintf("%032b", i)} },
		"an anagram":             func(i int64) event.ID { return event.ID{Str: fmt.Sprintf("%x%[1]x", i<<32|n-i)} },
	} {
		ids := make([]event.ID, n)
		for i := range ids {
			ids[i] = id(int64(i))
		}
		before := heap()
		x := newNodeIndex()
		for v, id := range ids {
			x.enter(id, int32(v))
		}
		if took := (heap() - before) / n; took > 256 {
			t.Errorf("%s: %d bytes of memory for an id, want at most 256", name, took)
		}
		for v, id := range ids {
			if got, known := x.number(id); !known || got != int32(v) {
				t.Fatalf("%s: %v has the number %d (%t), want %d", name, id, got, known, v)
			}
		}
		for _, id := range ids {
			x.leave(id)
		}
		if _, known := x.number(ids[0]); known {
			t.Errorf("%s: an id that has left is known", name)
		}
		runtime.KeepAlive(x)
	}
}

// heap returns the size of the live heap in bytes.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
