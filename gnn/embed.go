package gnn

import (
	"fmt"
	"slices"
)

// blockRows is the number of nodes whose inputs to a layer are gathered before
// they are multiplied: enough that the weights are read from near memory, few
// enough that the inputs stay there too.
const blockRows = 64

// embedder is what Embed works with, kept from call to call.
type embedder struct {
	order []int32 // the nodes whose states are needed, see plan
	upto  []int   // upto[l] is how many of order are needed after layer l
	seen  marks
	slot  []int32      // per seen node, its place in order
	state [2][]float32 // states after the layer before and after this one, by slot
	both  []float32    // blockRows rows: the mean of the neighbours' states, the own state
}

// Embed sets dst, len(nodes)×Out row-major, to the embeddings of the given
// nodes in the graph as it stands. It panics when dst has another length or a
// node is not there.
//
// First-layer states come from the sums wherever they are needed. States of
// the layers between the first and the last are computed once a call for every
// node they are needed of: with three layers, the given nodes and their
// neighbours.
func (g *Graph) Embed(nodes []int32, dst []float32) {
	e, depth, out := &g.embed, g.enc.Depth(), g.enc.Out()
	if len(dst) != len(nodes)*out {
		panic(fmt.Sprintf("gnn: room for %d numbers, want %d nodes × %d", len(dst), len(nodes), out))
	}
	if depth == 1 {
		for i, v := range nodes {
			self, sum, inverse := g.inputs(v)
			combine(dst[i*out:(i+1)*out], self, sum, inverse)
		}
		return
	}
	if depth > 2 {
		g.plan(nodes)
	}
	for l := 2; l < depth; l++ {
		needed, width := e.order[:e.upto[l]], g.enc.width[l]
		e.state[1] = slices.Grow(e.state[1][:0], len(needed)*width)[:len(needed)*width]
		g.layer(l, needed, e.state[1])
		rectify(e.state[1], e.state[1])
		e.state[0], e.state[1] = e.state[1], e.state[0]
	}
	g.layer(depth, nodes, dst)
}

// plan lists the nodes of which states are needed: first the given ones, then
// their neighbours, then the neighbours of those, so that what is needed after
// a layer is a prefix of the list, longer the lower the layer.
func (g *Graph) plan(nodes []int32) {
	e, depth := &g.embed, g.enc.Depth()
	e.order = e.order[:0]
	e.upto = slices.Grow(e.upto[:0], depth)[:depth]
	e.seen.reset(g.n)
	if len(e.slot) < g.n {
		e.slot = append(e.slot, make([]int32, g.n-len(e.slot))...)
	}
	need := func(v int32) {
		g.node(v)
		if e.seen.add(v) {
			e.slot[v] = int32(len(e.order))
			e.order = append(e.order, v)
		}
	}
	for _, v := range nodes {
		need(v)
	}
	expanded := 0
	for l := depth - 1; l >= 2; l-- {
		for end := len(e.order); expanded < end; expanded++ {
			for _, u := range g.Neighbours(e.order[expanded]) {
				need(u)
			}
		}
		e.upto[l] = len(e.order)
	}
}

// layer sets dst to the given nodes' outputs of layer l, which counts from 1
// and is at least 2, before its activation. The states after layer l-1 are
// computed from the sums if that is the first, and in e.state[0] otherwise.
func (g *Graph) layer(l int, nodes []int32, dst []float32) {
	e, in, out := &g.embed, g.enc.width[l-1], g.enc.width[l]
	e.both = slices.Grow(e.both[:0], blockRows*2*in)[:blockRows*2*in]
	for len(nodes) > 0 {
		block := nodes[:min(blockRows, len(nodes))]
		for i, v := range block {
			row := e.both[i*2*in : (i+1)*2*in]
			mean, own := row[:in], row[in:]
			clear(row)
			neighbours := g.Neighbours(v)
			if l == 2 {
				self, sum, inverse := g.inputs(v)
				addRectified(own, self, sum, inverse)
				for _, u := range neighbours {
					self, sum, inverse := g.inputs(u)
					addRectified(mean, self, sum, inverse)
				}
			} else {
				copy(own, e.state[0][int(e.slot[v])*in:])
				for _, u := range neighbours {
					add(mean, e.state[0][int(e.slot[u])*in:])
				}
			}
			scale(mean, inverseDegree(len(neighbours)))
		}
		for i := range block {
			z := dst[i*out : (i+1)*out]
			copy(z, g.enc.layers[l-1].Bias)
			product(z, e.both[i*2*in:(i+1)*2*in], g.enc.stacked[l-1])
		}
		nodes, dst = nodes[len(block):], dst[len(block)*out:]
	}
}
