package gnn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// scalar is an encoder of one feature with one unit in each of two layers, and what it
// makes of a star in float64: of the hub's feature, the leaves' common feature, and the
// number of leaves.
type scalar struct {
	encoder Encoder
	hub     func(hub, leaf, n float64) float64
}

// scalars have positive weights and features, so that ReLU changes nothing.
func scalars(t *testing.T) map[string]scalar {
	t.Helper()
	f := func(x float32) []float32 { return []float32{x} }
	sage, err := NewSAGE(1, ReLU, SAGELayer{f(0.3), f(0.1), f(0.7)}, SAGELayer{f(0.9), f(0.2), f(0.4)})
	if err != nil {
		t.Fatal(err)
	}
	elu, err := NewSAGE(1, ELU, SAGELayer{f(0.3), f(0.1), f(0.7)}, SAGELayer{f(0.9), f(0.2), f(0.4)})
	if err != nil {
		t.Fatal(err)
	}
	gcn, err := NewGCN(1, ReLU, GCNLayer{f(0.3), f(0.1)}, GCNLayer{f(0.9), f(0.2)})
	if err != nil {
		t.Fatal(err)
	}
	gin, err := NewGIN(1, ReLU, GINLayer{0.5, []Linear{{f(0.3), f(0.1)}}}, GINLayer{0.1, []Linear{{f(0.9), f(0.2)}}})
	if err != nil {
		t.Fatal(err)
	}
	gat, err := NewGAT(1, ReLU, GATLayer{1, f(0.3), f(0.6), f(0.4), f(0.1)}, GATLayer{1, f(0.9), f(0.5), f(0.8), f(0.2)})
	if err != nil {
		t.Fatal(err)
	}
	w := func(x float32) float64 { return float64(x) }
	ofSAGE := func(hub, leaf, n float64) float64 {
		h, l := w(.3)*leaf+w(.1)+w(.7)*hub, w(.3)*hub+w(.1)+w(.7)*leaf
		return w(.9)*l + w(.2) + w(.4)*h
	}
	return map[string]scalar{
		"sage": {sage, ofSAGE}, "sage elu": {elu, ofSAGE},
		"gcn": {gcn, func(hub, leaf, n float64) float64 {
			cross := n / math.Sqrt(2*(n+1)) // of all leaves together, in the hub's sum
			h := w(.3)*(hub/(n+1)+leaf*cross) + w(.1)
			l := w(.3)*(hub/math.Sqrt(2*(n+1))+leaf/2) + w(.1)
			return w(.9)*(h/(n+1)+l*cross) + w(.2)
		}},
		"gin": {gin, func(hub, leaf, n float64) float64 {
			h, l := w(.3)*(1.5*hub+n*leaf)+w(.1), w(.3)*(1.5*leaf+hub)+w(.1)
			return w(.9)*((1+w(.1))*h+n*l) + w(.2)
		}},
		"gat": {gat, func(hub, leaf, n float64) float64 {
			attend := func(source, target, to, from, n float64) float64 { // to the node itself and n others
				leaky := func(x float64) float64 { return max(x, 0.2*x) }
				own, other := math.Exp(leaky((source+target)*to)), n*math.Exp(leaky(source*from+target*to))
				return (own*to + other*from) / (own + other)
			}
			p, q := w(.3)*hub, w(.3)*leaf
			h, l := attend(w(.6), w(.4), p, q, n)+w(.1), attend(w(.6), w(.4), q, p, 1)+w(.1)
			return attend(w(.5), w(.8), w(.9)*h, w(.9)*l, n) + w(.2)
		}},
	}
}

// TestMillionNeighbours: the embedding of a hub with a million equal neighbours, which came
// in parts, is right to 10⁻⁶, from rows of both kinds of encoding order; so it is after an
// edge was removed.
func TestMillionNeighbours(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 40_000
	}
	for name, c := range scalars(t) {
		t.Run(name, func(t *testing.T) {
			const hub, leaf = 0.7, 0.1
			g := NewGraph(c.encoder)
			g.Add([]Vector{{Dense: []float32{hub}}})
			part := n / 8
			for range 8 {
				x := slices.Repeat([]Vector{{Dense: []float32{leaf}}}, part)
				near := slices.Repeat([][]int32{{0}}, part)
				g.Arrive(x, near, nil, make([]float32, part))
			}
			check := func(leaves float64) {
				t.Helper()
				z := make([]float32, 1)
				g.Embed([]int32{0}, z)
				want := c.hub(float64(float32(hub)), float64(float32(leaf)), leaves)
				if off := math.Abs(float64(z[0])/want - 1); off > 1e-6 {
					t.Errorf("embedding %v of a hub with %v neighbours, want %v: off by %.1e", z[0], leaves, want, off)
				}
			}
			check(float64(n))
			g.Unlink([][2]int32{{0, int32(n / 2)}})
			check(float64(n - 1))
		})
	}
}

// TestHubsEqualRebuiltGraph: nodes whose degree goes above and below hubDegree, as edges,
// nodes and features come and go, have the bits of a graph that was given the remaining
// edges at once; and what-if embeddings change nothing.
func TestHubsEqualRebuiltGraph(t *testing.T) {
	for name, c := range scalars(t) {
		for i, options := range [][]Option{nil, {BFloat16()}, {Workers(3)}} {
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(3, uint64(i)))
				g := NewGraph(c.encoder, options...)
				var x []Vector
				vector := func() Vector { return Vector{Dense: []float32{rng.Float32()}} }
				crossed := 0
				for range 60 {
					before := g.Len() > 0 && g.Degree(0) > hubDegree
					switch k := rng.IntN(10); {
					case k < 5 || g.Len() < 300:
						arrivals, near := make([]Vector, 40), make([][]int32, 40)
						for a := range arrivals {
							arrivals[a] = vector()
							if len(x)+a > 0 {
								near[a] = []int32{0, rng.Int32N(int32(len(x) + a))}
							}
						}
						x = append(x, arrivals...)
						g.Arrive(arrivals, near, nil, make([]float32, 40))
					case k < 6:
						v := rng.Int32N(int32(len(x)))
						x[v] = vector()
						g.Replace(v, x[v])
					case k < 7:
						v := 1 + rng.Int32N(int32(len(x))-1)
						x[v] = Vector{}
						g.Remove([]int32{v})
					default:
						var edges [][2]int32
						for _, u := range g.Neighbours(0)[:min(g.Degree(0), 150)] {
							edges = append(edges, [2]int32{0, u})
						}
						g.Unlink(edges)
					}
					if g.Degree(0) > hubDegree != before {
						crossed++
					}
					z, trial := make([]float32, 1), make([]float32, 1)
					if g.Degree(0) > 0 {
						g.EmbedArrival(vector(), []int32{0, 1}, nil, trial)
						g.EmbedTrial(0, nil, []int32{g.Neighbours(0)[0]}, trial)
					}
					g.Embed([]int32{0}, z)
					if want := rebuild(g, c.encoder, x, options); math.Float32bits(z[0]) != math.Float32bits(want) {
						t.Fatalf("embedding %v of a node of degree %d, want the bits of %v", z[0], g.Degree(0), want)
					}
				}
				if crossed < 4 {
					t.Errorf("node 0 became a hub or ceased to be one %d times, want at least 4", crossed)
				}
			})
		}
	}
}

// rebuild returns the embedding of node 0 in a graph that is given the edges of g in one
// pass, in the order in which node 0 has them.
func rebuild(g *Graph, encoder Encoder, x []Vector, options []Option) float32 {
	fresh := NewGraph(encoder, options...)
	fresh.Add(x)
	fresh.LinkAll(0, g.Neighbours(0))
	for v := range int32(g.Len()) {
		for _, u := range g.Neighbours(v) {
			if u < v {
				fresh.Link(v, u)
			}
		}
	}
	z := make([]float32, 1)
	fresh.Embed([]int32{0}, z)
	return z[0]
}
