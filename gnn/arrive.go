package gnn

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// Arrive adds a window of arrivals ΔV_t and embeds them: [Graph.Add] of the
// vectors, [Graph.LinkAll] of each new node with its neighbours in turn, which
// may be in the window too, and [Graph.Embed] of the new nodes into dst,
// len(x)×Out row-major. It gives the bits that those calls give, in less time,
// and panics as they do.
//
// linked, unless nil, is called for each arrival in turn with the neighbours to
// which it got an edge, before the next is linked.
func (g *Graph) Arrive(x []Vector, near [][]int32, linked func(i int, neighbours []int32), dst []float32) (first int32) {
	if len(near) != len(x) || len(dst) != len(x)*g.enc.Out() {
		panic(fmt.Sprintf("gnn: %d arrivals with neighbours of %d, and room for %d numbers", len(x), len(near), len(dst)))
	}
	first = g.Add(x)
	w := &g.window
	if !g.workers.serial(len(x)) && g.exchangesInPlace() {
		w.linkParallel(g, first, near, linked)
		g.Embed(w.deferred, dst)
		return first
	}
	w.final, w.deferred = w.final[:0], w.deferred[:0]
	if w.embedsEarly(g, len(x)) {
		w.findFinal(g, first, near)
	}
	w.prefetchAhead(g, near, w.isFinal(0))
	for i := range x {
		v := first + int32(i)
		w.prefetchAhead(g, near[i+1:], w.isFinal(i+1))
		added := g.linkAll(v, near[i])
		if linked != nil {
			linked(i, added)
		}
		if w.isFinal(i) {
			w.embed(g, i, v, dst)
		} else {
			w.deferred = append(w.deferred, v)
		}
	}
	w.finish(g, first, dst)
	return first
}

// window is the storage of Arrive, reused from call to call.
//
// An arrival's neighbours' rows are read twice: to link it, and to embed it after
// the whole window is linked. Rows are far apart in memory, and few change twice
// within a window. So an arrival whose neighbourhood does not change any more in
// this window is embedded as soon as it is linked, while those rows are in the
// cache.
type window struct {
	deferred []int32 // arrivals to embed after all are linked
	final    []bool  // see findFinal; empty if none is embedded early

	// Arrivals to embed before all are linked, up to blockRows: their numbers in
	// the window, and the inputs and outputs of the last layer, a row for each.
	ready []int
	block []float32
	z     []float32

	// In linkParallel: the new neighbours of all arrivals, concatenated, and by
	// arrival the end of its own.
	neighbours []int32
	ends       []int
}

// linkParallel links the arrivals with all workers: the caller enters the edges,
// then each worker exchanges the messages over all of them in some of the
// columns. A column's sums thus run in the order of the edges, as in linkAll.
func (w *window) linkParallel(g *Graph, first int32, near [][]int32, linked func(i int, neighbours []int32)) {
	w.deferred, w.neighbours, w.ends = w.deferred[:0], w.neighbours[:0], w.ends[:0]
	for i, neighbours := range near {
		if i+1 < len(near) {
			kernel.Prefetch(g.links.nodes, near[i+1], 0, 1)
		}
		v := first + int32(i)
		added, _ := g.links.unlinked(v, neighbours)
		g.links.prefetchEnds(added)
		g.keepAll(v, added)
		g.links.appendEdges(v, added)
		if linked != nil {
			linked(i, added)
		}
		w.neighbours = append(w.neighbours, added...)
		w.deferred, w.ends = append(w.deferred, v), append(w.ends, len(w.neighbours))
	}
	// Each worker gets whole AVX-512 registers of 16 columns.
	const register = 16
	columns := g.enc.messageColumns()
	each := (columns/len(g.workers.space) + register - 1) &^ (register - 1)
	g.workers.parallel(columns, max(each, 1), func(_ *workspace, from, to int) {
		begin := 0
		for i, end := range w.ends {
			neighbours := w.neighbours[begin:end]
			g.enc.prefetchMessages(g.rows.whole, neighbours, from, to)
			g.enc.exchangeMessages(g.rows.whole, first+int32(i), neighbours, from, to)
			begin = end
		}
	})
	begin := 0
	for i, end := range w.ends {
		g.hubs.settleAll(g, first+int32(i), w.neighbours[begin:end])
		begin = end
	}
}

// exchangesInPlace reports whether exchangeMessages can work on the rows where
// they are: float32, with an aggregate, and none stale.
func (g *Graph) exchangesInPlace() bool {
	return g.rows.whole != nil && g.rows.aggregates() && g.links.staleCount == 0
}

// embedsEarly reports whether some of n arrivals can be embedded before all are
// linked: then the last layer is the base layer, which reads rows alone.
func (w *window) embedsEarly(g *Graph, n int) bool {
	return g.workers.serial(n) && g.exchangesInPlace() && g.enc.baseLayer() > 0 && g.enc.baseLayer() == g.enc.Depth()-1
}

// findFinal sets final, by arrival: whether the rows of the arrival and of its
// neighbours do not change after it is linked. It goes from the last arrival to
// the first and marks the nodes whose rows they change, so that each is looked at
// once. An arrival that an earlier one names is never final, nor is that one.
func (w *window) findFinal(g *Graph, first int32, near [][]int32) {
	w.final = kernel.Resize(w.final, len(near))
	g.links.clearMarks()
	const ahead = 8 // arrivals: little is done for each
	for i, neighbours := range slices.Backward(near) {
		if i >= ahead {
			kernel.Prefetch(g.links.nodes, near[i-ahead], 0, 1)
		}
		v := first + int32(i)
		final := g.links.mark(g.links.nodes.At(v))
		for _, u := range neighbours {
			last := g.links.mark(g.links.node(u))
			final = final && last
			if u > v { // u's neighbour v may change after u is linked
				w.final[u-first] = false
			}
		}
		w.final[i] = final
	}
}

// isFinal reports whether the i-th arrival, if there is one, can be embedded early.
func (w *window) isFinal(i int) bool { return i < len(w.final) && w.final[i] }

// embed embeds the i-th arrival v, together with others once they fill a block.
func (w *window) embed(g *Graph, i int, v int32, dst []float32) {
	in := lastMaps(g.enc)[0].in
	w.block = kernel.Resize(w.block, blockRows*in)
	g.enc.baseInput(w.block[len(w.ready)*in:][:in], g, v, &g.workers.space[0])
	if w.ready = append(w.ready, i); len(w.ready) == blockRows {
		w.flush(g, dst)
	}
}

// flush computes the embeddings of the arrivals in block.
func (w *window) flush(g *Graph, dst []float32) {
	n, maps, out := len(w.ready), lastMaps(g.enc), g.enc.Out()
	w.z = kernel.Resize(w.z, n*out)
	g.workers.space[0].multiply(maps, w.z, w.block[:n*maps[0].in])
	for k, i := range w.ready {
		copy(dst[i*out:(i+1)*out], w.z[k*out:])
	}
	w.ready = w.ready[:0]
}

// finish embeds the arrivals that are not embedded yet.
func (w *window) finish(g *Graph, first int32, dst []float32) {
	if len(w.ready) > 0 {
		w.flush(g, dst)
	}
	out := g.enc.Out()
	if len(w.deferred)*out == len(dst) {
		g.Embed(w.deferred, dst)
		return
	}
	w.z = kernel.Resize(w.z, len(w.deferred)*out)
	g.Embed(w.deferred, w.z)
	for k, v := range w.deferred {
		copy(dst[int(v-first)*out:][:out], w.z[k*out:])
	}
}

// prefetchAhead loads the memory of the next arrivals into the cache while one is
// linked, given the neighbours of each: rows and ends of lists of the first, nodes of
// the second, which say where its lists end. The first is embedded early if embed is set:
// then all of the rows are read.
func (w *window) prefetchAhead(g *Graph, near [][]int32, embed bool) {
	if len(near) > 1 {
		kernel.Prefetch(g.links.nodes, near[1], 0, 1)
	}
	if len(near) > 0 {
		g.links.prefetchEnds(near[0])
		if embed {
			kernel.Prefetch(g.rows.whole, near[0], 0, g.rowLen)
		} else if g.rows.aggregates() && g.rows.whole != nil {
			g.enc.prefetchMessages(g.rows.whole, near[0], 0, g.enc.messageColumns())
		}
	}
}

// lastMaps returns the last layer's linear maps.
func lastMaps(e Encoder) []linear { return e.linearMaps(e.Depth() - 1) }
