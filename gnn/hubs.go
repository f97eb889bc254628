package gnn

import (
	"github.com/gvbll/gvbll/gnn/kernel"
)

// A sum of n terms in float32, one after the other, may be off by n·2⁻²⁴ of the sum
// of their absolute values; for a million equal neighbours it is off by 1 %. So the
// sums of hubs, nodes of more than hubDegree neighbours, run in float64, or in
// blocks of float32 whose sums are added in float64. They are off by 2⁻²⁴ (their
// rounding), n·2⁻⁵³ and, with blocks, 7·2⁻²⁴: less than 10⁻⁶ of the sum of absolute
// values, whatever n is. The sums of all other nodes are off by at most 1.6·10⁻⁵ of
// it, the bound of n = hubDegree.

const (
	// hubDegree is the largest degree at which sums run in float32. A hub's sums take
	// no more memory than a few times its adjacency list.
	hubDegree = 256
	// blockTerms is the number of terms of a block.
	blockTerms = 8
)

// hub is the aggregate of a hub in float64, over the first neighbours of its list.
// Its row has the same, rounded to float32, over all of them.
type hub struct {
	aggregate []float64
	summed    int // neighbours
}

// hubs are the sums of those that got edges and have not been stale since.
type hubs map[int32]*hub

// settle sets the aggregate of v, if it is a hub and not stale, from the sum in
// float64 of all neighbours' messages in the order of the list. Those that came
// since the last call are added. It is called after v got edges; the messages that
// were added to v's row by then are overwritten.
func (s hubs) settle(g *Graph, v int32) {
	n := g.links.node(v)
	if n.adj.Len() <= hubDegree || n.stale {
		return
	}
	w := &g.workers.space[0]
	row := g.rows.row(v, &w.row)
	self, aggregate := row[:g.selfLen], row[g.selfLen:]
	h := s[v]
	if h == nil {
		g.enc.resetAggregate(row)
		h = &hub{aggregate: make([]float64, len(aggregate))}
		for j, x := range aggregate {
			h.aggregate[j] = float64(x)
		}
		s[v] = h
	}
	near := g.links.adj.View(n.adj)
	g.rows.each(near[h.summed:], &w.other, func(message []float32) { g.enc.addToHub(h.aggregate, self, message) })
	h.summed = len(near)
	for j, x := range h.aggregate {
		aggregate[j] = float32(x)
	}
	g.rows.putAggregate(v, row)
}

// settleAll settles v and the nodes to which it got edges.
func (s hubs) settleAll(g *Graph, v int32, added []int32) {
	if !g.rows.aggregates() {
		return
	}
	s.settle(g, v)
	for _, u := range added {
		if g.links.nodes.At(u).adj.Len() > hubDegree { // few are
			s.settle(g, u)
		}
	}
}

// addAll adds a neighbour's message to a hub's sum.
func addAll(sum []float64, message []float32) {
	for j, x := range message[:len(sum)] {
		sum[j] += float64(x)
	}
}

// total returns the sum of the terms.
func total(terms []float32) (sum float32) {
	if len(terms) <= hubDegree {
		for _, x := range terms {
			sum += x
		}
		return sum
	}
	var wide float64
	for _, x := range terms {
		wide += float64(x)
	}
	return float32(wide)
}

// sum sets dst to a sum over n neighbours. add adds the terms from ≤ i < to to dst,
// one after the other.
func (w *workspace) sum(dst []float32, n int, add func(dst []float32, from, to int)) {
	clear(dst)
	if n <= hubDegree {
		add(dst, 0, n)
		return
	}
	w.total = kernel.Resize(w.total, len(dst))
	clear(w.total)
	for from := 0; from < n; from += blockTerms {
		clear(dst)
		add(dst, from, min(from+blockTerms, n))
		addAll(w.total, dst)
	}
	for j, x := range w.total {
		dst[j] = float32(x)
	}
}
