package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestArena compares lists with slices under the same random changes. All lists are
// compared after each change, so that none may share an element with another.
func TestArena(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var a Arena[int32]
	lists, want := make([]List, 50), make([][]int32, 50)
	for range 20_000 {
		i := rng.IntN(len(lists))
		l, x := &lists[i], rng.Int32()
		switch rng.IntN(8) {
		case 0:
			some := make([]int32, rng.IntN(40))
			for k := range some {
				some[k] = rng.Int32()
			}
			a.Set(l, some)
			want[i] = some
		case 1:
			if rng.IntN(4) == 0 {
				a.Clear(l)
				want[i] = nil
			}
		case 2:
			if len(want[i]) == 0 {
				break
			}
			even := func(x int32) bool { return x%2 == 0 }
			a.Retain(l, even)
			want[i] = slices.DeleteFunc(want[i], func(x int32) bool { return !even(x) })
			if l.Cap() > max(4*l.Len(), 1<<minClass) {
				t.Fatalf("%d elements have a capacity of %d, want at most four times as many", l.Len(), l.Cap())
			}
		case 3:
			if len(want[i]) == 0 {
				break
			}
			k := rng.IntN(len(want[i]))
			a.Remove(l, k)
			if rng.IntN(2) == 0 {
				a.Insert(l, k, x)
				want[i][k] = x
			} else {
				want[i] = slices.Delete(want[i], k, k+1)
			}
		case 4:
			if len(want[i]) > 0 {
				a.RemoveLast(l)
				want[i] = want[i][:len(want[i])-1]
			}
		case 5:
			more := rng.IntN(30)
			a.Grow(l, more)
			before := *l
			for range more {
				a.Append(l, x)
				want[i] = append(want[i], x)
			}
			if l.at != before.at {
				t.Fatal("a list moved though Grow had made room")
			}
		default:
			a.Append(l, x)
			want[i] = append(want[i], x)
		}
		for i := range lists {
			if got := a.View(lists[i]); !slices.Equal(got, want[i]) || lists[i].Len() != len(want[i]) {
				t.Fatalf("list %d is %v, want %v", i, got, want[i])
			}
		}
	}
}

// TestArenaReusesBlocks: the blocks of cleared lists are reused.
func TestArenaReusesBlocks(t *testing.T) {
	var a Arena[int64]
	size := 0
	for round := range 20 {
		lists := make([]List, 100)
		for i := range lists {
			for x := range int64(i * 10) {
				a.Append(&lists[i], x)
			}
		}
		for i := range lists {
			a.Clear(&lists[i])
		}
		if round == 0 {
			size = a.Size()
		}
	}
	if a.Size() != size {
		t.Errorf("memory for %d elements, want the %d of the first round", a.Size(), size)
	}
}
