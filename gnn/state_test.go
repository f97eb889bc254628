package gnn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// bytesIn reads n bytes of a stream, or all that are left if n is negative.
func bytesIn(t testing.TB, s io.Reader, n int) []byte {
	t.Helper()
	if n < 0 {
		b, err := io.ReadAll(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := make([]byte, n)
	n, err := io.ReadFull(s, b)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	return b[:n]
}

// streamOf returns the stream of a file with the given tensors.
func streamOf(t testing.TB, parts []safetensors.Part) *safetensors.Stream {
	t.Helper()
	s, err := safetensors.NewStream(nil, parts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// restore returns the graph restored from a file.
func restore(b []byte, enc Encoder, options ...Option) (*Graph, error) {
	file, err := safetensors.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	g, s := NewGraph(enc, options...), snapshot.Restoring(file)
	g.State(s)
	return g, s.Finish()
}

// change makes a random change of a graph, or embeds nodes.
func change(rng *rand.Rand, g *Graph) {
	n := g.Len()
	if n == 0 || rng.IntN(4) == 0 {
		x := make([]Vector, 1+rng.IntN(80))
		for i := range x {
			x[i] = randomVector(rng, g.enc.In(), 1)
		}
		if rng.IntN(2) == 0 {
			g.Add(x)
			return
		}
		near := make([][]int32, len(x))
		for i := range near {
			for range rng.IntN(4) {
				near[i] = append(near[i], int32(rng.IntN(n+len(x))))
			}
		}
		g.Arrive(x, near, nil, make([]float32, len(x)*g.enc.Out()))
		return
	}
	some := make([]int32, 1+rng.IntN(6))
	for i := range some {
		some[i] = int32(rng.IntN(n) * rng.IntN(2)) // node 0 becomes a hub
	}
	switch v := int32(rng.IntN(n)); rng.IntN(6) {
	case 0:
		g.Link(v, some[0])
	case 1:
		g.Replace(v, randomVector(rng, g.enc.In(), 1))
	case 2:
		g.Embed(some, make([]float32, len(some)*g.enc.Out()))
	case 3:
		g.Remove(some[:rng.IntN(2)+len(some)/6])
	case 4:
		g.Unlink([][2]int32{{v, some[0]}, {some[0], some[len(some)-1]}})
	default:
		g.LinkAll(v, some)
	}
}

// TestState: a graph is saved while it changes. The restored graph is saved as the same
// bytes, and after the same changes both graphs have the same bits.
func TestState(t *testing.T) {
	for name, options := range map[string][]Option{"float32": nil, "bfloat16": {BFloat16()}} {
		ofEachKind(t, func(t *testing.T, random func(*rand.Rand, ...int) Encoder) {
			for seed := range uint64(12) {
				t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, 11))
					enc := random(rng, 5, 7, 4)
					g := NewGraph(enc, options...)
					for range rng.IntN(150) {
						change(rng, g)
					}
					for range 2 { // the second time reuses the memory of the first
						frozen := snapshot.Saving()
						g.State(frozen)
						s := streamOf(t, frozen.Parts())
						since := rand.New(rand.NewPCG(seed, 12))
						var b []byte
						changes := 0
						for int64(len(b)) < s.Len() {
							b = append(b, bytesIn(t, s, 1+rng.IntN(int(s.Len())/8))...)
							change(since, g)
							changes++
						}
						frozen.Release()

						restored, err := restore(b, enc, options...)
						if err != nil {
							t.Fatal(err)
						}
						again := snapshot.Saving()
						restored.State(again)
						if got := bytesIn(t, streamOf(t, again.Parts()), -1); !bytes.Equal(got, b) {
							t.Fatal("the restored graph is saved as other bytes")
						}
						after := rand.New(rand.NewPCG(seed, 12))
						for range changes {
							change(after, restored)
						}
						if !slices.Equal(embedAll(restored), embedAll(g)) {
							t.Fatal("embeddings of the saved and the restored graph differ")
						}
					}
				})
			}
		})
	}
}
