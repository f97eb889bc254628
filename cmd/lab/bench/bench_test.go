package bench

import (
	"slices"
	"testing"
)

// TestBenchmarks: every benchmark that needs no broker runs on a small graph and returns
// positive figures with a unit and a bar. Whether the bars are met is checked by gvbll
// bench only, since a test machine may be busy.
func TestBenchmarks(t *testing.T) {
	for _, b := range append(All[:len(All):len(All)], Benchmark{"shards", shards}, Benchmark{"learn-lag", learnLag}) {
		if slices.Contains([]string{"throughput", "latency"}, b.Name) {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			if testing.Short() && b.Name == "size" {
				t.Skip("grows a graph of 300,000 nodes")
			}
			w := Workload{Nodes: 2000, Features: 16, Hidden: 16, Embedding: 8, Classes: 5, Window: 50}.WithDefaults()
			rows, err := b.Run(t.Context(), Config{Workload: w, Quick: true})
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) == 0 {
				t.Fatal("no rows")
			}
			for _, r := range rows {
				if !(r.Value > 0) || r.Unit == "" || r.Bar == "" {
					t.Errorf("got row %+v, want a value above 0, a unit and a bar", r)
				}
			}
		})
	}
}

// TestStream: the engine accepts a stream's windows, and two streams of one workload
// have the same windows, so that runs can be compared.
func TestStream(t *testing.T) {
	w := Workload{Nodes: 300, Degree: 6, Features: 8, Density: 0.5, Window: 10, Classes: 3, Encoder: "gcn"}
	if c, err := w.stepCost(5, true); err != nil || !(c.nanoseconds > 0) {
		t.Fatalf("got cost %+v and error %v, want a cost above 0", c, err)
	}
	a, b := w.Stream(), w.Stream()
	for range 3 {
		x, y := a.Next(true), b.Next(true)
		if len(x.Nodes) != 10 || len(x.Labels) != 10 || x.Number != y.Number || x.Labels[3].Index != y.Labels[3].Index || len(x.Nodes[9].Neighbours) != 3 {
			t.Fatalf("got windows %+v and %+v, want equal ones of 10 nodes with 3 neighbours and a label each", x, y)
		}
	}
}
