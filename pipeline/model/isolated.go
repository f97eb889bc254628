package model

import (
	"math/rand/v2"
	"slices"
)

// lent is the number of training nodes that an isolated one is lent as
// neighbours. Between 3 and 8 it hardly matters.
const lent = 5

// Complete returns the edges to train on: d's, and edges into the training
// nodes that have none, if the edges between training nodes join equal classes
// more often than pairs drawn at random would. Such a node becomes its own
// neighbour, along with up to five others of its class, drawn from seed.
//
// A few training nodes drawn from a graph lose nearly all of their neighbours,
// so the neighbours' weights see hardly anything but zero and learn nothing,
// while every node of the stream has neighbours. Under homophily those look
// like the node itself and like others of its class; without it that would be
// misleading, and nothing is added. Only training nodes and labels are looked
// at.
func (d Data) Complete(seed uint64) (src, dst []int32, completed int) {
	src, dst = slices.Clone(d.Src), slices.Clone(d.Dst)
	if !d.homophilous() {
		return src, dst, 0
	}
	isolated := make([]bool, len(d.X))
	for i := range isolated {
		isolated[i] = true
	}
	for _, v := range d.Dst {
		isolated[v] = false
	}
	class := make([][]int32, len(d.Classes))
	for v, y := range d.Labels {
		class[y] = append(class[y], int32(v))
	}
	rng := rand.New(rand.NewPCG(seed, 0x6c656e74))
	for v, yes := range isolated {
		if !yes {
			continue
		}
		completed++
		src, dst = append(src, int32(v)), append(dst, int32(v))
		others := slices.DeleteFunc(slices.Clone(class[d.Labels[v]]), func(u int32) bool { return int(u) == v })
		for n := range min(lent, len(others)) {
			i := n + rng.IntN(len(others)-n)
			others[n], others[i] = others[i], others[n]
			src, dst = append(src, others[n]), append(dst, int32(v))
		}
	}
	return src, dst, completed
}

// homophilous reports whether edges join equal classes more often than chance.
func (d Data) homophilous() bool {
	same := 0
	for e := range d.Src {
		if d.Labels[d.Src[e]] == d.Labels[d.Dst[e]] {
			same++
		}
	}
	count := make([]int, len(d.Classes))
	for _, y := range d.Labels {
		count[y]++
	}
	chance := 0.0
	for _, n := range count {
		share := float64(n) / float64(len(d.Labels))
		chance += float64(share * share)
	}
	return float64(same) > chance*float64(len(d.Src))
}
