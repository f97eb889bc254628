package store

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueueFrozen: a walk of a frozen queue returns the entries as they were when it was
// frozen, while entries are put, removed and changed in place. Removed entries are cleared,
// so that they retain no memory.
func TestQueueFrozen(t *testing.T) {
	const bound = 40
	rng := rand.New(rand.NewPCG(1, 1))
	q := NewQueue[int, int]()
	rows := NewSlotTable[int64](2)
	key := 0
	change := func() {
		for range rng.IntN(100) {
			if q.Len() == bound {
				q.RemoveOldest()
			}
			if rng.IntN(3) == 0 {
				q.Remove(key - rng.IntN(2*bound))
			}
			if v := q.Edit(key - rng.IntN(2*bound)); v != nil {
				*v = rng.Int()
			}
			rows.Set(q.Put(key, -key), []int64{int64(key), rng.Int64()})
			key++
		}
	}
	type record struct {
		entry entry[int, int]
		row   [2]int64
	}
	for range 200 {
		change()
		var want, got []record
		for i := q.head; i != none; i = q.entries.At(i).Next {
			want = append(want, record{*q.entries.At(i), [2]int64(rows.Row(i))})
		}
		q.frozen.Begin(q.entries.Len())
		rows.frozen.Begin(rows.table.Len())
		next := q.Walk()
		change()
		for range want {
			slot, e := next()
			got = append(got, record{*e, [2]int64(rows.frozen.At(slot, rows.table.Row))})
			if rng.IntN(8) == 0 {
				change()
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		q.frozen.End()
		rows.frozen.End()
		if q.entries.Len() != q.Len()+len(q.free) || q.entries.Len() > bound {
			t.Fatalf("%d slots for %d entries and %d free ones, at most 40", q.entries.Len(), q.Len(), len(q.free))
		}
		for _, i := range q.free {
			if *q.entries.At(i) != (entry[int, int]{}) {
				t.Fatal("a removed entry is not cleared")
			}
		}
	}
}

// TestDenseSlots: denseSlots behaves as hashSlots under the same random changes.
func TestDenseSlots(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	want, got := hashSlots[int32]{}, new(denseSlots)
	for range 5000 {
		v, slot := rng.Int32N(300), rng.Int32N(100)
		if _, there := want.get(v); there {
			want.remove(v)
			got.remove(v)
		} else {
			want.set(v, slot)
			got.set(v, slot)
		}
		v = rng.Int32N(400)
		a, inA := want.get(v)
		b, inB := got.get(v)
		if inA != inB || inA && a != b || want.len() != got.len() {
			t.Fatalf("node %d is in slot %d (%v), want %d (%v); %d nodes, want %d", v, b, inB, a, inA, got.len(), want.len())
		}
	}
}
