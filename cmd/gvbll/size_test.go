package main

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/shards"
	"github.com/gvbll/gvbll/cmd/lab/bench"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// TestSizeIsRight compares the memory that is computed for a graph with the heap of an
// engine that has it, for each encoder, for both heads, for slices, and with predictions that
// wait.
func TestSizeIsRight(t *testing.T) {
	if testing.Short() {
		t.Skip("it grows large graphs, to measure their memory")
	}
	for _, c := range []struct {
		name     string
		w        bench.Workload
		shards   int
		bfloat16 bool
		waiting  int // all nodes are arrivals, and at most so many wait
	}{
		{"GraphSAGE", bench.Workload{}, 1, false, 0},
		{"GraphSAGE, few edges, bfloat16", bench.Workload{Degree: 4}, 1, true, 0},
		{"GCN", bench.Workload{Encoder: gnn.KindGCN, Hidden: 64, Degree: 20}, 1, false, 0},
		{"GIN", bench.Workload{Encoder: gnn.KindGIN}, 1, false, 0},
		{"predictions wait", bench.Workload{Hidden: 64}, 1, false, 40_000},
		{"pool", bench.Workload{Hidden: 64, Pool: true}, 1, false, 10_000},
		{"pool, sparse features", bench.Workload{Hidden: 32, Features: 1433, Density: 0.0127, Classes: 7, Embedding: 16, Pool: true}, 1, false, 0},
		{"a slice of 4", bench.Workload{}, 4, false, 0},
		{"a slice of 8", bench.Workload{}, 8, false, 0},
	} {
		const nodes = 50_000
		w := c.w.WithDefaults()
		m, err := w.Model()
		if err != nil {
			t.Fatal(err)
		}
		size := sizeCmd{
			Nodes: nodes, Degree: float64(w.Degree) / 2, Nonzero: w.Density * float64(w.Features), BFloat16: c.bfloat16,
			Pending: flags.Pending{Max: c.waiting, Memory: flags.PendingMemory}, Shards: c.shards,
		}
		if c.waiting == 0 {
			size.Pending.Max = 1 // 0 means the default
		}
		sizes, err := size.sizes(m)
		if err != nil {
			t.Fatal(err)
		}
		slice, err := m.Slice(0, c.shards)
		if err != nil {
			t.Fatal(err)
		}
		stream := w.Stream()
		e, err := pipeline.New(slice, pipeline.Config{MaxPending: size.Pending.Max, BFloat16: c.bfloat16, Unwatched: true})
		if err != nil {
			t.Fatal(err)
		}
		for range nodes / 500 {
			window := stream.Next(false)
			if c.waiting == 0 {
				known(window)
			}
			e.Step(window)
		}
		with := liveHeap()
		runtime.KeepAlive(e)
		got := with - liveHeap()
		runtime.KeepAlive(stream)
		want := float64(sizes.Shards[0].State.Total())
		t.Logf("%s: %.1f MB computed, %.1f MB live, %+.1f%%", c.name, want/1e6, got/1e6, 100*(want/got-1))
		if want < 0.85*got || want > 1.15*got {
			t.Errorf("%s: computed %.1f MB, and an engine takes %.1f MB", c.name, want/1e6, got/1e6)
		}
	}
}

// known makes the nodes of a window context, which are not predicted.
func known(w *event.Window) {
	for i := range w.Nodes {
		w.Nodes[i].Context = true
	}
}

// liveHeap returns the bytes of the heap that are in use.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC() // finalizers of the first cycle
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc)
}

// TestSize: the table names the fewest shards that fit, and what cannot be cut says why.
func TestSize(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "m.safetensors")
	save := func(w bench.Workload) {
		t.Helper()
		m, err := w.Model()
		if err == nil {
			err = m.Save(file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	save(bench.Workload{})
	var s shards.Sizing
	if err := json.Unmarshal([]byte(gvbll(t, "size", "--model", file, "--nodes", "100e6", "--json")), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Shards) != 7 || s.Fits != 4 {
		t.Errorf("%d rows, %d shards fit, want 7 and 4", len(s.Shards), s.Fits)
	}
	for i, x := range s.Shards {
		if want := int64(100e6) * 3 * 128 * 4 / int64(x.Shards); x.Shards != 1<<i || x.State.Vectors < want || x.State.Vectors > want+want/50 {
			t.Errorf("%d shards: vectors take %d bytes, want about %d", x.Shards, x.State.Vectors, want)
		}
		if x.Shards == 4 && (x.ArrivalBytes != 3*(4*64+6) || x.Records != 4*3+4+1) {
			t.Errorf("4 shards send %d bytes an arrival, %d records a window", x.ArrivalBytes, x.Records)
		}
	}
	out := gvbll(t, "size", "--model", file, "--nodes", "1e6")
	if !strings.Contains(out, "one worker fits into 64GiB") {
		t.Errorf("for a million nodes:\n%s", out)
	}
	save(bench.Workload{Encoder: gnn.KindGIN})
	out = gvbll(t, "size", "--model", file, "--nodes", "100e6")
	if !strings.Contains(out, "do not fit into 64GiB") || !strings.Contains(out, "encoder gin cannot be cut") {
		t.Errorf("of a GIN:\n%s", out)
	}
	if code, _, stderr := command(t, "size", "--model", file, "--nodes", "1e6", "--shards", "4"); code != exitUsage || !strings.Contains(stderr, "encoder gin cannot be cut into 4 slices") {
		t.Errorf("a GIN in 4 shards: exit code %d, %s", code, stderr)
	}
}
