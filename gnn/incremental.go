package gnn

import "github.com/gvbll/gvbll/gnn/kernel"

// incremental splits an encoder into the operations that [Graph] needs to embed
// single nodes. Layers count from 0.
//
// Layer 0 reads the row that the graph keeps of each node: the self term, which
// depends on the node's features alone, then the aggregate of its neighbours'
// self terms. A layer above gathers the states of a node and its neighbours from
// the layer below. A state is computed once for each call of Embed. Where
// recomputing a state from its row at each use is faster than storing and
// reloading it, layers are fused: the lowest layer that is computed on its own is
// the base layer.
type incremental interface {
	// widths returns Depth()+1 numbers: the features' dimension, then each
	// layer's output.
	widths() []int
	// rowLayout returns the lengths of a row's two parts. aggregate is 0 if no
	// aggregate can be maintained: then resetAggregate, addMessage,
	// addToHub, messageColumns, prefetchMessages and exchangeMessages are not called.
	rowLayout() (self, aggregate int)
	// projection returns the matrix that multiplies the features. The product
	// is the beginning of the self term.
	projection() projection
	// finishSelf completes a self term that begins with the product and
	// continues with zeros.
	finishSelf(self []float32)
	// resetAggregate sets row's aggregate to that of a node without
	// neighbours.
	resetAggregate(row []float32)
	// addMessage adds a neighbour's message to row's aggregate. Of the
	// neighbour's row it reads the self term alone.
	addMessage(row, neighbour []float32)
	// addToHub is addMessage for an aggregate in float64, of the row that has this
	// self term.
	addToHub(aggregate []float64, self, neighbour []float32)
	// messageColumns is the number of columns of a message that can be
	// exchanged independently of each other: workers share them.
	messageColumns() int
	// prefetchMessages loads the columns of the neighbours that exchangeMessages
	// reads and writes into the cache.
	prefetchMessages(rows *kernel.Table[float32], neighbours []int32, from, to int)
	// exchangeMessages calls addMessage for v and each of the neighbours in
	// turn, in both directions, in the columns from ≤ c < to. The neighbours
	// differ from each other and from v.
	exchangeMessages(rows *kernel.Table[float32], v int32, neighbours []int32, from, to int)
	// baseLayer is the lowest layer whose inputs are computed on their own.
	baseLayer() int
	// baseInput sets dst to the input of linearMaps(baseLayer()) for node v; or,
	// if there are no such maps, to v's output of layer 0 before the activation.
	// No row that it reads is stale.
	baseInput(dst []float32, g *Graph, v int32, w *workspace)
	// precompute sets s.cached to the values, by state, that gather(l, …) would
	// otherwise compute once for every neighbour. Here and in gather, l is above
	// the base layer.
	precompute(l int, s *states)
	// gather sets dst to the input of linearMaps(l) for the node whose state
	// is in slot at[0] of s and whose neighbours' states are in slots at[1:].
	gather(l int, dst []float32, s *states, at []int32, w *workspace)
	// linearMaps returns the maps that follow in layer l, with a ReLU between
	// them.
	linearMaps(l int) []linear
}

// states are a layer's outputs for some nodes, a slot for each, from which the
// layer above gathers.
type states struct {
	width  int
	h      []float32 // the states after the activation, slots × width
	degree []int32   // by slot: the node's number of neighbours
	cached []float32 // what precompute stored
}
