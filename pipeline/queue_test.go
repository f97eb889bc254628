package pipeline

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestStill: what a still shows stays as it was, whatever is put and taken, and
// afterwards every slot is used again.
func TestStill(t *testing.T) {
	const bound = 40
	rng := rand.New(rand.NewPCG(1, 1))
	q := newQueue[int, int]()
	var s still[int, int]
	key := 0
	change := func() {
		for range rng.IntN(100) {
			if q.len() == bound {
				q.oldest()
			}
			if rng.IntN(3) == 0 {
				q.take(key - rng.IntN(2*bound))
			}
			q.put(key, -key)
			key++
		}
	}
	order := func() (keys []int) {
		for i := q.head; i != none; i = q.entries.at(i).next {
			keys = append(keys, q.entries.at(i).key)
		}
		return keys
	}
	for range 200 {
		change()
		want := order()
		s.take(q)
		change()
		var got []int
		next := s.walk()
		for range s.len {
			_, entry := next()
			if entry.value != -entry.key {
				t.Fatalf("%d has the value %d", entry.key, entry.value)
			}
			got = append(got, entry.key)
			if rng.IntN(8) == 0 {
				change()
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		s.release()
		if q.entries.len() != q.len()+len(q.free) || len(q.held) > 0 {
			t.Fatalf("%d slots, %d entries, %d free", q.entries.len(), q.len(), len(q.free))
		}
		for _, i := range q.free {
			if *q.entries.at(i) != (entry[int, int]{}) {
				t.Fatal("what was taken is kept")
			}
		}
	}
}

// TestNumbered: places by number are those of a map.
func TestNumbered(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	want, got := hashed[int32]{}, new(numbered)
	for range 5000 {
		v, slot := rng.Int32N(300), rng.Int32N(100)
		if _, there := want.get(v); there {
			want.drop(v)
			got.drop(v)
		} else {
			want.set(v, slot)
			got.set(v, slot)
		}
		v = rng.Int32N(400)
		a, inA := want.get(v)
		b, inB := got.get(v)
		if inA != inB || inA && a != b || want.len() != got.len() {
			t.Fatalf("node %d is in slot %d: %v, want %d: %v; %d and %d in all", v, b, inB, a, inA, got.len(), want.len())
		}
	}
}
