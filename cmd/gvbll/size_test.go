package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestSizeIsMeasured: by what size computes that a graph of 120,000 nodes takes more than one of 40,000, the heap of an engine that
// holds the one is larger than that of the other, within a fifth, with the paper's heads and with a pool: blocks of tables are made ready
// ahead, which is the less the larger a graph is.
func TestSizeIsMeasured(t *testing.T) {
	const each = 7
	for _, head := range []string{"paper", "pool"} {
		m := pipelinetest.ModelOfWidth(t, rand.New(rand.NewPCG(48, 8)), gnn.KindSAGE, 16, 64, 16)
		if head == "pool" {
			pipelinetest.AddPool(t, m, false)
		}
		var computed, measured [2]float64
		for i, nodes := range []int{40_000, 120_000} {
			s, err := sizeCmd{Nodes: quantity(nodes), Edges: quantity(nodes * each), Pending: flags.Pending{Max: nodes, Memory: 1 << 30}}.sizing(m)
			must(t, err)
			parts, total := s.memory()
			computed[i] = total - parts[len(parts)-1].Bytes // without garbage
			measured[i] = float64(heapOf(t, func() any { return engineOf(t, m, head, nodes, each) }))
		}
		if off := (measured[1]-measured[0])/(computed[1]-computed[0]) - 1; math.Abs(off) > .2 {
			t.Errorf("%s: %.0f bytes are computed, %.0f are measured: %.0f %% off", head, computed, measured, 100*off)
		}
	}
}

// engineOf returns an engine that has predicted so many nodes, none of which has its label.
func engineOf(t *testing.T, m *model.Model, head string, nodes, each int) *pipeline.Engine {
	e, err := pipeline.New(m, pipeline.Config{Head: head, Bounds: pipeline.Bounds{Pending: nodes}, Samples: 1, Local: pipeline.Local{Unwatched: true}})
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	origin := &event.Origin{}
	for v := 0; v < nodes; v += 500 {
		w := event.Window{Number: e.Next()}
		for i := v; i < v+500; i++ {
			n := event.Node{Origin: origin, ID: event.ID{Num: int64(i)}, Dense: make([]float32, 16)}
			for k := range n.Dense {
				n.Dense[k] = float32(rng.NormFloat64())
			}
			for range min(each, i) {
				n.Neighbours = append(n.Neighbours, event.ID{Num: rng.Int64N(int64(i))})
			}
			w.Nodes = append(w.Nodes, n)
		}
		e.Recycle(e.Step(&w))
	}
	return e
}

// heapOf returns by how many bytes the heap is larger while what make returns is alive.
func heapOf(t *testing.T, make func() any) uint64 {
	t.Helper()
	live := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := live()
	made := make()
	after := live()
	runtime.KeepAlive(made)
	return after - before
}

// TestSize: the parts add up, in JSON and for people; quantities that are none are refused.
func TestSize(t *testing.T) {
	file := tenClasses(t)
	var r struct {
		Memory []part  `json:"memory"`
		Total  float64 `json:"memory_bytes"`
	}
	must(t, json.Unmarshal([]byte(gvbll(t, "size", file, "--nodes", "50M", "--edges", "350M", "--json")), &r))
	sum := 0.0
	for _, p := range r.Memory {
		sum += p.Bytes
	}
	if math.Abs(sum-r.Total) > 1 || r.Memory[1] != (part{"edges", 350e6 * 8 / .75}) {
		t.Errorf("%v add up to %v, want %v", r.Memory, sum, r.Total)
	}
	text := gvbll(t, "size", file, "--nodes", "50M", "--edges", "350M")
	for _, want := range []string{`memory\n`, `  edges +3\.5 GiB`, `  together +` + regexp.QuoteMeta(inUnits(r.Total)), `checkpoints`, `prediction +\d+ B`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for flag, want := range map[string]string{"many": "give a number such as 50M, with k, M or G", "5000M": "--nodes 5000000000: give 1 to 2147483647", "0": "--nodes 0: give 1"} {
		if code, _, errs := (&shell{t: t}).command("size", file, "--nodes", flag, "--edges", "1M"); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("--nodes %s: exit code %d, %s", flag, code, errs)
		}
	}
}

// TestSizesAreDocumented: the table of docs/performance.md is that of the command. -update writes it.
func TestSizesAreDocumented(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "performance.md")
	b, err := os.ReadFile(file)
	must(t, err)
	table := "| what | bytes |\n|---|---|\n"
	for _, p := range sizeParts {
		table += fmt.Sprintf("| %s | %s |\n", p.what, p.formula)
	}
	rows := regexp.MustCompile(`(?m)^\| what \| bytes \|\n(\|.*\n)+`)
	if want := rows.ReplaceAllLiteralString(string(b), table); want != string(b) {
		if f := flag.Lookup("update"); f == nil || f.Value.String() != "true" {
			t.Fatalf("%s has another table than gvbll size: run this test with -update", file)
		}
		must(t, os.WriteFile(file, []byte(want), 0o644))
	}
}
