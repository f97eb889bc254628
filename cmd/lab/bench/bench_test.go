// Package bench measures what an arrival costs: in the graph and the encoder, in a
// whole step of the engine, and from one topic to another through a broker.
// docs/performance.md explains the figures and their bars.
package bench

import (
	"flag"
	"testing"
)

// given is the workload of the flags of the test; a field that is zero has its default.
var given = Workload{Seed: 1}

func init() {
	flag.IntVar(&given.Nodes, "nodes", 0, "nodes of the graph before the measurement")
	flag.IntVar(&given.Degree, "degree", 0, "mean degree, an even number")
	flag.IntVar(&given.Features, "features", 0, "features of a node")
	flag.Float64Var(&given.Density, "density", 0, "share of the features that are not zero: vectors are sparse below 1")
	flag.IntVar(&given.Hidden, "hidden", 0, "width of the encoder's hidden layer")
	flag.IntVar(&given.Embedding, "embedding", 0, "dimension of an embedding")
	flag.IntVar(&given.Classes, "classes", 0, "number of classes")
	flag.IntVar(&given.Window, "window", 0, "arrivals in a window")
	flag.StringVar((*string)(&given.Encoder), "encoder", "", "graphsage, gcn, gat or gin")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestBenchmarks: every benchmark of a graph or an engine runs on a small one.
func TestBenchmarks(t *testing.T) {
	before, large, times := given, *largeGraph, flag.Lookup("test.benchtime").Value.String()
	defer func() {
		given, *largeGraph = before, large
		must(t, flag.Set("test.benchtime", times))
	}()
	given, *largeGraph = Workload{Nodes: 2000, Features: 16, Hidden: 16, Embedding: 8, Classes: 5, Window: 50}, 20_000
	must(t, flag.Set("test.benchtime", "1x"))
	for name, f := range map[string]func(*testing.B){
		"Encoder": BenchmarkEncoder, "Engine": BenchmarkEngine, "Pool": BenchmarkPool, "Hubs": BenchmarkHubs, "Memory": BenchmarkMemory,
		"Update": BenchmarkUpdate, "Sparse": BenchmarkSparse, "Workers": BenchmarkWorkers, "Size": BenchmarkSize,
		"LearnLag": BenchmarkLearnLag,
	} {
		if r := testing.Benchmark(f); r.N == 0 {
			t.Errorf("%s fails: %+v", name, r)
		}
	}
}

// TestStream: the engine accepts a stream's windows, and two streams of one workload
// have the same windows, so that runs can be compared.
func TestStream(t *testing.T) {
	w := Workload{Nodes: 300, Degree: 6, Features: 8, Density: 0.5, Window: 10, Classes: 3, Encoder: "gcn"}
	step := w.steps(t)
	for range 5 {
		step()()
	}
	a, b := w.Stream(), w.Stream()
	for range 3 {
		x, y := a.Next(true), b.Next(true)
		if len(x.Nodes) != 10 || len(x.Labels) != 10 || x.Number != y.Number || x.Labels[3].Index != y.Labels[3].Index || len(x.Nodes[9].Neighbours) != 3 {
			t.Fatalf("got windows %+v and %+v, want equal ones of 10 nodes with 3 neighbours and a label each", x, y)
		}
	}
}
