package dataset

import (
	"fmt"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// MotifsConfig describes generated graphs to classify: each is a random tree with one of four
// motifs, a ring, a clique, a star or a grid, whose kind is its class.
type MotifsConfig struct {
	Graphs int
	Drift  float64 // by which share of its size a motif has grown at the end, from the end of the training part on
	Seed   uint64
}

// motifTypes is the number of types of nodes, which are features: one of them is more frequent in
// each class, and which one changes with the drift.
const motifTypes = 8

var motifs = []string{"ring", "clique", "star", "grid"}

// Motifs returns generated graphs in order of arrival, the first fifth for training.
func Motifs(c MotifsConfig) (*Dataset, error) {
	if c.Graphs < 20 || !(c.Drift >= 0) {
		return nil, fmt.Errorf("%d graphs and drift %v: give at least 20, and no negative drift", c.Graphs, c.Drift)
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x6d6f7469667321))
	d := &Dataset{
		Name: "motifs", Dim: motifTypes, Classes: motifs, Features: make([]gnn.Vector, c.Graphs),
		Graphs: gnn.NewGraphs(motifTypes),
	}
	train := c.Graphs / 5
	ids, parts := make([]string, c.Graphs), make([]Part, c.Graphs)
	for i := range c.Graphs {
		class := rng.IntN(len(motifs))
		age := float64(max(0, i-train)) / float64(c.Graphs-train) // of the stream, from 0 to 1
		grown := 1 + float64(c.Drift*age)
		ends := motif(class, grown)
		nodes := 1 + int(lastOf(ends))
		for range 8 + rng.IntN(10) { // a tree that grows from the motif
			ends = append(ends, uint32(rng.IntN(nodes)), uint32(nodes))
			nodes++
		}
		x := make([]gnn.Vector, nodes)
		for v := range x {
			kind := rng.IntN(motifTypes)
			if rng.Float64() < 0.15 {
				kind = (class + int(float64(4*c.Drift*age))) % motifTypes
			}
			x[v].Dense = make([]float32, motifTypes)
			x[v].Dense[kind] = 1
		}
		d.Graphs.Add(x, ends)
		d.Labels, d.Time = append(d.Labels, int32(class)), append(d.Time, float64(i))
		ids[i], parts[i] = fmt.Sprintf("graph-%d", i), InTest
		if i < train {
			parts[i] = InTrain
		}
	}
	d.IDs = idsOf(ids)
	giveSplit(d, parts, "the first fifth")
	return d, nil
}

func lastOf(ends []uint32) (last uint32) {
	for _, v := range ends {
		last = max(last, v)
	}
	return last
}

// motif returns the edges of a motif that has grown to so many times its size.
func motif(class int, grown float64) (ends []uint32) {
	size := func(n float64) uint32 { return uint32(float64(n*grown) + 0.5) }
	edge := func(u, v uint32) { ends = append(ends, u, v) }
	switch motifs[class] {
	case "ring":
		for i, n := uint32(0), size(7); i < n; i++ {
			edge(i, (i+1)%n)
		}
	case "clique":
		for i := range size(4) {
			for j := range i {
				edge(j, i)
			}
		}
	case "star":
		for i := range size(6) {
			edge(0, i+1)
		}
	case "grid":
		for i := range size(3) {
			for j := range uint32(3) {
				if v := 3*i + j; j < 2 {
					edge(v, v+1)
				}
				if i > 0 {
					edge(3*i+j-3, 3*i+j)
				}
			}
		}
	}
	return ends
}
