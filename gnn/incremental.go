package gnn

import "github.com/gvbll/gvbll/gnn/kernel"

// incremental is an encoder taken apart for [Graph], which embeds nodes without
// encoding the whole graph. Layers count from 0.
//
// Layer 0 works on what the graph keeps of each node, its row. The first part
// of a row, own, is what the layer makes of the node's features alone; the
// rest, heard, is what it makes of the neighbours' own parts, one after the
// other as their edges came. A layer above gathers from the states that the
// layer below left; those are computed once a call for each node that needs
// them. Or it makes them on the way from the rows, where that is quicker than
// to write them down and read them again: such layers are below the base.
type incremental interface {
	// dims returns depth+1 widths: the features', then each layer's output.
	widths() []int
	// keeps returns the lengths of a row's two parts. heard is 0 when nothing
	// of the neighbours can be kept up: then start, hear, columns,
	// approach and exchange are not called.
	rowLayout() (self, aggregate int)
	// bottom returns the matrix by which features are multiplied, In×out
	// row-major. The product is the beginning of own.
	projection() projection
	// settle makes own of the product.
	finishSelf(self []float32)
	// start sets row's heard part to that of a node without neighbours.
	resetAggregate(row []float32)
	// hear adds a neighbour, of whose row only the own part is read, to row's
	// heard part.
	addMessage(row, neighbour []float32)
	// columns is in how many columns an exchange can be cut, of which each can be
	// exchanged by itself.
	messageColumns() int
	// approach has what exchange will read of the neighbours brought nearer. It
	// changes nothing but time.
	prefetchMessages(rows *kernel.Table[float32], neighbours []int32, from, to int)
	// exchange lets row v hear the rows of the neighbours in turn, which differ
	// from each other and from v, and each of them hear v, in some of the columns.
	exchangeMessages(rows *kernel.Table[float32], v int32, neighbours []int32, from, to int)
	// base is the lowest layer whose inputs are made and multiplied as such.
	baseLayer() int
	// first sets dst to what dense(base) takes of node v, or to v's output of
	// layer 0 if that is empty. No row that it reads is of a stale node.
	baseInput(dst []float32, g *Graph, v int32, w *workspace)
	// prepare notes of the states, in s.cached, what gather(l, …) wants to know
	// of each more than once. l is above the base, here and in gather.
	precompute(l int, s *states)
	// gather sets dst to what dense(l) takes of the node whose state stands in
	// slot at[0] of s and whose neighbours' states stand in slots at[1:].
	gather(l int, dst []float32, s *states, at []int32, w *workspace)
	// dense returns what follows in layer l: linear maps with a ReLU between.
	linearMaps(l int) []linear
}

// states are what a layer left of some nodes, one slot a node, for the layer
// above to gather from.
type states struct {
	width  int
	h      []float32 // the states, after the activation: width numbers a slot
	degree []int32   // how many neighbours the nodes have
	cached []float32 // what prepare notes
}
