package gnn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// TestTrialsEqualChanges: EmbedArrival and EmbedTrial give the embedding of the graph
// after the change, of features, edges or both, and do not change the graph.
func TestTrialsEqualChanges(t *testing.T) {
	for _, kind := range kinds {
		for _, width := range [][]int{{6, 5}, {6, 8, 4}, {3, 4, 5, 2}} {
			t.Run(fmt.Sprint(kind, width), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, 2))
				enc := randomEncoder(rng, kind, ReLU, width...)
				growRandomly(rng, enc, 25, func(g *Graph, h *history) {
					n := len(h.x)
					x := randomVector(rng, enc.In(), 0.5)
					neighbours := make([]int32, rng.IntN(6))
					for i := range neighbours {
						neighbours[i] = int32(rng.IntN(n))
					}
					got := make([]float32, enc.Out())
					g.EmbedArrival(x, neighbours, nil, got)
					if g.Len() != n || g.Edges() != len(h.edges) {
						t.Fatalf("%d nodes and %d edges after a trial, want %d and %d as before", g.Len(), g.Edges(), n, len(h.edges))
					}
					after := history{x: append(slices.Clone(h.x), x), has: map[[2]int32]bool{}, edges: slices.Clone(h.edges)}
					for _, u := range neighbours {
						after.link(int32(n), u)
					}
					wantNear(t, got, after.encode(enc)[n*enc.Out():])

					if len(h.edges) == 0 {
						return
					}
					v := h.edges[rng.IntN(len(h.edges))][0]
					without := slices.Clone(g.Neighbours(v))
					rng.Shuffle(len(without), func(i, j int) { without[i], without[j] = without[j], without[i] })
					without = without[:rng.IntN(len(without)+1)]
					changed := history{x: slices.Clone(h.x), edges: slices.DeleteFunc(slices.Clone(h.edges), func(e [2]int32) bool {
						return e[0] == v && slices.Contains(without, e[1]) || e[1] == v && slices.Contains(without, e[0])
					})}
					g.EmbedTrial(v, nil, without, got)
					wantNear(t, got, changed.encode(enc)[int(v)*enc.Out():][:enc.Out()])
					if slices.ContainsFunc(g.Neighbours(v), func(u int32) bool { return g.Degree(u) > trialDegree }) {
						return
					}
					g.EmbedTrial(v, &x, without, got)
					changed.x[v] = x
					wantNear(t, got, changed.encode(enc)[int(v)*enc.Out():][:enc.Out()])
				})
			})
		}
	}
}

// wantNear fails unless embeddings are equal up to rounding.
func wantNear(t *testing.T, got, want []float32) {
	t.Helper()
	for i := range want {
		if d := got[i] - want[i]; d > 1e-4*(1+abs(want[i])) || -d > 1e-4*(1+abs(want[i])) {
			t.Fatalf("embedding %v, want %v", got, want)
		}
	}
}

func abs(x float32) float32 { return max(x, -x) }

// TestTrialsLeaveNothing: trials between changes of a graph do not change its neighbours or
// bits, also while it is frozen and with bfloat16.
func TestTrialsLeaveNothing(t *testing.T) {
	for _, kind := range kinds {
		for _, options := range [][]Option{nil, {BFloat16()}} {
			t.Run(fmt.Sprint(kind, len(options)), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(3, 4))
				enc := randomEncoder(rng, kind, ReLU, 5, 6, 4)
				tried, plain := NewGraph(enc, options...), NewGraph(enc, options...)
				got, want := make([]float32, enc.Out()), make([]float32, enc.Out())
				var frozen *snapshot.Schema
				for step := range 300 {
					x := randomVector(rng, enc.In(), 0.5)
					var neighbours []int32
					for range rng.IntN(5) {
						neighbours = append(neighbours, int32(rng.IntN(step+1)*rng.IntN(2)))
					}
					switch {
					case step%50 == 10:
						frozen = snapshot.Saving()
						tried.State(frozen)
					case step%50 == 40:
						frozen.Release()
					}
					if step > 0 {
						others := make([]int32, rng.IntN(4))
						for i := range others {
							others[i] = int32(rng.IntN(step))
						}
						tried.EmbedArrival(randomVector(rng, enc.In(), 0.5), others, nil, got)
						v := int32(rng.IntN(step))
						if near := tried.Neighbours(v); len(near) > 0 {
							i := rng.IntN(len(near))
							tried.EmbedTrial(v, nil, slices.Clone(near[i:i+1+rng.IntN(len(near)-i)]), got)
							tried.EmbedTrial(v, &x, slices.Clone(near[i:i+rng.IntN(len(near)-i)]), got)
						}
						again := int32(rng.IntN(step))
						for _, g := range []*Graph{tried, plain} {
							g.Replace(again, x)
						}
					}
					for _, g := range []*Graph{tried, plain} {
						v := g.Add([]Vector{x})
						g.LinkAll(v, neighbours)
					}
					for v := range int32(step + 1) {
						if !slices.Equal(tried.Neighbours(v), plain.Neighbours(v)) {
							t.Fatalf("step %d: node %d has neighbours %v, want %v", step, v, tried.Neighbours(v), plain.Neighbours(v))
						}
					}
					v := int32(rng.IntN(step + 1))
					tried.Embed([]int32{v}, got)
					plain.Embed([]int32{v}, want)
					if !slices.Equal(got, want) {
						t.Fatalf("step %d: node %d has embedding %v, want %v", step, v, got, want)
					}
				}
			})
		}
	}
}

// TestEmbedTrialPanics: EmbedTrial panics if there is no such edge.
func TestEmbedTrialPanics(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	enc := randomEncoder(rng, KindSAGE, ReLU, 3, 2)
	g := NewGraph(enc)
	g.Add([]Vector{randomVector(rng, 3, 1), randomVector(rng, 3, 1)})
	kerneltest.WantPanic(t, "no edge", func() { g.EmbedTrial(0, nil, []int32{1}, make([]float32, 2)) })
}
