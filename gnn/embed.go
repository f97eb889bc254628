package gnn

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// blockRows is the number of nodes whose inputs to a layer are gathered before
// they are multiplied: enough that the weights are read from near memory, few
// enough that the inputs stay there too.
const blockRows = 64

// embedder is what Embed works with, kept from call to call.
type embedder struct {
	order  []int32 // the nodes whose states are needed, see plan
	prefix []int   // prefix[l] is how many of order are needed after layer l
	below  states  // after the layer before
	next   []float32
}

// workspace is what a worker works with, kept from call to call.
type workspace struct {
	dense []float32    // features to multiply
	block [2][]float32 // inputs and outputs of a layer's linear maps
	at    []int32      // slots to gather from
	scale []float32    // see inverseDegrees
	share []float32    // room for the weights of what is gathered

	// What a graph with rows of bfloat16 makes of them:
	row, other []float32
	rows       []float32
	half       []uint16
}

// Embed sets dst, len(nodes)×Out row-major, to the embeddings of the given
// nodes in the graph as it stands. It panics when dst has another length or a
// node is not there.
//
// States of a layer between the encoder's base and its last are computed once
// a call for every node they are needed of.
func (g *Graph) Embed(nodes []int32, dst []float32) {
	if out := g.enc.Out(); len(dst) != len(nodes)*out {
		panic(fmt.Sprintf("gnn: room for %d numbers, want %d nodes × %d", len(dst), len(nodes), out))
	}
	for _, v := range nodes {
		g.node(v)
	}
	e, base, top := &g.embed, g.enc.baseLayer(), g.enc.Depth()-1
	g.plan(nodes, base)
	if base < top {
		g.refresh(e.order[:e.prefix[base]])
	} else {
		g.refresh(nodes)
	}
	for l := base; l < top; l++ {
		needed, width := e.order[:e.prefix[l]], g.enc.widths()[l+1]
		e.next = kernel.Resize(e.next, len(needed)*width)
		g.layer(l, needed, e.next)
		e.below.h, e.next = e.next, e.below.h
		e.below.width = width
		e.below.degree = e.below.degree[:len(needed)]
		g.enc.precompute(l+1, &e.below)
	}
	g.layer(top, nodes, dst)
}

// plan lists the nodes of which states are needed: first the given ones, then
// their neighbours, then the neighbours of those, so that what is needed after
// a layer is a prefix of the list, longer the lower the layer. base is the
// lowest layer to plan for.
func (g *Graph) plan(nodes []int32, base int) {
	e, top := &g.embed, g.enc.Depth()-1
	e.order, e.below.degree = e.order[:0], e.below.degree[:0]
	if base == top {
		return
	}
	e.prefix = kernel.Resize(e.prefix, top)
	g.clearMarks()
	need := func(v int32) {
		if n := g.node(v); g.mark(n) {
			n.slot = int32(len(e.order))
			e.order = append(e.order, v)
			e.below.degree = append(e.below.degree, n.adj.len)
		}
	}
	for _, v := range nodes {
		need(v)
	}
	expanded := 0
	for l := top - 1; l >= base; l-- {
		for end := len(e.order); expanded < end; expanded++ {
			for _, u := range g.Neighbours(e.order[expanded]) {
				need(u)
			}
		}
		e.prefix[l] = len(e.order)
	}
}

// refresh has the rows that the base layer reads for the given nodes be as they
// should be: their own, and if there are layers below the base those of their
// neighbours.
func (g *Graph) refresh(nodes []int32) {
	if g.staleCount == 0 {
		return
	}
	for _, v := range nodes {
		g.freshRow(v)
		if g.enc.baseLayer() > 0 {
			for _, u := range g.Neighbours(v) {
				g.freshRow(u)
			}
		}
	}
}

// layer sets dst to the given nodes' outputs of layer l, after the activation
// if one follows. The states after the layer below stand in g.embed.below.
func (g *Graph) layer(l int, nodes []int32, dst []float32) {
	if g.serial(len(nodes)) {
		g.layerRows(&g.work[0], l, nodes, dst)
		return
	}
	out := g.enc.widths()[l+1]
	g.parallel(len(nodes), chunkRows, func(w *workspace, from, to int) { g.layerRows(w, l, nodes[from:to], dst[from*out:to*out]) })
}

// layerRows is layer for one worker.
func (g *Graph) layerRows(w *workspace, l int, nodes []int32, dst []float32) {
	out, dense := g.enc.widths()[l+1], g.enc.linearMaps(l)
	last := l+1 == g.enc.Depth()
	in := out // without linear maps to follow, what is gathered is the output
	if len(dense) > 0 {
		in = dense[0].in
	}
	for len(nodes) > 0 {
		n := min(blockRows, len(nodes))
		z := dst[:n*out]
		x := z
		if len(dense) > 0 {
			w.block[0] = kernel.Resize(w.block[0], n*in)
			x = w.block[0]
		}
		for i, v := range nodes[:n] {
			row := x[i*in : (i+1)*in]
			if l == g.enc.baseLayer() {
				g.enc.baseInput(row, g, v, w)
			} else {
				g.enc.gather(l, row, &g.embed.below, g.slots(v, w), w)
			}
		}
		w.multiply(dense, z, x)
		if !last {
			g.enc.Activation().apply(z)
		}
		nodes, dst = nodes[n:], dst[n*out:]
	}
}

// multiply sets the rows of z to what the linear maps, a ReLU after each but the
// last, make of as many rows of x; without maps x is z.
func (w *workspace) multiply(dense []linear, z, x []float32) {
	for k := range dense {
		if k > 0 {
			kernel.Rectify(x, x)
		}
		y := z
		if k+1 < len(dense) {
			w.block[1] = kernel.Resize(w.block[1], len(x)/dense[k].in*dense[k].out)
			y = w.block[1]
		}
		dense[k].apply(y, x)
		w.block[0], w.block[1], x = w.block[1], w.block[0], y
	}
}

// slots lists v's place in order, then its neighbours'. The slice holds until
// w's next call.
func (g *Graph) slots(v int32, w *workspace) []int32 {
	w.at = append(w.at[:0], g.node(v).slot)
	for _, u := range g.Neighbours(v) {
		w.at = append(w.at, g.nodes.At(u).slot)
	}
	return w.at
}

// rectified sets dst to the sum of max(own + sum/degree, 0) over the nodes,
// with own and sum the parts of their rows that begin there.
func (g *Graph) rectified(dst []float32, nodes []int32, self, sum int, w *workspace) {
	scale := g.inverseDegrees(nodes, w)
	if g.rows.whole != nil {
		kernel.GatherRectified(dst, g.rows.whole, nodes, scale, self, sum)
		return
	}
	clear(dst)
	for i, v := range nodes {
		row := g.rows.row(v, &w.row)
		kernel.AddRectified(dst, row[self:], row[sum:], scale[i])
	}
}

// inverseDegrees returns, for each of the nodes, the factor that makes the sum
// over its neighbours their mean. The slice holds until w's next call.
func (g *Graph) inverseDegrees(nodes []int32, w *workspace) []float32 {
	w.scale = kernel.Resize(w.scale, len(nodes))
	for i, v := range nodes {
		w.scale[i] = inverseDegree(int(g.nodes.At(v).adj.len))
	}
	return w.scale
}
