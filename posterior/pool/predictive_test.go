package pool

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

// TestPredictive: one pool learns a stream, another gets the change after each batch, and a
// third the whole at first and the changes from there on. All three predict the same bits,
// with the same weights and versions.
func TestPredictive(t *testing.T) {
	for _, dense := range []bool{false, true} {
		lead := newPool(t, everything(dense))
		live(lead, dense, 0, 3)
		follower, late := restored(t, lead), restored(t, lead)
		for step := 3; step < 16; step++ {
			live(lead, dense, step, step+1)
			change := lead.AppendPredictiveChange([]byte("kept"))[4:]
			if err := follower.SetPredictive(change); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			pools := []*Pool{follower}
			switch {
			case step == 8:
				if err := late.SetPredictive(lead.AppendPredictive(nil)); err != nil {
					t.Fatal(err)
				}
			case step > 8:
				if err := late.SetPredictive(change); err != nil {
					t.Fatal(err)
				}
			}
			if step >= 8 {
				pools = append(pools, late)
			}
			rows := randomBatch(rand.New(rand.NewPCG(9, uint64(step))), 12, small, dense).Rows
			for i, p := range pools {
				if p.Version() != lead.Version() || !slices.Equal(p.AppendWeights(nil), lead.AppendWeights(nil)) || !slices.Equal(p.Shares(), lead.Shares()) {
					t.Fatalf("step %d, pool %d: another version, or other weights", step, i)
				}
				if !slices.Equal(predictions(p, rows), predictions(lead, rows)) {
					t.Fatalf("step %d, pool %d: other predictions than those of the pool that learns", step, i)
				}
				if !bytes.Equal(p.AppendPredictive(nil), lead.AppendPredictive(nil)) {
					t.Fatalf("step %d, pool %d: another predictive state", step, i)
				}
			}
		}
	}
}

// TestSetPredictiveRefuses: a state that was cut or lengthened, is of other heads, or skips a
// batch is refused, and nothing of it is set.
func TestSetPredictiveRefuses(t *testing.T) {
	for _, dense := range []bool{false, true} {
		lead := newPool(t, everything(dense))
		live(lead, dense, 0, 4)
		p := restored(t, lead)
		live(lead, dense, 4, 5)
		first := lead.AppendPredictiveChange(nil)
		live(lead, dense, 5, 6)
		second, whole := lead.AppendPredictiveChange(nil), lead.AppendPredictive(nil)
		before := p.AppendPredictive(nil)
		refused := func(what string, b []byte, want string) {
			t.Helper()
			if err := p.SetPredictive(b); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%s: %v, want one line with %q", what, err, want)
			}
			if !bytes.Equal(p.AppendPredictive(nil), before) {
				t.Fatalf("%s: refused, but set in part", what)
			}
		}
		for _, b := range [][]byte{first, whole} {
			for n := 0; n < len(b); n += 1 + len(b)/97 {
				refused(fmt.Sprintf("%d of %d bytes", n, len(b)), b[:n], "")
			}
			refused("a byte more", append(slices.Clone(b), 0), "longer")
		}
		refused("a change after next", second, fmt.Sprintf("a change to version %d of its heads, which are of version %d", 5, 3))
		other := newPool(t, Config{Heads: everything(dense).Heads[:2], Weights: everything(dense).Weights, Batch: 10})
		refused("other heads", other.AppendPredictive(nil), "heads")
		if err := p.SetPredictive(first); err != nil {
			t.Fatal(err)
		}
		if err := p.SetPredictive(first); err == nil {
			t.Error("the same change is accepted twice")
		}
	}
}

// TestOnlyPredicts: a pool whose precisions are not those of its means does not learn, until
// it has a whole state again.
func TestOnlyPredicts(t *testing.T) {
	lead := newPool(t, everything(true))
	live(lead, true, 0, 4)
	p := restored(t, lead)
	if err := p.SetPredictive(lead.AppendPredictive(nil)); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a pool with the predictive state of another learns")
			}
		}()
		live(p, true, 4, 5)
	}()
	if err := p.SetState(lead.AppendState(nil)); err != nil {
		t.Fatal(err)
	}
	live(p, true, 4, 5)
}

// FuzzSetPredictive: whatever the bytes, either nothing is set, or a state that predicts and
// is written as the same bytes.
func FuzzSetPredictive(f *testing.F) {
	pools := make(map[bool]*Pool)
	for _, dense := range []bool{false, true} {
		p, err := New(everything(dense), small, randomPrior(rand.New(rand.NewPCG(5, 6)), small))
		if err != nil {
			f.Fatal(err)
		}
		live(p, dense, 0, 2)
		pools[dense] = p
		next := restored(f, p)
		live(next, dense, 2, 3)
		f.Add(dense, next.AppendPredictive(nil))
		f.Add(dense, next.AppendPredictiveChange(nil))
	}
	f.Fuzz(func(t *testing.T, dense bool, b []byte) {
		p := restored(t, pools[dense])
		before := p.AppendPredictive(nil)
		if p.SetPredictive(b) != nil {
			if !bytes.Equal(p.AppendPredictive(nil), before) {
				t.Error("refused, but set in part")
			}
			return
		}
		predictions(p, randomBatch(rand.New(rand.NewPCG(1, 2)), 3, small, dense).Rows)
		const kindAt = 8
		if after := p.AppendPredictive(nil); b[kindAt] == 0 && !bytes.Equal(after, b) {
			t.Error("the state is not the bytes that were set")
		}
	})
}
