package serve_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestBlocksChangeNothing: an engine with memory for few predictions, which keeps the
// others in blocks, gives the same outcomes and hashes as one with everything in memory,
// while labels come in any order, predictions expire, nodes leave and come again, and
// queries are made. Once nothing is pending, no block is left.
func TestBlocksChangeNothing(t *testing.T) {
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 8))
		m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
		if seed%2 == 0 {
			pipelinetest.AddPool(t, m, seed%4 == 0)
		}
		cfg := pipeline.Config{Samples: 2, Bounds: pipeline.Bounds{Pending: 20 + int(seed)*20}, Rescore: pipeline.Rescoring{After: int(seed % 3)}}
		if seed%3 > 0 {
			cfg.Coverage = pipeline.Coverage{Target: 0.9, Per: parts.PerClass}
		}
		want := pipelinetest.NewEngine(t, m, cfg)
		store := pipelinetest.NewMemoryBlocks()
		cfg.Local.Blocks, cfg.Local.PendingMemory = store, []int64{1, 700, 1500}[seed%3]
		e := pipelinetest.NewEngine(t, m, cfg)
		l := pipelinetest.NewRandomStream(rng, m)
		most := 0
		for range 150 {
			w := l.Window()
			if got, want := e.Step(w), want.Step(w); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, window %d (-want +got)\n%s", seed, w.Number, cmp.Diff(want, got))
			}
			most = max(most, store.InUse())
			id := l.ID()
			if got, want := e.Served(id), want.Served(id); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: node %v was served (-want +got)\n%s", seed, id, cmp.Diff(want, got))
			}
		}
		if err := e.Err(); err != nil || most == 0 {
			t.Errorf("seed %d: %d blocks, error %v, want some and none", seed, most, err)
		}
		w := &event.Window{Number: l.Number}
		for id := range l.X {
			w.Nodes = append(w.Nodes, event.Node{Origin: &event.Origin{}, ID: id, Departed: true})
			w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: id})
		}
		if out := e.Step(w); out.Figures.Int(event.Pending) > 0 || store.InUse() > 0 {
			t.Errorf("seed %d: %d predictions are pending and %d blocks in use after all labels came", seed, out.Figures.Int(event.Pending), store.InUse())
		}
	}
}

// spilled returns an engine with predictions in blocks, and its snapshot.
func spilled(t *testing.T, store pipeline.Blocks) (*pipelinetest.Engine, func() error, *pipelinetest.RandomStream) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 9))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
	cfg := pipeline.Config{Local: pipeline.Local{Blocks: store, PendingMemory: 1}}
	e, l := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewRandomStream(rng, m)
	for range 40 {
		e.Step(l.Window())
	}
	b := pipelinetest.SnapshotOf(t, e, nil)
	return e, func() error { _, _, err := pipelinetest.Restore(m, cfg, b); return err }, l
}

// TestForeignBlocks: a snapshot is not restored if a block of it was lost, cut off, damaged,
// or replaced by another.
func TestForeignBlocks(t *testing.T) {
	for name, change := range map[string]func(blocks [][]byte) [][]byte{
		"lost": func([][]byte) [][]byte { return nil },
		"cut off": func(all [][]byte) [][]byte {
			for i := range all {
				all[i] = all[i][:8]
			}
			return all
		},
		"damaged": func(all [][]byte) [][]byte {
			for i := range all {
				all[i][9] ^= 1
			}
			return all
		},
		"replaced": func(all [][]byte) [][]byte { return append(all[1:], all[0]) },
	} {
		store := pipelinetest.NewMemoryBlocks()
		_, restore, _ := spilled(t, store)
		if err := restore(); err != nil {
			t.Fatalf("before anything is %s: %v", name, err)
		}
		store.Blocks = change(store.Blocks)
		if err := restore(); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line", name, err)
		} else if (name == "cut off" || name == "damaged") && !(strings.Contains(err.Error(), "block in memory ") && strings.Contains(err.Error(), "check the disk")) {
			t.Errorf("%s: error %v, want one that names the block and the remedy", name, err)
		}
	}
}

// TestBlocksFlipped: a bit of a block is flipped, as by a disk. The engine goes on as if it were
// not until it reads the row, for its label or as the block is written again; from then on it has
// an error that names the block.
func TestBlocksFlipped(t *testing.T) {
	found := 0
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 10))
		m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
		store := pipelinetest.NewMemoryBlocks()
		want := pipelinetest.NewEngine(t, m, pipeline.Config{})
		e := pipelinetest.NewEngine(t, m, pipeline.Config{Local: pipeline.Local{Blocks: store, PendingMemory: []int64{1, 700, 1500}[seed%3]}})
		l := pipelinetest.NewRandomStream(rng, m)
		for range 100 {
			w := l.Window()
			want.Step(w)
			e.Step(w)
		}
		for _, b := range store.Blocks {
			for range 1 + int(seed%2)*len(b)/100 {
				b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
			}
		}
		for e.Err() == nil && e.Next() < 300 {
			w := l.Window()
			if got, want := e.Step(w), want.Step(w); e.Err() == nil && !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, window %d: learned from what was not served (-want +got)\n%s", seed, w.Number, cmp.Diff(want, got))
			}
		}
		if err := e.Err(); err != nil {
			found++
			if !strings.Contains(err.Error(), "block in memory") || !strings.Contains(err.Error(), "start the worker again") || strings.Contains(err.Error(), "\n") {
				t.Errorf("seed %d: error %v, want one line with the block and the remedy", seed, err)
			}
		}
	}
	if found < 12 {
		t.Errorf("%d of 12 engines have read what was flipped", found)
	}
}

// TestBlocksFail: an error of the blocks is that of the engine from then on.
func TestBlocksFail(t *testing.T) {
	store := pipelinetest.NewMemoryBlocks()
	e, restore, l := spilled(t, store)
	store.Fail = errors.New("no space left on device")
	for e.Err() == nil && e.Next() < 200 {
		e.Step(l.Window())
	}
	if err := e.Err(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v, want the store's", err)
	}
	store.Fail = errors.New("input/output error")
	if err := restore(); !errors.Is(err, store.Fail) {
		t.Errorf("restored with error %v, want the store's", err)
	}
}
