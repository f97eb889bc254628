package pool

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// restored returns a pool with the state of another one of the same configuration, as it is
// in a model file.
func restored(t testing.TB, from *Pool) *Pool {
	t.Helper()
	p, err := New(from.cfg, from.shape, from.prior)
	if err == nil {
		err = p.SetState(from.AppendState(nil))
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTwin: after each batch that a pool learns, its twin has the same weights and predicts the same bits, and rows that
// the two share at once come out as they do together. Under the race detector this shows that
// they share no scratch memory.
func TestTwin(t *testing.T) {
	for _, dense := range []bool{false, true} {
		p := newPool(t, everything(dense))
		twin := p.Twin()
		for step := range 12 {
			live(p, dense, step, step+1)
			rows := randomBatch(rand.New(rand.NewPCG(10, uint64(step))), 12, small, dense).Rows
			want := predictions(restored(t, p), rows)
			if got, want := twin.AppendWeights(nil), p.AppendWeights(nil); !slices.Equal(got, want) {
				t.Fatalf("dense %v, step %d: weights %v, want %v", dense, step, got, want)
			}
			var both [2][]float32
			var group sync.WaitGroup
			for i, q := range []*Pool{p, twin} {
				group.Go(func() { both[i] = predictions(q, rows) })
			}
			group.Wait()
			for i, got := range both {
				if !slices.Equal(got, want) {
					t.Fatalf("dense %v, step %d: other predictions by %d", dense, step, i)
				}
			}
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a twin learns")
				}
			}()
			twin.Learn(randomBatch(rand.New(rand.NewPCG(1, 1)), 2, small, dense))
		}()
	}
}
