package bench

import (
	"slices"
	"testing"
)

// TestBenchmarks: every benchmark without a broker runs, on a small graph, and makes
// its rows. What they measure is for gvbll bench to show.
func TestBenchmarks(t *testing.T) {
	for _, b := range All {
		if slices.Contains([]string{"throughput", "latency", "start"}, b.Name) {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			if testing.Short() && b.Name == "size" {
				t.Skip("a larger graph")
			}
			w := Workload{Nodes: 2000, Features: 16, Hidden: 16, Embedding: 8, Classes: 5, Window: 50}.WithDefaults()
			rows, err := b.Run(t.Context(), Config{Workload: w, Quick: true})
			if err != nil || len(rows) == 0 {
				t.Fatalf("%v, %v", rows, err)
			}
			for _, r := range rows {
				if !(r.Value > 0) || r.Unit == "" || r.Bar == "" {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// TestStream: windows are what the engine takes, and the same for a seed.
func TestStream(t *testing.T) {
	w := Workload{Nodes: 300, Degree: 6, Features: 8, Density: 0.5, Window: 10, Classes: 3, Encoder: "gcn"}
	if c, err := w.stepCost(5, true); err != nil || !(c.nanoseconds > 0) {
		t.Fatalf("%+v, %v", c, err)
	}
	a, b := w.Stream(), w.Stream()
	for range 3 {
		x, y := a.Next(true), b.Next(true)
		if len(x.Nodes) != 10 || len(x.Labels) != 10 || x.Number != y.Number || x.Labels[3].Index != y.Labels[3].Index || len(x.Nodes[9].Neighbours) != 3 {
			t.Fatalf("%+v and %+v", x, y)
		}
	}
}
