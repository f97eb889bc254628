package backtest

import (
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
)

// Known is what a system without an encoder sees of a graph: the nodes, and the neighbours and labels that have come.
type Known struct {
	X        []gnn.Vector // by node, normalised
	Near     [][]int32    // distinct neighbours, by node
	Label    []int32      // by node, or dataset.Unlabelled
	Revealed []int32      // nodes with a label, in the order in which labels came
}

// NewKnown returns what is known of nodes with these features before any edge or label.
func NewKnown(x []gnn.Vector) *Known {
	k := &Known{X: x, Near: make([][]int32, len(x)), Label: make([]int32, len(x))}
	for v := range k.Label {
		k.Label[v] = dataset.Unlabelled
	}
	return k
}

// Link adds the edges that a node names.
func (k *Known) Link(v int32, to []int32) {
	for _, u := range to {
		k.Near[v], k.Near[u] = append(k.Near[v], u), append(k.Near[u], v)
	}
}

// Reveal adds a label.
func (k *Known) Reveal(v, y int32) {
	k.Label[v] = y
	k.Revealed = append(k.Revealed, v)
}

// Shares returns the share of each class among the labels, each counted once more than it is there.
func (k *Known) Shares(classes int) []float64 {
	pi := make([]float64, classes)
	each := 1 / float64(len(k.Revealed)+classes)
	for c := range pi {
		pi[c] = each
	}
	for _, v := range k.Revealed {
		pi[k.Label[v]] += each
	}
	return pi
}
