package keys

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// stays is of a test in which no node leaves.
func stays(int32) bool { return false }

// lived returns the state after some payments.
func lived(t testing.TB, list []payment) *State {
	t.Helper()
	s, err := New(declared(t, everything), []string{"ok", "fraud"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].given(s)
		s.Enter(int32(i))
		if i%3 == 0 {
			s.Label(int32(i), none, int32(i%2))
		}
	}
	return s
}

// saved returns the bytes of a state, between the two halves of which change is called.
func saved(t testing.TB, s *State, change func()) []byte {
	t.Helper()
	f := snapshot.Saving()
	s.State(f, s.nodes.Len(), stays)
	defer f.Release()
	r, err := safetensors.NewStream(nil, f.Parts())
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, r.Len()/2)
	if _, err := io.ReadFull(r, first); err != nil {
		t.Fatal(err)
	}
	change()
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return append(first, rest...)
}

// restored returns the state of the bytes.
func restored(t testing.TB, b []byte, nodes int) (*State, error) {
	t.Helper()
	s := lived(t, nil)
	r, err := safetensors.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	f := snapshot.Restoring(r)
	s.State(f, nodes, stays)
	return s, f.Finish()
}

// TestSnapshot: a snapshot has the state at its beginning, while payments go on; what is restored from it goes on with the same
// bits, and its own snapshot has the same bytes.
func TestSnapshot(t *testing.T) {
	for _, n := range []int{0, 1, 300} {
		list, more := payments(1, n), payments(2, 200)
		s := lived(t, list)
		change := func() {
			for i := range more {
				more[i].given(s)
				s.Enter(int32(n + i))
				s.Label(int32(n+i), none, 1)
				s.Leave(int32(i))
			}
		}
		b := saved(t, s, change)
		other, err := restored(t, b, n)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(saved(t, other, func() {}), b) {
			t.Error("the snapshot of what was restored has other bytes")
		}
		s = other
		first := saved(t, s, change) // now the same payments come
		if !bytes.Equal(first, b) {
			t.Error("the snapshot of the changing state has other bytes")
		}
		one, two := lived(t, list), s
		for i := range more {
			more[i].given(one)
			one.Enter(int32(n + i))
			one.Label(int32(n+i), none, 1)
			one.Leave(int32(i))
		}
		p := payment{at: more[199].at + 1000, account: "a1", merchant: "m1", amount: 3}
		a, linksA := p.given(one)
		b2, linksB := p.given(two)
		if !slices.EqualFunc(a, b2, same) || !slices.Equal(linksA, linksB) {
			t.Errorf("columns %v and edges %v, want %v and %v", b2, linksB, a, linksA)
		}
	}
}

// TestDamage: a state with other words is refused, or goes on without a panic and with finite columns.
func TestDamage(t *testing.T) {
	list := payments(1, 100)
	refused := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := lived(t, list)
		table := s.keys[rng.IntN(len(s.keys))].table
		row := table.rows.Row(int32(rng.IntN(table.rows.Len())))
		row[1+rng.IntN(len(row)-1)] = []int64{-1, 0, 1, -1 << 63, 1<<63 - 1, rng.Int64(), int64(rng.Int32())}[rng.IntN(7)]
		other, err := restored(t, saved(t, s, func() {}), len(list))
		if err != nil {
			refused++
			continue
		}
		for i := range list {
			list[i].given(other)
			other.Enter(int32(i))
			other.Leave(int32(i))
			other.Label(int32(i), 1, 0)
		}
	}
	if refused < 40 {
		t.Errorf("%d of 300 damaged states were refused, want more", refused)
	}
}
