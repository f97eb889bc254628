package gnn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
)

// history is the nodes and edges of a randomly grown graph, for Encode.
type history struct {
	x     []Vector
	has   map[[2]int32]bool
	edges [][2]int32
}

// link adds an edge, and reports whether it is new and not a loop.
func (h *history) link(u, v int32) bool {
	if u == v || h.has[[2]int32{u, v}] {
		return false
	}
	h.has[[2]int32{u, v}], h.has[[2]int32{v, u}] = true, true
	h.edges = append(h.edges, [2]int32{u, v})
	return true
}

// encode encodes the whole graph from scratch.
func (h *history) encode(enc Encoder) []float32 {
	var src, dst []int32
	for _, e := range h.edges {
		src, dst = append(src, e[0], e[1]), append(dst, e[1], e[0])
	}
	return enc.Encode(h.x, src, dst)
}

// encodeReversed is encode with the edges in the opposite order.
func (h *history) encodeReversed(enc Encoder) []float32 {
	reversed := history{x: h.x, edges: slices.Clone(h.edges)}
	slices.Reverse(reversed.edges)
	return reversed.encode(enc)
}

// growRandomly grows a graph by windows of arrivals with duplicate edges, loops, late edges
// and replaced features, and calls check after each window.
func growRandomly(rng *rand.Rand, enc Encoder, windows int, check func(*Graph, *history)) {
	g, h := NewGraph(enc), &history{has: map[[2]int32]bool{}}
	form := func() Vector {
		v := randomVector(rng, enc.In(), 0.5)
		if rng.IntN(2) == 0 {
			return sparse(v)
		}
		return v
	}
	for range windows {
		arrivals := make([]Vector, rng.IntN(12))
		for i := range arrivals {
			arrivals[i] = form()
		}
		first := g.Add(arrivals)
		h.x = append(h.x, arrivals...)
		n := len(h.x)
		if n == 0 {
			continue
		}
		for i := range arrivals {
			neighbours := make([]int32, rng.IntN(6)) // may be empty, and may have the node itself and duplicates
			added := 0
			for k := range neighbours {
				neighbours[k] = int32(rng.IntN(n) * rng.IntN(2)) // node 0 becomes a hub
				if h.link(first+int32(i), neighbours[k]) {
					added++
				}
			}
			if got := g.LinkAll(first+int32(i), neighbours); got != added {
				panic(fmt.Sprintf("LinkAll added %d edges, want %d", got, added))
			}
		}
		for range rng.IntN(4) {
			u, v := int32(rng.IntN(n)), int32(rng.IntN(n))
			if got, want := g.Link(u, v), h.link(u, v); got != want {
				panic(fmt.Sprintf("Link(%d, %d) = %v, want %v", u, v, got, want))
			}
		}
		for range rng.IntN(3) {
			v := int32(rng.IntN(n))
			h.x[v] = form()
			g.Replace(v, h.x[v])
		}
		if rng.IntN(4) == 0 { // replaced by the same features
			v := int32(rng.IntN(n))
			g.Replace(v, h.x[v])
		}
		check(g, h)
	}
}

// TestEmbedEqualsEncode compares the incremental encoders with the full-graph ones on
// randomly grown graphs.
func TestEmbedEqualsEncode(t *testing.T) {
	for _, kind := range kinds {
		for _, activation := range []Activation{ReLU, ELU} {
			for _, width := range [][]int{{6, 5}, {6, 8}, {6, 9, 4}, {6, 8, 7, 5}, {3, 4, 5, 6, 2}, {1, 1, 1}} {
				t.Run(fmt.Sprint(kind, activation, width), func(t *testing.T) {
					for seed := range uint64(5) {
						rng := rand.New(rand.NewPCG(seed, 7))
						embedEqualsEncode(t, rng, randomEncoder(rng, kind, activation, width...), 30)
					}
				})
			}
		}
	}
}

// embedEqualsEncode embeds random nodes after every window, and compares them with Encode.
func embedEqualsEncode(t *testing.T, rng *rand.Rand, enc Encoder, windows int) {
	t.Helper()
	growRandomly(rng, enc, windows, func(g *Graph, h *history) {
		if g.Len() != len(h.x) || g.Edges() != len(h.edges) {
			t.Fatalf("%d nodes and %d edges, want %d and %d", g.Len(), g.Edges(), len(h.x), len(h.edges))
		}
		nodes := make([]int32, rng.IntN(2*len(h.x)))
		for i := range nodes { // in any order, with duplicates
			nodes[i] = int32(rng.IntN(len(h.x)))
		}
		got := make([]float32, len(nodes)*enc.Out())
		g.Embed(nodes, got)
		all := h.encode(enc)
		again := slices.Clone(all)
		for i, v := range nodes {
			copy(again[int(v)*enc.Out():], got[i*enc.Out():(i+1)*enc.Out()])
		}
		// With cancellation, the order of a sum can change it by more than the
		// tolerance. An error of the size of that change is allowed too.
		if d := furthest(again, all); d > tolerance && d > 4*furthest(h.encodeReversed(enc), all) {
			t.Fatalf("%d nodes: relative error %g", g.Len(), d)
		}
	})
}

// bitsOf returns the bits of numbers, with which NaN and -0 can be compared.
func bitsOf(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i := range x {
		b[i] = math.Float32bits(x[i])
	}
	return b
}

// embedAll returns the embeddings of all nodes, as bits.
func embedAll(g *Graph) []uint32 {
	z := make([]float32, g.Len()*g.enc.Out())
	g.Embed(upTo(g.Len()), z)
	return bitsOf(z)
}

// ofEachKind runs a test for each kind of encoder and activation, with a function that
// returns random encoders of given widths.
func ofEachKind(t *testing.T, test func(t *testing.T, random func(*rand.Rand, ...int) Encoder)) {
	t.Helper()
	for _, kind := range kinds {
		for _, activation := range []Activation{ReLU, ELU} {
			t.Run(fmt.Sprint(kind, activation), func(t *testing.T) {
				test(t, func(rng *rand.Rand, width ...int) Encoder {
					return randomEncoder(rng, kind, activation, width...)
				})
			})
		}
	}
}

// TestSameBitsTwice: two graphs with the same history have the same bits.
func TestSameBitsTwice(t *testing.T) {
	ofEachKind(t, func(t *testing.T, random func(*rand.Rand, ...int) Encoder) {
		run := func() (all []uint32) {
			rng := rand.New(rand.NewPCG(3, 9))
			growRandomly(rng, random(rng, 7, 16, 8, 4), 40, func(g *Graph, _ *history) { all = append(all, embedAll(g)...) })
			return all
		}
		if !slices.Equal(run(), run()) {
			t.Error("two runs give different bits")
		}
	})
}

// TestReplaceSameBits compares a graph in which features were replaced, before
// and between edges, with one that had the last features from the start.
func TestReplaceSameBits(t *testing.T) {
	ofEachKind(t, func(t *testing.T, random func(*rand.Rand, ...int) Encoder) {
		const n = 60
		rng := rand.New(rand.NewPCG(5, 5))
		enc := random(rng, 10, 12, 6)
		was, is := make([]Vector, n), make([]Vector, n)
		for v := range n {
			is[v] = randomVector(rng, 10, 0.6)
			was[v] = is[v]
			if v%3 == 0 {
				was[v] = randomVector(rng, 10, 0.6)
			}
		}
		replaced, fresh := NewGraph(enc), NewGraph(enc)
		replaced.Add(was)
		fresh.Add(is)
		var z [6]float32
		for k := range 400 {
			u, v := int32(rng.IntN(n)), int32(rng.IntN(n))
			replaced.Link(u, v)
			fresh.Link(u, v)
			if k%5 == 0 {
				v := int32(rng.IntN(n))
				replaced.Replace(v, is[v])
			}
			if k%7 == 0 { // updates some of the sums in between
				replaced.Embed([]int32{u}, z[:])
			}
		}
		for v := range int32(n) {
			replaced.Replace(v, is[v])
		}
		if !slices.Equal(embedAll(replaced), embedAll(fresh)) {
			t.Error("replaced features give other bits than the same features from the start")
		}
	})
}

// TestReplaceUnchangedKeepsSums: replacing features by equal ones does not make neighbours
// stale, so that a repeated update costs nothing.
func TestReplaceUnchangedKeepsSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	g := NewGraph(randomSAGE(rng, 4, 3, 2))
	x := []Vector{randomVector(rng, 4, 1), randomVector(rng, 4, 1)}
	g.Add(x)
	g.Link(0, 1)
	g.Replace(0, x[0])
	if g.links.node(1).stale {
		t.Error("the neighbour is stale, though the features did not change")
	}
	g.Replace(0, x[1])
	if !g.links.node(1).stale {
		t.Error("the neighbour is not stale, though the features changed")
	}
}

// TestSparseAndDenseSameBits: the same features in sparse and in dense form give the same
// bits.
func TestSparseAndDenseSameBits(t *testing.T) {
	ofEachKind(t, func(t *testing.T, random func(*rand.Rand, ...int) Encoder) {
		rng := rand.New(rand.NewPCG(8, 8))
		enc := random(rng, 33, 17, 9)
		dense, thin := NewGraph(enc), NewGraph(enc)
		for range 50 {
			v := randomVector(rng, 33, 0.2)
			if rng.IntN(5) == 0 {
				v.Dense = make([]float32, 33)
			}
			dense.Add([]Vector{v})
			thin.Add([]Vector{sparse(v)})
			for range 3 {
				a, b := int32(rng.IntN(dense.Len())), int32(rng.IntN(dense.Len()))
				dense.Link(a, b)
				thin.Link(a, b)
			}
		}
		if !slices.Equal(embedAll(dense), embedAll(thin)) {
			t.Error("dense and sparse features give different bits")
		}
	})
}

// TestWindowsDoNotMatter: the division of arrivals into windows, and the choice of
// nodes that are embedded together, do not change the bits.
func TestWindowsDoNotMatter(t *testing.T) {
	ofEachKind(t, func(t *testing.T, random func(*rand.Rand, ...int) Encoder) {
		rng := rand.New(rand.NewPCG(9, 9))
		enc := random(rng, 5, 6, 4, 3)
		x := make([]Vector, 100)
		for i := range x {
			x[i] = randomVector(rng, 5, 1)
		}
		whole, single := NewGraph(enc), NewGraph(enc)
		whole.Add(x)
		for v := range x {
			single.Add(x[v : v+1])
			if v > 0 {
				neighbours := []int32{int32(rng.IntN(v)), int32(rng.IntN(v))}
				whole.LinkAll(int32(v), neighbours)
				single.LinkAll(int32(v), neighbours)
			}
		}
		var one [3]float32
		var singly []uint32
		for v := range int32(len(x)) {
			single.Embed([]int32{v}, one[:])
			singly = append(singly, bitsOf(one[:])...)
		}
		if !slices.Equal(embedAll(whole), singly) {
			t.Error("one window and many give different bits")
		}
	})
}

// TestWorkersSameBits: any number of workers and any sizes of windows give the same
// bits, also where rows are stale.
func TestWorkersSameBits(t *testing.T) {
	ofEachKind(t, func(t *testing.T, random func(*rand.Rand, ...int) Encoder) {
		enc := random(rand.New(rand.NewPCG(7, 7)), 9, 17, 8, 5)
		run := func(workers int) (all []uint32) {
			rng := rand.New(rand.NewPCG(7, 8))
			g := NewGraph(enc, Workers(workers))
			for _, window := range []int{1, 70, 64, 0, 333, 9} {
				x := make([]Vector, window)
				for i := range x {
					x[i] = randomVector(rng, 9, 0.7)
					if rng.IntN(3) == 0 {
						x[i] = sparse(x[i])
					}
				}
				first := g.Add(x)
				for i := range x {
					for range 4 {
						g.Link(first+int32(i), int32(rng.IntN(g.Len())))
					}
				}
				for range window / 10 {
					g.Replace(int32(rng.IntN(g.Len())), randomVector(rng, 9, 1))
				}
				all = append(all, embedAll(g)...)
			}
			return all
		}
		want := run(1)
		for _, workers := range []int{0, 2, 3, 8} {
			if !slices.Equal(run(workers), want) {
				t.Errorf("%d workers give other bits than one", workers)
			}
		}
	})
}

// TestSteadyStateAllocatesNothing: once storage has grown, replacing features,
// adding edges and embedding do not allocate.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	ofEachKind(t, func(t *testing.T, random func(*rand.Rand, ...int) Encoder) {
		rng := rand.New(rand.NewPCG(2, 9))
		g := NewGraph(random(rng, 6, 8, 7, 5))
		const n = 300
		x := make([]Vector, n)
		for i := range x {
			x[i] = randomVector(rng, 6, 1)
		}
		g.Add(x)
		for v := range int32(n - 1) {
			g.LinkAll(v+1, []int32{v, v / 2})
		}
		all, z := upTo(n), make([]float32, n*5)
		g.Embed(all, z)
		round, pair := 0, []int32{0, 0}
		if allocs := testing.AllocsPerRun(20, func() {
			round++
			g.Replace(int32(round), x[round+1])
			pair[0], pair[1] = int32(round+100), int32(round+200)
			g.LinkAll(int32(round), pair)
			g.Embed(all, z)
		}); allocs > 0 {
			t.Errorf("%v allocations a round, want none", allocs)
		}
	})
}

// TestNeighbours: neighbours are in the order in which edges were added. Lists grow through
// many sizes of blocks and segments, while other lists free and reuse blocks.
func TestNeighbours(t *testing.T) {
	enc, err := NewSAGE(1, ReLU, SAGELayer{Neigh: []float32{1}, Bias: []float32{0}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 400_000
	g := NewGraph(enc)
	g.Add(make([]Vector, n))
	want := make([][]int32, n)
	link := func(u, v int32) {
		if g.Link(u, v) {
			want[u], want[v] = append(want[u], v), append(want[v], u)
		}
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for v := range int32(n) {
		link(v, 0)
		link(int32(rng.IntN(50)), int32(rng.IntN(300)))
	}
	for v := range int32(n) {
		if !slices.Equal(g.Neighbours(v), want[v]) || g.Degree(v) != len(want[v]) {
			t.Fatalf("node %d: %d neighbours, want %d in the order of their edges", v, g.Degree(v), len(want[v]))
		}
	}
}

// TestMarksAfterOverflow: no node is marked after the counter of epochs has overflowed,
// although an old mark has the same number.
func TestMarksAfterOverflow(t *testing.T) {
	g := NewGraph(randomSAGE(rand.New(rand.NewPCG(1, 1)), 3, 4, 2))
	g.Add(make([]Vector, 2))
	g.links.clearMarks()
	g.links.mark(g.links.node(1))
	g.links.epoch = math.MaxUint32
	g.links.clearMarks()
	if !g.links.mark(g.links.node(1)) || g.links.mark(g.links.node(1)) {
		t.Error("an old mark counts after the counter of epochs has overflowed")
	}
}

// TestGraphPanics: nodes that do not exist, and features and destinations of a wrong size,
// panic.
func TestGraphPanics(t *testing.T) {
	enc := randomSAGE(rand.New(rand.NewPCG(1, 1)), 3, 4, 2)
	for name, misuse := range map[string]func(*Graph){
		"link to no node":    func(g *Graph) { g.Link(0, 2) },
		"linkall to no node": func(g *Graph) { g.LinkAll(0, []int32{2}) },
		"negative node":      func(g *Graph) { g.Degree(-1) },
		"embed no node":      func(g *Graph) { g.Embed([]int32{2}, make([]float32, 2)) },
		"embed short":        func(g *Graph) { g.Embed([]int32{1}, make([]float32, 1)) },
		"dense features":     func(g *Graph) { g.Add([]Vector{{Dense: make([]float32, 2)}}) },
		"sparse features":    func(g *Graph) { g.Add([]Vector{{Index: []uint32{3}, Value: []float32{1}}}) },
	} {
		g := NewGraph(enc)
		g.Add(make([]Vector, 2))
		kerneltest.WantPanic(t, name, func() { misuse(g) })
	}
}
