package gnn

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// kindsUnderTest have four means: of one undirected, one directed and another undirected kind.
var kindsUnderTest = EdgeKinds{{}, {Name: "paid", Directed: true}, {Name: "uses"}}

func randomSAGEKinds(rng *rand.Rand, means int, width ...int) *SAGEKinds {
	var layers []KindsLayer
	for l := range len(width) - 1 {
		normal := func(n int) []float32 {
			w := make([]float32, n)
			for i := range w {
				w[i] = float32(rng.NormFloat64()) / 2
			}
			return w
		}
		layer := KindsLayer{Bias: normal(width[l+1]), Self: normal(width[l] * width[l+1])}
		for range means {
			layer.Neigh = append(layer.Neigh, normal(width[l]*width[l+1]))
		}
		layers = append(layers, layer)
	}
	s, err := NewSAGEKinds(width[0], ReLU, layers...)
	if err != nil {
		panic(err)
	}
	return s
}

// kindEdge is an edge of a kind, in the words of [EdgeKinds].
type kindEdge struct {
	source, target int32
	kind           string
	weight         float32
}

func (e kindEdge) weigh(g *Graph) {
	g.Link(e.source, e.target)
	s, t, _ := kindsUnderTest.Of(e.kind)
	g.Weigh(WeighedEdge{e.source, e.target, uint8(s), uint8(t), e.weight})
}

// same reports whether the two are one edge, of whatever weight.
func (e kindEdge) same(f kindEdge) bool {
	s, t, _ := kindsUnderTest.Of(e.kind)
	return e.kind == f.kind && (e.source == f.source && e.target == f.target || s == t && e.source == f.target && e.target == f.source)
}

func (e kindEdge) joins(u, v int32) bool {
	return e.source == u && e.target == v || e.source == v && e.target == u
}

// TestWeighEqualsOracle: after random additions of edges, removals of edges and nodes,
// replaced features and changed weights, embeddings equal those of EncodeKinds from nothing,
// and have the bits of a graph that never had anything else, as has a restored snapshot. The
// edges of a GCN are of the one kind that has mean 0.
func TestWeighEqualsOracle(t *testing.T) {
	for _, width := range [][]int{{4, 3}, {4, 5, 3}, {3, 5, 4, 2}} {
		for name, options := range map[string][]Option{"one worker": nil, "three": {Workers(3)}} {
			rng := rand.New(rand.NewPCG(7, uint64(len(width))))
			t.Run(fmt.Sprint(width, name), func(t *testing.T) {
				testWeighEqualsOracle(t, rng, randomSAGEKinds(rng, kindsUnderTest.Means(), width...), options)
			})
			t.Run(fmt.Sprint("gcn", width, name), func(t *testing.T) {
				testWeighEqualsOracle(t, rng, randomWeighedGCN(rng, width...), options)
			})
		}
	}
}

func randomWeighedGCN(rng *rand.Rand, width ...int) *GCN {
	return randomEncoder(rng, KindGCN, ReLU, width...).(*GCN).Weighed()
}

func testWeighEqualsOracle(t *testing.T, rng *rand.Rand, enc KindsEncoder, options []Option) {
	means := uint8(enc.Means())
	g := NewGraph(enc, options...)
	const n = 700
	x := make([]Vector, n)
	for v := range x {
		x[v] = randomVector(rng, enc.In(), 1)
	}
	g.Add(x)
	var edges []kindEdge
	for step := range 4000 {
		u, v := int32(rng.IntN(n)), int32(rng.IntN(n))
		if rng.IntN(2) == 0 {
			u = 0 // a hub
		}
		if step%40 == 0 { // some sums are brought up to date
			g.Embed([]int32{u, v}, make([]float32, 2*enc.Out()))
		}
		switch i := rng.IntN(60); {
		case u == v:
		case i == 0:
			g.Unlink([][2]int32{{u, v}})
			edges = slices.DeleteFunc(edges, func(e kindEdge) bool { return e.joins(u, v) })
		case i == 1 && step < 1000:
			g.Remove([]int32{v})
			x[v] = randomVector(rng, enc.In(), 1)
			g.Replace(v, x[v])
			edges = slices.DeleteFunc(edges, func(e kindEdge) bool { return e.source == v || e.target == v })
		default:
			e := kindEdge{u, v, kindsUnderTest[rng.IntN(min(enc.Means(), 3))].Name, rng.Float32()*9 + 0.1}
			if i < 15 && len(edges) > 0 {
				again := edges[rng.IntN(len(edges))]
				e.source, e.target, e.kind = again.source, again.target, again.kind
			}
			e.weigh(g)
			if at := slices.IndexFunc(edges, e.same); at >= 0 {
				edges[at].weight = e.weight
			} else {
				edges = append(edges, e)
			}
		}
	}
	got := embedAll(g)
	fresh := NewGraph(enc, options...)
	fresh.Add(x)
	for _, e := range edges {
		e.weigh(fresh)
	}
	if !slices.Equal(got, embedAll(fresh)) {
		t.Error("embeddings have other bits than in a graph that never had what was removed")
	}
	if !slices.Equal(got, embedAll(restoredGraph(t, g, enc))) {
		t.Error("embeddings have other bits after a snapshot")
	}
	if d := furthest(embedNodes(g, n), encodeKindEdges(enc, x, edges)); d > 1e-6 {
		t.Errorf("relative error %g against EncodeKinds", d)
	}
	e := edges[len(edges)/2]
	without := make([]float32, enc.Out())
	g.EmbedTrial(e.source, nil, []int32{e.target}, without)
	if !slices.Equal(got, embedAll(g)) {
		t.Error("EmbedTrial changed the graph")
	}
	replaced := make([]float32, enc.Out())
	g.EmbedTrial(e.source, &x[0], []int32{e.target}, replaced)
	if !slices.Equal(got, embedAll(g)) {
		t.Error("EmbedTrial with other features changed the graph")
	}
	arrival, trial := randomVector(rng, enc.In(), 1), make([]float32, enc.Out())
	edgesOfArrival := []WeighedEdge{{0, n, 1 % means, 2 % means, 3}, {n, 7, 0, 0, 1}, {n, 0, 3 % means, 3 % means, 2}}
	g.EmbedArrival(arrival, []int32{0, 7, 9}, edgesOfArrival, trial)
	if !slices.Equal(got, embedAll(g)) {
		t.Error("EmbedArrival changed the graph")
	}
	restored := restoredGraph(t, g, enc)
	restored.Add([]Vector{arrival})
	restored.LinkAll(n, []int32{0, 7, 9})
	restored.Weigh(edgesOfArrival...)
	if !slices.Equal(trial, embedNodes(restored, n+1)[n*enc.Out():]) {
		t.Error("EmbedArrival gives another embedding than the arrival has")
	}
	g.Unlink([][2]int32{{e.source, e.target}})
	after := make([]float32, enc.Out())
	g.Embed([]int32{e.source}, after)
	if d := furthest(without, after); d > 1e-6 {
		t.Errorf("EmbedTrial is off by %g", d)
	}
	g.Replace(e.source, x[0])
	g.Embed([]int32{e.source}, after)
	if d := furthest(replaced, after); d > 1e-6 {
		t.Errorf("EmbedTrial with other features is off by %g", d)
	}
}

func embedNodes(g *Graph, n int) []float32 {
	nodes := make([]int32, n)
	for v := range nodes {
		nodes[v] = int32(v)
	}
	z := make([]float32, n*g.enc.Out())
	g.Embed(nodes, z)
	return z
}

func encodeKindEdges(enc KindsEncoder, x []Vector, edges []kindEdge) []float32 {
	var src, dst []int32
	var mean []uint8
	var weight []float32
	for _, e := range edges {
		s, t, _ := kindsUnderTest.Of(e.kind)
		src, dst = append(src, e.target, e.source), append(dst, e.source, e.target)
		mean, weight = append(mean, uint8(s), uint8(t)), append(weight, e.weight, e.weight)
	}
	return enc.EncodeKinds(x, src, dst, mean, weight)
}

func restoredGraph(t *testing.T, g *Graph, enc Encoder) *Graph {
	t.Helper()
	saved := snapshot.Saving()
	g.State(saved)
	defer saved.Release()
	again, err := restore(bytesIn(t, streamOf(t, saved.Parts()), -1), enc)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// TestKindsGolden compares with what testdata/kinds.py computed with PyTorch Geometric:
// RGCNConv with aggr="mean" and HeteroConv of SAGEConvs, of which the weights are loaded, and
// the latter with weights on the edges, and GCNConv with edge_weight; after additions, removals
// and changed weights. A graph that takes the steps is within 1e-6.
func TestKindsGolden(t *testing.T) {
	type state map[string]struct {
		Shape  []int
		Values []float32
	}
	var golden struct {
		X                 [][]float32
		RGCN, Hetero, GCN state
		Steps             []struct {
			Removed [][2]int32
			Said    [][4]any
			Z       map[string][][]float32
		}
	}
	b, err := os.ReadFile("testdata/kinds.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	var x []Vector
	for _, row := range golden.X {
		x = append(x, Vector{Dense: row})
	}
	kinds := EdgeKinds{{Name: "cites"}, {Name: "paid", Directed: true}, {Name: "uses"}}
	for name, from := range map[string]state{"rgcn": golden.RGCN, "hetero": golden.Hetero, "weighted": golden.Hetero, "gcn": golden.GCN} {
		tensors := make(map[string]safetensors.Tensor)
		for name, tensor := range from {
			tensors[name] = safetensors.Of(tensor.Values, tensor.Shape...)
		}
		kind := KindSAGE
		if name == "gcn" {
			kind = KindGCN
		}
		enc, err := Load(kind, ReLU, tensors)
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := enc.(*GCN); ok {
			enc = c.Weighed()
		}
		g := NewGraph(enc)
		g.Add(x)
		for i, step := range golden.Steps {
			g.Unlink(step.Removed)
			for _, e := range step.Said {
				u, v, weight := int32(e[0].(float64)), int32(e[1].(float64)), float32(1)
				if name == "weighted" || name == "gcn" {
					weight = float32(e[3].(float64))
				}
				atSource, atTarget, _ := kinds.Of(e[2].(string))
				if name == "gcn" {
					atSource, atTarget = 0, 0
				}
				g.Link(u, v)
				g.Weigh(WeighedEdge{u, v, uint8(atSource), uint8(atTarget), weight})
			}
			if d := furthest(embedNodes(g, len(x)), slices.Concat(step.Z[name]...)); d > 1e-6 {
				t.Errorf("%s, step %d: relative error %g", name, i, d)
			}
		}
	}
}

// TestOneKind: a graph of an encoder with a single mean has the bits of one without kinds, until a
// weight is not 1. From then on it embeds as one that had the weights from the beginning, within
// 1e-6, also where it was read while it changed, and from a snapshot of before and after.
func TestOneKind(t *testing.T) {
	for name, options := range map[string][]Option{"float32": nil, "bfloat16": {BFloat16()}} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 5))
			enc := randomSAGEKinds(rng, 1, 4, 5, 3)
			g, plain := NewGraph(enc, options...), NewGraph(enc.single, options...)
			const n = 400
			x := make([]Vector, n)
			for v := range x {
				x[v] = randomVector(rng, 4, 1)
			}
			g.Add(x)
			plain.Add(x)
			var edges []kindEdge
			for range 2000 {
				u, v := int32(rng.IntN(2)*rng.IntN(n)), int32(rng.IntN(n)) // one is a hub
				if g.Link(u, v) {
					edges = append(edges, kindEdge{u, v, "", 1})
				}
				g.Weigh(WeighedEdge{Source: u, Target: v, Weight: 1})
				plain.Link(u, v)
			}
			g.Unlink([][2]int32{{edges[7].source, edges[7].target}}) // some are stale
			plain.Unlink([][2]int32{{edges[7].source, edges[7].target}})
			edges = slices.Delete(edges, 7, 8)
			want := embedAll(plain)
			if g.TellsApart() || !slices.Equal(embedAll(g), want) {
				t.Fatal("embeddings have other bits than without kinds")
			}
			saved := snapshot.Saving()
			g.State(saved)
			for i := range edges[:50] {
				edges[i].weight = 1 + rng.Float32()
				edges[i].weigh(g)
			}
			old, err := restore(bytesIn(t, streamOf(t, saved.Parts()), -1), enc, options...)
			saved.Release()
			if err != nil || !slices.Equal(embedAll(old), want) {
				t.Errorf("a snapshot that was read after the first weight has other embeddings (%v)", err)
			}
			if got := embedAll(g); name == "float32" {
				all := encodeKindEdges(enc, x, edges)
				if d := furthest(embedNodes(g, n), all); d > 1e-6 {
					t.Errorf("relative error %g against EncodeKinds", d)
				}
				if !slices.Equal(got, embedAll(restoredGraph(t, g, enc))) {
					t.Error("embeddings have other bits after a snapshot")
				}
			} else if slices.Equal(got, want) {
				t.Error("weights change nothing")
			}
		})
	}
}
