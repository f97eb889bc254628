package serve_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/posterior/pool"
)

// TestCorrectedCountsAreThoseOfRightLabels: after a stream with corrections and withdrawals, all
// that only counts is as after one whose labels were right from the start. That is what the heads
// "votes" and "bayes" predict, to the bit: they count the labels around a node, those of each
// class, and the features of each class. It is so with a lag, after late labels, for context
// nodes, and in an engine that is restored after every window.
func TestCorrectedCountsAreThoseOfRightLabels(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 25))
		m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
		spec := pool.Default(pool.Traits{Density: .01, Rows: 1e6, Classes: len(m.Classes), Features: 1000})
		p, err := pool.New(spec, m.Shape(), &m.Prior)
		if err != nil {
			t.Fatal(err)
		}
		m.Pool, m.PoolState = &spec, p.AppendState(nil)
		cfg := pipeline.Config{LearnLag: int(seed % 3), Bounds: pipeline.Bounds{Pending: 60}}
		corrected, right := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewEngine(t, m, cfg)
		history, err := pipeline.NewHistory(pipeline.HistoryConfig{Features: m.Encoder.In(), Classes: m.Classes})
		if err != nil {
			t.Fatal(err)
		}
		step := func(w, rightly *event.Window) *event.Outcome {
			w.Number, rightly.Number = corrected.Next(), right.Next()
			out := corrected.Step(w)
			right.Step(rightly)
			history.Step(w)
			restored, _, err := pipelinetest.Restore(m, cfg, pipelinetest.SnapshotOf(t, corrected, nil))
			if err != nil {
				t.Fatal(err)
			}
			corrected = restored
			return out
		}
		const nodes = 80
		var w event.Window
		for v := range int64(nodes) {
			n := event.Node{Origin: &event.Origin{}, ID: event.ID{Num: v}, Context: rng.IntN(6) == 0, Dense: make([]float32, m.Encoder.In())}
			for j := range n.Dense {
				n.Dense[j] = float32(rng.IntN(3)) // sums of integers are exact
			}
			for range rng.Int64N(5) * min(v, 1) {
				n.Neighbours = append(n.Neighbours, event.ID{Num: rng.Int64N(v)})
			}
			w.Nodes = append(w.Nodes, n)
		}
		step(&w, &event.Window{Nodes: w.Nodes})

		// Each node's labels, of which the last one is right. -1 withdraws.
		labels := make([][]int32, nodes)
		var order []int64 // whose label comes next
		for v := range labels {
			for range rng.IntN(4) {
				labels[v] = append(labels[v], int32(rng.IntN(1+len(m.Classes)))-1)
				order = append(order, int64(v))
			}
		}
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		next, said := make([]int, nodes), make([]bool, nodes)
		var counts figure.Window
		for batch := range slices.Chunk(order, 15) {
			var w, rightly event.Window
			for _, v := range batch {
				y, last := labels[v][next[v]], labels[v][len(labels[v])-1]
				next[v]++
				l := event.Label{Origin: &event.Origin{}, Node: event.ID{Num: v}, Index: max(y, 0), Withdrawn: y < 0}
				w.Labels = append(w.Labels, l)
				if l.Index = last; y >= 0 && last >= 0 && !said[v] {
					said[v] = true
					rightly.Labels = append(rightly.Labels, l)
				}
			}
			out := step(&w, &rightly)
			if n := len(out.Refused); n > 0 && out.Refused[0].Reason != event.LateLabel {
				t.Fatalf("seed %d: %d labels were refused, as %v", seed, n, out.Refused[0])
			}
			counts.Count(event.LabelsCorrected, out.Figures.Int(event.LabelsCorrected))
			counts.Count(event.LabelsWithdrawn, out.Figures.Int(event.LabelsWithdrawn))
		}
		if counts.Int(event.LabelsCorrected) < 10 || counts.Int(event.LabelsWithdrawn) < 5 {
			t.Fatalf("seed %d: %d labels corrected and %d withdrawn", seed, counts.Int(event.LabelsCorrected), counts.Int(event.LabelsWithdrawn))
		}
		for range cfg.LearnLag + 1 {
			step(&event.Window{}, &event.Window{})
		}

		recorded := make(map[event.ID]string)
		list, _ := history.Nodes(func(*pipeline.Recorded) bool { return true })
		for _, r := range list {
			if r.Class >= 0 {
				recorded[r.ID] = history.Classes()[r.Class]
			}
		}
		for v := range int64(nodes) {
			id := event.ID{Num: v}
			got, _ := corrected.Node(id)
			want, _ := right.Node(id)
			if got.Label != want.Label || recorded[id] != want.Label {
				t.Fatalf("seed %d: node %v is labelled %q, recorded %q, want %q", seed, id, got.Label, recorded[id], want.Label)
			}
			for h, head := range want.Now.Heads {
				counts := head.Head == "votes" || head.Head == "bayes"
				if counts && !reflect.DeepEqual(got.Now.Heads[h], head) {
					t.Fatalf("seed %d, node %v: %+v, want %+v of right labels", seed, id, got.Now.Heads[h], head)
				}
			}
		}
	}
}
