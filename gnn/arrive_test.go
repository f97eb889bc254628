package gnn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
)

// TestArriveEqualsAddLinkEmbed: Arrive gives the edges and bits of Add, LinkAll and Embed.
// Arrivals name earlier and later nodes of the window, themselves, nodes twice, hubs, and
// nodes whose features were replaced.
func TestArriveEqualsAddLinkEmbed(t *testing.T) {
	for _, options := range [][]Option{nil, {Workers(2)}, {BFloat16()}} {
		ofEachKind(t, func(t *testing.T, random func(*rand.Rand, ...int) Encoder) {
			for _, width := range [][]int{{6, 5}, {6, 8, 7}, {6, 8, 7, 5}} {
				for seed := range uint64(2) {
					rng := rand.New(rand.NewPCG(seed, 31))
					enc := random(rng, width...)
					arriveEqualsAddLinkEmbed(t, rng, NewGraph(enc, options...), NewGraph(enc, options...), enc)
				}
			}
		})
	}
}

// arriveEqualsAddLinkEmbed compares the two graphs window by window: quick calls Arrive,
// plain the other three.
func arriveEqualsAddLinkEmbed(t *testing.T, rng *rand.Rand, quick, plain *Graph, enc Encoder) {
	t.Helper()
	for window := range 12 {
		n := rng.IntN(200)
		x, near := make([]Vector, n), make([][]int32, n)
		first := int32(plain.Len())
		for i := range x {
			if x[i] = randomVector(rng, enc.In(), 0.5); rng.IntN(4) == 0 {
				x[i] = sparse(x[i])
			}
			for range rng.IntN(5) {
				u := rng.IntN(int(first) + 1)
				switch rng.IntN(8) {
				case 0:
					u = int(first) + rng.IntN(n) // in the window
				case 1:
					u = rng.IntN(3) // a hub
				}
				if u < int(first)+n {
					near[i] = append(near[i], int32(u))
				}
			}
		}
		var wantLinked, gotLinked []string
		if got := plain.Add(x); got != first {
			t.Fatalf("Add = %d, want first node %d", got, first)
		}
		for i := range x {
			v := first + int32(i)
			before := len(plain.Neighbours(v))
			plain.LinkAll(v, near[i])
			wantLinked = append(wantLinked, fmt.Sprint(i, plain.Neighbours(v)[before:]))
		}
		want, got := make([]float32, n*enc.Out()), make([]float32, n*enc.Out())
		plain.Embed(upTo(int(first) + n)[first:], want)
		if v := quick.Arrive(x, near, func(i int, linked []int32) { gotLinked = append(gotLinked, fmt.Sprint(i, linked)) }, got); v != first {
			t.Fatalf("Arrive = %d, want first node %d", v, first)
		}
		switch {
		case !slices.Equal(gotLinked, wantLinked):
			t.Fatalf("window %d: new neighbours\n%v\nwant\n%v", window, gotLinked, wantLinked)
		case !slices.Equal(bitsOf(got), bitsOf(want)):
			t.Fatalf("window %d of %d arrivals: embeddings of the arrivals differ", window, n)
		case quick.Edges() != plain.Edges() || !slices.Equal(embedAll(quick), embedAll(plain)):
			t.Fatalf("window %d of %d arrivals: edges or embeddings of the graph differ", window, n)
		}
		if rng.IntN(3) == 0 && plain.Len() > 0 { // so that neighbours are stale in the next window
			v, fresh := int32(rng.IntN(plain.Len())), randomVector(rng, enc.In(), 0.5)
			quick.Replace(v, fresh)
			plain.Replace(v, fresh)
		}
	}
}

// TestArriveEmbedsEarly: an arrival is embedded at once, unless a later arrival of the
// window changes it or one of its neighbours, or an earlier one names it.
func TestArriveEmbedsEarly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	g := NewGraph(randomSAGE(rng, 4, 5, 3))
	x, near := make([]Vector, 6), make([][]int32, 6)
	for i := range x {
		x[i] = randomVector(rng, 4, 1)
	}
	g.Add(x)
	near[0], near[1], near[2] = []int32{0, 1}, []int32{2}, []int32{1, 3} // a later arrival changes 1
	near[3], near[4], near[5] = []int32{4}, []int32{11}, nil             // 11 is a later arrival
	g.Arrive(x, near, nil, make([]float32, 6*3))
	if want := []int32{6, 10, 11}; !slices.Equal(g.window.deferred, want) {
		t.Errorf("deferred arrivals %v, want %v", g.window.deferred, want)
	}
}

// TestArrivePanics: lists, destinations and nodes that do not fit panic.
func TestArrivePanics(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	g := NewGraph(randomSAGE(rng, 4, 5, 3))
	x := []Vector{randomVector(rng, 4, 1)}
	for name, arrive := range map[string]func(){
		"neighbours of none": func() { g.Arrive(x, nil, nil, make([]float32, 3)) },
		"room for less":      func() { g.Arrive(x, [][]int32{nil}, nil, make([]float32, 2)) },
		"no such node":       func() { g.Arrive(x, [][]int32{{7}}, nil, make([]float32, 3)) },
	} {
		kerneltest.WantPanic(t, name, arrive)
	}
}
