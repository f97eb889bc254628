package model

import (
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/gnn"
)

// lentNeighbours is the number of neighbours that an isolated training node gets. Values
// from 3 to 8 make hardly a difference.
const lentNeighbours = 5

// Complete returns the edges to train an encoder of a kind on: those of d and, for
// graphsage on a homophilous graph, edges into isolated nodes. An isolated node among the
// given ones becomes its own neighbour, and gets up to lentNeighbours others of its class
// among the given nodes, drawn from seed. completed is the number of such nodes.
//
// A few training nodes drawn from a graph lose nearly all of their neighbours. Where a
// layer has a weight for neighbours alone, that weight then sees zeros and learns nothing,
// although every node of the stream has neighbours. Under homophily, real neighbours
// resemble the node and others of its class, so these are a substitute; without homophily
// they would mislead. Layers that have one weight for a node and its neighbours learn it
// from the node itself, and substitutes only blur what it sees.
//
// Edges of several kinds are not completed: a substitute has no kind.
//
// Only the given nodes and their labels are used, which excludes validation nodes.
func (d Data) Complete(kind gnn.Kind, nodes []int32, seed uint64) (src, dst []int32, completed int) {
	src, dst = slices.Clone(d.Src), slices.Clone(d.Dst)
	if kind != gnn.KindSAGE || d.Kinds != nil || !d.homophilous(nodes) {
		return src, dst, 0
	}
	isolated := make([]bool, len(d.X))
	class := make([][]int32, len(d.Classes))
	for _, v := range nodes {
		isolated[v] = true
		class[d.Labels[v]] = append(class[d.Labels[v]], v)
	}
	for _, v := range d.Dst {
		isolated[v] = false
	}
	rng := rand.New(rand.NewPCG(seed, 0x6c656e74))
	for _, v := range nodes {
		if !isolated[v] {
			continue
		}
		completed++
		src, dst = append(src, v), append(dst, v)
		others := slices.DeleteFunc(slices.Clone(class[d.Labels[v]]), func(u int32) bool { return u == v })
		for n := range min(lentNeighbours, len(others)) {
			i := n + rng.IntN(len(others)-n)
			others[n], others[i] = others[i], others[n]
			src, dst = append(src, others[n]), append(dst, v)
		}
	}
	return src, dst, completed
}

// homophilous reports whether edges between the nodes join equal classes more often than
// pairs drawn at random do.
func (d Data) homophilous(nodes []int32) bool {
	given := make([]bool, len(d.X))
	count := make([]int, len(d.Classes))
	for _, v := range nodes {
		given[v] = true
		count[d.Labels[v]]++
	}
	edges, same := 0, 0
	for e, u := range d.Src {
		if v := d.Dst[e]; given[u] && given[v] {
			edges++
			if d.Labels[u] == d.Labels[v] {
				same++
			}
		}
	}
	chance := 0.0
	for _, n := range count {
		share := float64(n) / float64(len(nodes))
		chance += float64(share * share)
	}
	return float64(same) > chance*float64(edges)
}
