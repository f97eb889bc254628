package gnn

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// Embed sets dst, len(nodes)×Out row-major, to the embeddings of the given nodes
// in the graph as it is. It panics when dst has another length or a node does
// not exist.
//
// States between the encoder's base layer and its last are computed once a call
// for every node whose state is needed.
func (g *Graph) Embed(nodes []int32, dst []float32) {
	if out := g.enc.Out(); len(dst) != len(nodes)*out {
		panic(fmt.Sprintf("gnn: room for %d numbers, want %d nodes × %d", len(dst), len(nodes), out))
	}
	for _, v := range nodes {
		g.links.node(v)
	}
	e, base, top := &g.embed, g.enc.baseLayer(), g.enc.Depth()-1
	e.plan(g, nodes, base)
	if base < top {
		e.refresh(g, e.order[:e.prefix[base]])
	} else {
		e.refresh(g, nodes)
	}
	for l := base; l < top; l++ {
		needed, width := e.order[:e.prefix[l]], g.enc.widths()[l+1]
		e.next = kernel.Resize(e.next, len(needed)*width)
		e.layer(g, l, needed, e.next)
		e.below.h, e.next = e.next, e.below.h
		e.below.width = width
		e.below.degree = e.below.degree[:len(needed)]
		g.enc.precompute(l+1, &e.below)
	}
	e.layer(g, top, nodes, dst)
}

// blockRows is the number of nodes whose inputs to a layer are gathered before
// they are multiplied: enough that the weights are read from cache, few enough
// that the inputs stay in cache too.
const blockRows = 64

// embedder is the storage of Embed, reused from call to call.
type embedder struct {
	// order lists the nodes whose states are needed: after layer l the first
	// prefix[l]. prefix falls as l rises. See plan.
	order  []int32
	prefix []int
	below  states    // of the layer below the one being computed
	next   []float32 // states of the one being computed
}

// workspace is a worker's storage, reused from call to call.
type workspace struct {
	dense []float32    // dense features to multiply, one row after the other
	block [2][]float32 // inputs and outputs of a layer's linear maps
	at    []int32      // slots to gather from
	scale []float32    // see inverseDegrees
	share []float32    // coefficients of the states that are gathered; of SAGEKinds a state
	sums  []float32    // see kindMeans.summed
	total []float64    // see sum
	ends  []uintptr    // see kindMeans.prefetchSums

	// With rows of bfloat16, rows as float32:
	row, other []float32
	rows       []float32
	half       []uint16
}

// plan lists the nodes whose states are needed: the given ones, then
// their neighbours, then the neighbours of those, one hop for each layer from
// the last but one down to base. So the nodes needed after a layer are a prefix of
// the list.
func (e *embedder) plan(g *Graph, nodes []int32, base int) {
	top := g.enc.Depth() - 1
	e.order, e.below.degree = e.order[:0], e.below.degree[:0]
	if base == top {
		return
	}
	e.prefix = kernel.Resize(e.prefix, top)
	g.links.clearMarks()
	need := func(v int32) {
		if n := g.links.node(v); g.links.mark(n) {
			n.slot = int32(len(e.order))
			e.order = append(e.order, v)
			e.below.degree = append(e.below.degree, int32(n.adj.Len()))
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

// refresh recomputes the stale ones of the rows that the base layer reads for
// the given nodes: their own and, if layers are fused below the base, their
// neighbours'.
func (e *embedder) refresh(g *Graph, nodes []int32) {
	if !g.workers.serial(len(nodes)) {
		g.kinds.settle(g, nodes)
	}
	if g.links.staleCount == 0 {
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
// if one follows. Above the base layer it reads e.below.
func (e *embedder) layer(g *Graph, l int, nodes []int32, dst []float32) {
	if g.workers.serial(len(nodes)) {
		e.layerRows(g, &g.workers.space[0], l, nodes, dst)
		return
	}
	out := g.enc.widths()[l+1]
	g.workers.parallel(len(nodes), chunkRows, func(w *workspace, from, to int) {
		e.layerRows(g, w, l, nodes[from:to], dst[from*out:to*out])
	})
}

// layerRows is layer for one worker.
func (e *embedder) layerRows(g *Graph, w *workspace, l int, nodes []int32, dst []float32) {
	out, maps := g.enc.widths()[l+1], g.enc.linearMaps(l)
	last := l+1 == g.enc.Depth()
	in := out // without linear maps, the gathered input is the output
	if len(maps) > 0 {
		in = maps[0].in
	}
	for len(nodes) > 0 {
		n := min(blockRows, len(nodes))
		z := dst[:n*out]
		x := z
		if len(maps) > 0 {
			w.block[0] = kernel.Resize(w.block[0], n*in)
			x = w.block[0]
		}
		for i, v := range nodes[:n] {
			row := x[i*in : (i+1)*in]
			if l == g.enc.baseLayer() {
				if g.kinds != nil {
					g.kinds.prefetch(g, nodes[i:], w)
				} else if i+1 < n {
					g.prefetchRows(nodes[i+1])
				}
				g.enc.baseInput(row, g, v, w)
			} else if g.kinds != nil {
				g.kinds.hears.gatherKinds(row, g, v, w)
			} else {
				g.enc.gather(l, row, &e.below, g.links.slots(v, w), w)
			}
		}
		w.multiply(maps, z, x)
		if !last {
			g.enc.Activation().apply(z)
		}
		nodes, dst = nodes[n:], dst[n*out:]
	}
}

// prefetchRows brings what the base layer reads for node v into the cache: its row, its
// neighbours' degrees and rows, or those of the first of them.
func (g *Graph) prefetchRows(v int32) {
	if g.rows.whole == nil {
		return
	}
	kernel.Prefetch(g.rows.whole, []int32{v}, 0, g.rowLen)
	if g.enc.baseLayer() > 0 {
		near := g.Neighbours(v)
		near = near[:min(len(near), prefetchedRows)]
		kernel.Prefetch(g.links.nodes, near, 0, 1)
		kernel.Prefetch(g.rows.whole, near, 0, g.rowLen)
	}
}

// multiply sets the rows of z to the images of as many rows of x under the
// linear maps, with a ReLU between them. x is overwritten. Without maps it does
// nothing: x is z.
func (w *workspace) multiply(maps []linear, z, x []float32) {
	for k := range maps {
		if k > 0 {
			kernel.Rectify(x, x)
		}
		y := z
		if k+1 < len(maps) {
			w.block[1] = kernel.Resize(w.block[1], len(x)/maps[k].in*maps[k].out)
			y = w.block[1]
		}
		maps[k].apply(y, x)
		w.block[0], w.block[1], x = w.block[1], w.block[0], y
	}
}

// sumRectified sets dst to Σ_v max(self_v + sum_v/degree_v, 0) over the nodes,
// where self_v and sum_v are the parts of v's row that begin at those columns:
// the rectified first-layer states of [SAGE].
func (w *workspace) sumRectified(g *Graph, dst []float32, nodes []int32, self, sum int) {
	scale := g.links.inverseDegrees(nodes, w)
	if g.rows.whole != nil && len(nodes) <= hubDegree {
		kernel.GatherRectified(dst, g.rows.whole, nodes, scale, self, sum)
		return
	}
	w.sum(dst, len(nodes), func(dst []float32, from, to int) {
		for i, v := range nodes[from:to] {
			row := g.rows.row(v, &w.row)
			kernel.AddRectified(dst, row[self:], row[sum:], scale[from+i])
		}
	})
}

// gatherSum sets dst to the sum of the states at the slots.
func (w *workspace) gatherSum(dst []float32, s *states, at []int32) {
	w.sum(dst, len(at), func(dst []float32, from, to int) { kernel.GatherSum(dst, at[from:to], s.h, s.width) })
}

// gatherShares sets dst to the sum of the states at the slots, each times its share.
func (w *workspace) gatherShares(dst []float32, s *states, at []int32) {
	w.sum(dst, len(at), func(dst []float32, from, to int) {
		kernel.Gather(dst, at[from:to], w.share[from:to], s.h, s.width)
	})
}
