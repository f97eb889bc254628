package gnn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// survivors is what remains of a graph after removals: the features of the nodes that are
// there, and the edges between them in the order in which they were added.
type survivors struct {
	x     []Vector
	there []bool
	edges [][2]int32
}

// remove removes nodes, and returns the number of edges removed with them.
func (c *survivors) remove(nodes []int32) (edges int) {
	for _, v := range nodes {
		c.there[v] = false
	}
	before := len(c.edges)
	c.edges = slices.DeleteFunc(c.edges, func(e [2]int32) bool { return !c.there[e[0]] || !c.there[e[1]] })
	return before - len(c.edges)
}

// link adds an edge, and reports whether it is new and not a loop.
func (c *survivors) link(u, v int32) bool {
	if u == v || slices.ContainsFunc(c.edges, func(e [2]int32) bool { return e == [2]int32{u, v} || e == [2]int32{v, u} }) {
		return false
	}
	c.edges = append(c.edges, [2]int32{u, v})
	return true
}

// unlink removes edges, and returns those that were there, each with its lower number
// first, in the order of these numbers and then of their neighbours' lists.
func (c *survivors) unlink(edges [][2]int32) (removed [][2]int32) {
	c.edges = slices.DeleteFunc(c.edges, func(e [2]int32) bool {
		if !slices.Contains(edges, e) && !slices.Contains(edges, [2]int32{e[1], e[0]}) {
			return false
		}
		removed = append(removed, [2]int32{min(e[0], e[1]), max(e[0], e[1])})
		return true
	})
	slices.SortStableFunc(removed, func(a, b [2]int32) int { return int(a[0] - b[0]) })
	return removed
}

// edgesOf returns up to most edges, some of them twice.
func (c *survivors) edgesOf(rng *rand.Rand, most int) (edges [][2]int32) {
	for range min(most, len(c.edges)) {
		edges = append(edges, c.edges[rng.IntN(len(c.edges))])
	}
	return edges
}

// left returns the numbers of the remaining nodes, and the graph of these nodes
// alone, numbered in that order.
func (c *survivors) left() (nodes []int32, h history) {
	place := make([]int32, len(c.there))
	for v, there := range c.there {
		if there {
			place[v] = int32(len(nodes))
			nodes = append(nodes, int32(v))
			h.x = append(h.x, c.x[v])
		}
	}
	for _, e := range c.edges {
		h.edges = append(h.edges, [2]int32{place[e[0]], place[e[1]]})
	}
	return nodes, h
}

// someOf returns up to most distinct nodes that are in the graph (there) or removed.
func (c *survivors) someOf(rng *rand.Rand, there bool, most int) (nodes []int32) {
	for range most {
		if v := rng.IntN(len(c.there)); c.there[v] == there && !slices.Contains(nodes, int32(v)) {
			nodes = append(nodes, int32(v))
		}
	}
	return nodes
}

// live lets nodes arrive, lose edges, leave and return under numbers of removed nodes, and
// calls check after each round.
func (c *survivors) live(rng *rand.Rand, g *Graph, rounds int, check func()) {
	in, out := g.enc.In(), make([]float32, g.enc.Out())
	form := func() Vector {
		v := randomVector(rng, in, 0.5)
		if rng.IntN(2) == 0 {
			return sparse(v)
		}
		return v
	}
	for range rounds {
		arrivals := make([]Vector, 1+rng.IntN(8))
		for i := range arrivals {
			arrivals[i] = form()
			c.x, c.there = append(c.x, arrivals[i]), append(c.there, true)
		}
		g.Add(arrivals)
		back := c.someOf(rng, false, 4)
		for _, v := range back {
			c.x[v], c.there[v] = form(), true
			g.Replace(v, c.x[v])
		}
		for _, v := range append(back, int32(len(c.x)-1), int32(len(c.x)-len(arrivals))) {
			near := c.someOf(rng, true, 6)
			if c.there[0] {
				near = append(near, 0) // a hub
			}
			added := 0
			for _, u := range near {
				if c.link(v, u) {
					added++
				}
			}
			if got := g.LinkAll(v, near); got != added {
				panic(fmt.Sprintf("LinkAll added %d edges, want %d", got, added))
			}
		}
		if some := c.someOf(rng, true, 3); len(some) > 1 {
			if got, want := g.Link(some[0], some[1]), c.link(some[0], some[1]); got != want {
				panic(fmt.Sprintf("Link gives %v, want %v", got, want))
			}
			c.x[some[0]] = form()
			g.Replace(some[0], c.x[some[0]])
			g.Embed(some[1:2], out) // updates some of the sums in between
		}
		if some := c.edgesOf(rng, rng.IntN(5)); len(some) > 0 {
			some = append(some, [2]int32{some[0][1], some[0][0]}, [2]int32{0, int32(rng.IntN(len(c.x)))})
			if got, want := slices.Clone(g.Unlink(some)), c.unlink(some); !slices.Equal(got, want) {
				panic(fmt.Sprintf("Unlink of %v took %v, want %v", some, got, want))
			}
		}
		gone := c.someOf(rng, true, rng.IntN(6))
		if len(gone) > 0 && rng.IntN(3) == 0 {
			gone = append(gone, gone[0]) // a duplicate
		}
		if got, want := g.Remove(gone), c.remove(gone); got != want {
			panic(fmt.Sprintf("Remove took %d edges, want %d", got, want))
		}
		check()
	}
}

// TestRemoveEqualsOracle: after random arrivals, removals of edges, departures and returns,
// embeddings equal those of Encode on the remaining graph, and have the bits of a graph
// that never had the removed nodes and edges. Forgetting a node exactly relies on this.
func TestRemoveEqualsOracle(t *testing.T) {
	for name, options := range map[string][]Option{"float32": nil, "bfloat16": {BFloat16()}, "workers": {Workers(3)}} {
		for _, kind := range kinds {
			for _, activation := range []Activation{ReLU, ELU} {
				for _, width := range [][]int{{5, 4}, {5, 6, 4}, {3, 4, 5, 2}, {2, 3, 4, 3, 2}} {
					t.Run(fmt.Sprint(name, kind, activation, width), func(t *testing.T) {
						for seed := range uint64(3) {
							rng := rand.New(rand.NewPCG(seed, 31))
							enc := randomEncoder(rng, kind, activation, width...)
							g, c := NewGraph(enc, options...), &survivors{}
							c.live(rng, g, 25, func() {
								nodes, h := c.left()
								if g.Edges() != len(h.edges) {
									t.Fatalf("%d edges, want %d", g.Edges(), len(h.edges))
								}
								got := make([]float32, len(nodes)*enc.Out())
								g.Embed(nodes, got)
								fresh := NewGraph(enc, options...)
								fresh.Add(h.x)
								for _, e := range h.edges {
									fresh.Link(e[0], e[1])
								}
								if !slices.Equal(bitsOf(got), embedAll(fresh)) {
									t.Fatal("embeddings have other bits than in a graph that never had the removed nodes")
								}
								want := h.encode(enc)
								if d := furthest(got, want); name != "bfloat16" && d > tolerance && d > 4*furthest(h.encodeReversed(enc), want) {
									t.Fatalf("relative error %g against Encode on the remaining graph", d)
								}
							})
						}
					})
				}
			}
		}
	}
}

// TestRemoveKeepsNothing: a removed node has neither features nor edges, and the memory of
// its list is reused.
func TestRemoveKeepsNothing(t *testing.T) {
	ofEachKind(t, func(t *testing.T, random func(*rand.Rand, ...int) Encoder) {
		rng := rand.New(rand.NewPCG(5, 32))
		g := NewGraph(random(rng, 4, 5, 3))
		const n = 400
		round := func() {
			for v := range int32(n) {
				g.Replace(v, randomVector(rng, 4, 1))
			}
			for v := int32(1); v < n; v++ {
				g.LinkAll(v, []int32{0, v / 2, v - 1})
			}
			g.Remove(upTo(n))
		}
		g.Add(make([]Vector, n))
		blank := embedAll(g)
		round()
		total := g.links.adj.Size()
		for range 20 {
			round()
		}
		if g.links.adj.Size() != total {
			t.Errorf("lists have memory for %d numbers, want the %d of the first round", g.links.adj.Size(), total)
		}
		if g.Edges() != 0 || g.links.staleCount != 0 || !slices.Equal(embedAll(g), blank) {
			t.Errorf("%d edges and %d stale nodes are left, want none, and embeddings as without features", g.Edges(), g.links.staleCount)
		}
	})
}

// TestRemoveShortensBlocks: the list of a hub that lost its neighbours returns its memory.
func TestRemoveShortensBlocks(t *testing.T) {
	g := NewGraph(randomSAGE(rand.New(rand.NewPCG(1, 1)), 2, 3, 2))
	const n = 1000
	g.Add(make([]Vector, n))
	for v := int32(1); v < n; v++ {
		g.Link(0, v)
	}
	g.Remove(upTo(n)[5:])
	if hub := g.links.node(0).adj; hub.Len() != 4 || hub.Cap() != 4 || !slices.Equal(g.Neighbours(0), []int32{1, 2, 3, 4}) {
		t.Errorf("the hub's list %v has a capacity of %d, want [1 2 3 4] with 4", g.Neighbours(0), hub.Cap())
	}
}

// TestUnlinkShortensBlocks: the list of a hub whose edges were taken away returns its
// memory. Edges that are not there are ignored.
func TestUnlinkShortensBlocks(t *testing.T) {
	g := NewGraph(randomSAGE(rand.New(rand.NewPCG(1, 1)), 2, 3, 2))
	const n = 1000
	g.Add(make([]Vector, n))
	var edges [][2]int32
	for v := int32(1); v < n; v++ {
		g.Link(0, v)
		edges = append(edges, [2]int32{v, 0})
	}
	if removed := g.Unlink(edges[4:]); len(removed) != len(edges)-4 || g.Edges() != 4 {
		t.Errorf("%d edges were removed and %d are left, want %d and 4", len(removed), g.Edges(), len(edges)-4)
	}
	if hub := g.links.node(0).adj; hub.Cap() != 4 || !slices.Equal(g.Neighbours(0), []int32{1, 2, 3, 4}) {
		t.Errorf("the hub's list %v has a capacity of %d, want [1 2 3 4] with 4", g.Neighbours(0), hub.Cap())
	}
	if again := g.Unlink(edges[4:]); len(again) != 0 {
		t.Errorf("%d edges were removed twice", len(again))
	}
}

// BenchmarkRemove removes a neighbour of a hub of the given degree and embeds one of
// the hub's remaining neighbours, which recomputes the hub's row.
func BenchmarkRemove(b *testing.B) {
	for _, degree := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint("hub=", degree), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			enc := randomSAGE(rng, 16, 64, 32)
			g := NewGraph(enc)
			x := make([]Vector, degree+1)
			for i := range x {
				x[i] = randomVector(rng, 16, 1)
			}
			g.Add(x)
			for v := range int32(degree) {
				g.Link(0, v+1)
			}
			z := make([]float32, enc.Out())
			for i := range b.N {
				v := int32(2 + i%(degree-1))
				g.Remove([]int32{v})
				g.Embed([]int32{1}, z)
				b.StopTimer()
				g.Replace(v, x[v])
				g.Link(0, v)
				b.StartTimer()
			}
		})
	}
}
