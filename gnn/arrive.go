package gnn

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// Arrive is what a window of arrivals takes, ΔV_t with its edges and Z_t: [Graph.Add]
// of the vectors, [Graph.LinkAll] of each new node with its neighbours in turn, which
// may be among the new, and [Graph.Embed] of the new nodes into dst, len(x)×Out. The
// bits are the same, in less time. Unless it is nil, met is told in turn of each
// arrival's neighbours that were new to it, before the next is linked. It panics as
// the three do.
func (g *Graph) Arrive(x []Vector, near [][]int32, linked func(i int, neighbours []int32), dst []float32) (first int32) {
	if len(near) != len(x) || len(dst) != len(x)*g.enc.Out() {
		panic(fmt.Sprintf("gnn: %d arrivals with neighbours of %d, and room for %d numbers", len(x), len(near), len(dst)))
	}
	first = g.Add(x)
	w := &g.window
	if !g.serial(len(x)) && g.exchangesInPlace() {
		w.share(g, first, near, linked)
		g.Embed(w.late, dst)
		return first
	}
	early := g.embedsEarly(len(x))
	if early {
		w.begin(g, first, near)
	}
	w.late = w.late[:0]
	for i := range x {
		v := first + int32(i)
		final := early && g.final(i, v, near[i])
		if final {
			kernel.Prefetch(g.rows.whole, near[i], 0, g.rowLen)
		} else {
			g.prefetch(near[i])
		}
		fresh := g.linkAll(v, near[i])
		if linked != nil {
			linked(i, fresh)
		}
		if final {
			w.embed(g, i, v, dst)
		} else {
			w.late = append(w.late, v)
		}
	}
	w.finish(g, first, dst)
	return first
}

// window is what Arrive knows of its arrivals. An arrival needs its neighbours' rows
// twice: when it is linked, and when it is embedded after all of the window is linked.
// Rows lie far away, and few are changed twice in a window. So an arrival whose
// neighbours are what they will be is embedded as soon as it is linked, while their
// rows are near.
type window struct {
	late   []int32 // arrivals that had to wait
	linked []int32 // whom the arrivals were linked to, one after the other …
	ends   []int   // … and where each one's end
	ready  []int   // arrivals whose inputs to the last layer stand in block
	block  []float32
	z      []float32
}

// share links the arrivals with all workers: one enters the edges, and then each
// lets the rows hear each other in some of the columns, in the order of the edges.
func (w *window) share(g *Graph, first int32, near [][]int32, linked func(i int, neighbours []int32)) {
	w.late, w.linked, w.ends = w.late[:0], w.linked[:0], w.ends[:0]
	for i, neighbours := range near {
		if i+1 < len(near) {
			kernel.Prefetch(g.nodes, near[i+1], 0, 1)
		}
		v := first + int32(i)
		fresh, _ := g.unlinked(v, neighbours)
		g.prefetchListEnds(fresh)
		g.keepAll(v, fresh)
		g.appendEdges(v, fresh)
		if linked != nil {
			linked(i, fresh)
		}
		w.linked = append(w.linked, fresh...)
		w.late, w.ends = append(w.late, v), append(w.ends, len(w.linked))
	}
	const register = 16
	columns := g.enc.messageColumns()
	each := (columns/len(g.work) + register - 1) &^ (register - 1)
	g.parallel(columns, max(each, 1), func(_ *workspace, from, to int) {
		begin := 0
		for i, end := range w.ends {
			neighbours := w.linked[begin:end]
			g.enc.prefetchMessages(g.rows.whole, neighbours, from, to)
			g.enc.exchangeMessages(g.rows.whole, first+int32(i), neighbours, from, to)
			begin = end
		}
	})
}

// exchanges reports whether all rows are as they should be, and hear each other
// where they lie.
func (g *Graph) exchangesInPlace() bool {
	return g.rows.whole != nil && g.aggregates() && g.staleCount == 0
}

// embedsEarly reports whether some of n arrivals can be embedded before all are
// linked: the last layer's inputs are made of rows alone.
func (g *Graph) embedsEarly(n int) bool {
	return g.serial(n) && g.exchangesInPlace() && g.enc.baseLayer() > 0 && g.enc.baseLayer() == g.enc.Depth()-1
}

// begin notes of each node that the window changes, in its slot, which arrival is
// the last to do so.
func (w *window) begin(g *Graph, first int32, near [][]int32) {
	for i := range near {
		g.nodes.At(first + int32(i)).slot = int32(i)
	}
	for i, neighbours := range near {
		if i+1 < len(near) {
			kernel.Prefetch(g.nodes, near[i+1], 0, 1)
		}
		for _, u := range neighbours {
			if n := g.node(u); u < first || n.slot < int32(i) {
				n.slot = int32(i)
			}
		}
	}
}

// final reports whether, when it is linked, the i-th arrival v and its neighbours
// are as they will be.
func (g *Graph) final(i int, v int32, near []int32) bool {
	if int(g.nodes.At(v).slot) > i {
		return false
	}
	for _, all := range [...][]int32{near, g.Neighbours(v)} {
		for _, u := range all {
			if int(g.nodes.At(u).slot) > i {
				return false
			}
		}
	}
	return true
}

// embed embeds the i-th arrival v, with others when they fill a block.
func (w *window) embed(g *Graph, i int, v int32, dst []float32) {
	in := g.top()[0].in
	w.block = kernel.Resize(w.block, blockRows*in)
	g.enc.baseInput(w.block[len(w.ready)*in:][:in], g, v, &g.work[0])
	if w.ready = append(w.ready, i); len(w.ready) == blockRows {
		w.flush(g, dst)
	}
}

// flush multiplies the block.
func (w *window) flush(g *Graph, dst []float32) {
	n, dense, out := len(w.ready), g.top(), g.enc.Out()
	w.z = kernel.Resize(w.z, n*out)
	g.work[0].multiply(dense, w.z, w.block[:n*dense[0].in])
	for k, i := range w.ready {
		copy(dst[i*out:(i+1)*out], w.z[k*out:])
	}
	w.ready = w.ready[:0]
}

// finish embeds those that are left.
func (w *window) finish(g *Graph, first int32, dst []float32) {
	if len(w.ready) > 0 {
		w.flush(g, dst)
	}
	out := g.enc.Out()
	if len(w.late)*out == len(dst) {
		g.Embed(w.late, dst)
		return
	}
	w.z = kernel.Resize(w.z, len(w.late)*out)
	g.Embed(w.late, w.z)
	for k, v := range w.late {
		copy(dst[int(v-first)*out:][:out], w.z[k*out:])
	}
}

// top is what follows in the last layer.
func (g *Graph) top() []linear { return g.enc.linearMaps(g.enc.Depth() - 1) }
