package gnn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// TestGATByHand compares an attention layer with its formula: node 1 is a neighbour of node
// 0 twice, and node 0's two loops do not count. The second head gives all neighbours the
// same weight.
func TestGATByHand(t *testing.T) {
	x := []Vector{{Dense: []float32{1}}, {Index: []uint32{0}, Value: []float32{3}}}
	// The score of i on j in the first head is LeakyReLU(x_j - 2·x_i).
	self, other := math.Exp(-0.2), math.Exp(1)
	first := (self*1 + 2*other*3) / (self + 2*other)
	second := -(1. + 3 + 3) / 3
	layer := GATLayer{2, []float32{1, -1}, []float32{1, 0}, []float32{-2, 0}, nil}
	for _, c := range []struct{ bias, want []float32 }{
		{[]float32{0.5, 10}, []float32{float32(first + 0.5), float32(second + 10), 3.5, 7}},
		{[]float32{0.5}, []float32{float32((first+second)/2 + 0.5), 0.5}},
	} {
		layer.Bias = c.bias
		enc, err := NewGAT(1, ReLU, layer)
		if err != nil {
			t.Fatal(err)
		}
		got := enc.Encode(x, []int32{1, 0, 1, 0}, []int32{0, 0, 0, 0})
		if d := furthest(got, c.want); d > 1e-6 {
			t.Errorf("%d biases: embeddings %v, want %v", len(c.bias), got, c.want)
		}
	}
}

// identityGAT is an attention layer of one head. A score is the feature of the source if it
// is positive, and a fifth of it otherwise.
func identityGAT() GATLayer {
	return GATLayer{1, []float32{1}, []float32{1}, []float32{0}, []float32{0}}
}

// TestGATHugeScores: scores from -200 to 200, whose exponentials overflow float32, come in
// rising, falling and random order to a node with any score of its own. The embedding is
// the softmax mean computed in float64.
func TestGATHugeScores(t *testing.T) {
	enc, err := NewGAT(1, ReLU, identityGAT())
	if err != nil {
		t.Fatal(err)
	}
	scores := make([]float64, 81)
	for i := range scores {
		scores[i] = float64(5*i - 200)
	}
	feature := func(score float64) float32 { return float32(min(5*score, max(score, 0))) }
	orders := map[string]func([]float64){
		"rising":  func([]float64) {},
		"falling": slices.Reverse[[]float64],
		"random": func(s []float64) {
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		},
	}
	for name, order := range orders {
		for _, self := range []float64{-200, -1, 0, 1, 199, 200} {
			t.Run(fmt.Sprint(name, self), func(t *testing.T) {
				all := slices.Clone(scores)
				order(all)
				all = append([]float64{self}, all...)
				g := NewGraph(enc)
				var x []Vector
				var src, dst []int32
				got := make([]float32, 1)
				for j, s := range all {
					x = append(x, Vector{Dense: []float32{feature(s)}})
					g.Add(x[j:])
					if j > 0 {
						g.Link(0, int32(j))
						src, dst = append(src, 0, int32(j)), append(dst, int32(j), 0)
					}
					most := slices.Max(all[:j+1])
					sum, weight := 0.0, 0.0
					for k, s := range all[:j+1] {
						w := math.Exp(s - most)
						weight += w
						sum += w * float64(x[k].Dense[0])
					}
					want := []float32{float32(sum / weight)}
					g.Embed([]int32{0}, got)
					if d := furthest(got, want); d > tolerance {
						t.Fatalf("%d neighbours: Embed %v, want %v", j, got, want)
					}
					if plain := enc.Encode(x, src, dst)[:1]; furthest(plain, want) > tolerance {
						t.Fatalf("%d neighbours: Encode %v, want %v", j, plain, want)
					}
				}
			})
		}
	}
}

// TestGATHugeScoresAbove: with scores of several hundreds in every layer, embeddings of a
// randomly grown graph equal those of Encode.
func TestGATHugeScoresAbove(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 3))
		random := randomEncoder(rng, KindGAT, ELU, 5, 6, 4, 3).(*GAT)
		layers := slices.Clone(random.layers)
		for l := range layers {
			layers[l].AttSrc, layers[l].AttDst = slices.Clone(layers[l].AttSrc), slices.Clone(layers[l].AttDst)
			kernel.Scale(layers[l].AttSrc, 300)
			kernel.Scale(layers[l].AttDst, 300)
		}
		enc, err := NewGAT(5, ELU, layers...)
		if err != nil {
			t.Fatal(err)
		}
		largest := 0.0
		growRandomly(rng, enc, 20, func(g *Graph, h *history) {
			got := make([]float32, g.Len()*enc.Out())
			g.Embed(upTo(g.Len()), got)
			if d := furthest(got, h.encode(enc)); d > tolerance {
				t.Fatalf("seed %d, %d nodes: relative error %g", seed, g.Len(), d)
			}
			for _, a := range g.embed.below.cached {
				largest = max(largest, math.Abs(float64(a)))
			}
		})
		if largest < 200 {
			t.Errorf("seed %d: the largest score is %g, want at least 200", seed, largest)
		}
	}
}
