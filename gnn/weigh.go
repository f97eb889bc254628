package gnn

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// weighed is a neighbour in a mean, with the weight of the edge.
type weighed struct {
	node   int32
	weight float32
}

// kindLists has, for an encoder that tells kinds of edges apart, the neighbours in each mean.
// They are neighbours in the adjacency lists too, which know no kinds. Methods do nothing
// on nil, for a graph of another encoder.
type kindLists struct {
	enc   *SAGEKinds
	arena kernel.Arena[weighed]
	lists [][]kernel.List // by mean, then by node; nodes past the end have none
	// hidden is an edge that means leave out, see EmbedWithout.
	hidden [2]int32
}

func newKindLists(e Encoder) *kindLists {
	s, ok := e.(*SAGEKinds)
	if !ok {
		return nil
	}
	return &kindLists{enc: s, lists: make([][]kernel.List, s.means), hidden: noEdge}
}

var noEdge = [2]int32{-1, -1}

// of returns v's neighbours in mean k, in the order in which the edges came.
func (t *kindLists) of(k int, v int32) []weighed {
	if int(v) >= len(t.lists[k]) {
		return nil
	}
	return t.arena.View(t.lists[k][v])
}

func (t *kindLists) list(k int, v int32) *kernel.List {
	if n := int(v) + 1 - len(t.lists[k]); n > 0 {
		t.lists[k] = append(t.lists[k], make([]kernel.List, n)...)
	}
	return &t.lists[k][v]
}

// change changes u's weight in v's mean k, and reports whether u is there.
func (t *kindLists) change(k int, v, u int32, weight float32) bool {
	i := slices.IndexFunc(t.of(k, v), func(x weighed) bool { return x.node == u })
	if i < 0 {
		return false
	}
	t.arena.Remove(t.list(k, v), i)
	t.arena.Insert(t.list(k, v), i, weighed{u, weight})
	return true
}

// drop removes from v's means the neighbours that leave.
func (t *kindLists) drop(v int32, leaves func(u int32) bool) {
	if t == nil {
		return
	}
	for k := range t.lists {
		if len(t.of(k, v)) > 0 {
			t.arena.Retain(t.list(k, v), func(x weighed) bool { return !leaves(x.node) })
		}
	}
}

// Weigh says what the edge from source to target is: it counts in mean atSource of its source
// and in mean atTarget of its target, with a positive weight. Said again of the same means
// it changes the weight; of others, it is one more edge. [Graph.Unlink] and [Graph.Remove]
// remove all of them. It reports whether there is an edge. It takes time proportional to
// the smaller degree, and where it changes a weight to both.
func (g *Graph) Weigh(source, target int32, atSource, atTarget int, weight float32) bool {
	few, many := source, target
	if g.Degree(few) > g.Degree(many) {
		few, many = many, few
	}
	if g.kinds == nil || !slices.Contains(g.Neighbours(few), many) {
		return false
	}
	t, k, l := g.kinds, atSource, atTarget
	if few == target {
		k, l = l, k
	}
	again := t.change(k, few, many, weight) && t.change(l, many, few, weight)
	if !again {
		t.arena.Append(t.list(k, few), weighed{many, weight})
		t.arena.Append(t.list(l, many), weighed{few, weight})
	}
	return true
}

// weightedMean sets dst to Σ w·x(u) / Σ w over v's neighbours in a mean. The sums are as
// exact as those of hubs.
func (g *Graph) weightedMean(dst []float32, v int32, near []weighed, w *workspace, x func(u int32) []float32) {
	hidden := int32(-1)
	switch v {
	case g.kinds.hidden[0]:
		hidden = g.kinds.hidden[1]
	case g.kinds.hidden[1]:
		hidden = g.kinds.hidden[0]
	}
	total := 0.0
	for _, n := range near {
		if n.node != hidden {
			total += float64(n.weight)
		}
	}
	w.sum(dst, len(near), func(dst []float32, from, to int) {
		for _, n := range near[from:to] {
			if n.node != hidden {
				kernel.Axpy(dst, float32(float64(n.weight)/total), x(n.node))
			}
		}
	})
}

// state declares the lists of n nodes. They are copied when it is called.
func (t *kindLists) state(s *snapshot.Schema, n int) {
	if t == nil {
		return
	}
	for k := range t.lists {
		var nodes []int32
		var weights []float32
		degrees := make([]int32, n)
		if s.Saving() {
			for v := range degrees {
				for _, x := range t.of(k, int32(v)) {
					nodes, weights = append(nodes, x.node), append(weights, x.weight)
					degrees[v]++
				}
			}
		}
		prefix := fmt.Sprintf("graph.mean.%d.", k)
		degrees = snapshot.Array(s, prefix+"degrees", degrees, n)
		m := s.Len(prefix+"nodes", len(nodes), math.MaxInt)
		nodes = snapshot.Array(s, prefix+"nodes", nodes, m)
		weights = snapshot.Array(s, prefix+"weights", weights, m)
		s.Check(func() error { return t.restore(k, degrees, nodes, weights) })
	}
}

func (t *kindLists) restore(k int, degrees, nodes []int32, weights []float32) error {
	at := 0
	for v, d := range degrees {
		if d < 0 || int(d) > len(nodes)-at {
			return notAGraph("node %d has %d neighbours in mean %d, there are %d more", v, d, k, len(nodes)-at)
		}
		for range d {
			u, w := nodes[at], weights[at]
			if uint(u) >= uint(len(degrees)) || !(w > 0) || math.IsInf(float64(w), 1) {
				return notAGraph("node %d has the neighbour %d of weight %v in mean %d", v, u, w, k)
			}
			t.arena.Append(t.list(k, int32(v)), weighed{u, w})
			at++
		}
	}
	if at < len(nodes) {
		return notAGraph("mean %d has %d neighbours of no node", k, len(nodes)-at)
	}
	return nil
}
