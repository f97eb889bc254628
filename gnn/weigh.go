package gnn

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// weighed is a neighbour in a mean, with the weight of the edge.
type weighed struct {
	at     uint32 // node<<meanBits | mean: so there are at most 2²⁷ nodes
	weight float32
}

const meanBits = 5 // of a number below MaxMeans

func newWeighed(node int32, mean uint8, weight float32) weighed {
	if uint32(node) >= 1<<(32-meanBits) {
		panic(fmt.Sprintf("gnn: node %d, and a graph that tells edges apart has at most %d", node, 1<<(32-meanBits)))
	}
	return weighed{uint32(node)<<meanBits | uint32(mean), weight}
}

func (x weighed) node() int32 { return int32(x.at >> meanBits) }
func (x weighed) mean() uint8 { return uint8(x.at % (1 << meanBits)) }

// kindMeans has, for an encoder that hears kinds or weights of edges, the neighbours in each mean.
// They are neighbours in the adjacency lists too, which know no kinds. Methods do nothing
// on nil, for a graph of another encoder.
//
// The messages of a node's neighbours are summed when it is embedded, or a neighbour of it: those
// that came since they last were. So its sums are those of its list in its order, whatever became
// of the list meanwhile: what takes a neighbour away, or changes one that is summed, has them begin
// anew. There is a sum for each mean in which the node has neighbours, and none is kept of
// a node with few, which are read at each use.
type kindMeans struct {
	hears   KindsEncoder
	enc     *SAGEKinds // the same, or nil for a GCN: no messages are summed for it
	lists   kernel.Arena[weighed]
	nodes   *kernel.Table[nodeMeans]
	weights *kernel.Table[float64] // of a GCN: Σ w by node, in the order of its list

	// By number of means: of each node with so many Σ w·message of every one, in their order, and
	// then Σ w of every one as two float32 that add up to it; and the rows that no node uses.
	sums [MaxMeans + 1]*kernel.Table[float32]
	free [MaxMeans + 1][]int32
	hubs map[int32][]float64 // the same of nodes with more than hubDegree neighbours, see hub

	hidden hidden    // edges that means leave out, see EmbedTrial
	trial  bool      // what is summed is not kept, see EmbedArrival
	ids    []int32   // storage
	ends   []uintptr // storage
}

// nodeMeans is what is kept of a node. The zero value is of one without neighbours.
type nodeMeans struct {
	near   kernel.List // in the order in which the edges came
	summed int32       // of them, the first ones
	has    uint32      // bits: the means that have a sum; 0 if none is kept
	row    int32       // of sums, if it has one
}

// fewNeighbours is the largest number of neighbours of a node with n means whose sums are not kept.
func fewNeighbours(n int) int { return 2 * n }

func newKindMeans(e Encoder) *kindMeans {
	if MeansOf(e) == 0 {
		return nil
	}
	t := &kindMeans{hears: e.(KindsEncoder), nodes: kernel.NewTable[nodeMeans](1), hubs: make(map[int32][]float64), hidden: hidden{of: -1}}
	if t.enc, _ = e.(*SAGEKinds); t.enc == nil {
		t.weights = kernel.NewTable[float64](1)
	}
	return t
}

// hidden are edges of one node, which is -1 for none.
type hidden struct {
	of int32
	to []int32
}

// ends reports whether v is an end of such an edge.
func (h *hidden) ends(v int32) bool { return len(h.to) > 0 && (v == h.of || slices.Contains(h.to, v)) }

func (t *kindMeans) grow(n int) {
	if t != nil {
		t.nodes.Grow(n)
		if t.weights != nil {
			t.weights.Grow(n)
		}
	}
}

// append appends a neighbour to v's list.
func (t *kindMeans) append(v int32, x weighed) {
	t.lists.Append(&t.nodes.At(v).near, x)
	if t.weights != nil {
		*t.weights.At(v) += float64(x.weight)
	}
}

// recount sums the weights of v's neighbours anew.
func (t *kindMeans) recount(v int32) {
	if t.weights != nil {
		*t.weights.At(v) = totalWeight(t.lists.View(t.nodes.At(v).near))
	}
}

func totalWeight(near []weighed) (sum float64) {
	for _, x := range near {
		sum += float64(x.weight)
	}
	return sum
}

// inverseRoot is 1/√d of node v of a [GCN].
func (t *kindMeans) inverseRoot(v int32) float32 {
	if t.hidden.ends(v) {
		return inverseRoot(totalWeight(t.near(v)))
	}
	return inverseRoot(*t.weights.At(v))
}

// near returns v's neighbours but hidden ones, valid until it gets or loses one.
func (t *kindMeans) near(v int32) []weighed {
	near := t.lists.View(t.nodes.At(v).near)
	if t.hidden.ends(v) {
		near = slices.DeleteFunc(slices.Clone(near), func(x weighed) bool {
			return x.node() == t.hidden.of || v == t.hidden.of && t.hidden.ends(x.node())
		})
	}
	return near
}

// change changes u's weight in v's mean k, and reports whether u is there.
func (t *kindMeans) change(v, u int32, k uint8, weight float32) bool {
	m := t.nodes.At(v)
	near := t.lists.Edit(m.near)
	for i := range near {
		if x := &near[i]; x.node() == u && x.mean() == k {
			if x.weight != weight {
				if i < int(m.summed) {
					m.summed = 0
				}
				x.weight = weight
				t.recount(v)
			}
			return true
		}
	}
	return false
}

// drop removes from v's means the neighbours that leave.
func (t *kindMeans) drop(v int32, leaves func(u int32) bool) {
	if t == nil {
		return
	}
	m := t.nodes.At(v)
	before := m.near.Len()
	t.lists.Retain(&m.near, func(x weighed) bool { return !leaves(x.node()) })
	if m.near.Len() < before {
		t.release(v, m)
		t.recount(v)
	}
}

// dropLast removes the last node, which came last to the lists of the given ones, and whose
// message no sums have.
func (t *kindMeans) dropLast(neighbours []int32) {
	if t == nil {
		return
	}
	last := int32(t.nodes.Len() - 1)
	for _, v := range neighbours {
		m := t.nodes.At(v)
		for near := t.lists.View(m.near); len(near) > 0 && near[len(near)-1].node() == last; near = near[:len(near)-1] {
			t.lists.RemoveLast(&m.near)
		}
		t.recount(v)
	}
	t.lists.Clear(&t.nodes.At(last).near)
	t.nodes.Shrink(1)
	if t.weights != nil {
		t.weights.Shrink(1)
	}
}

// forget has the sums of nodes whose neighbour's message has changed begin anew.
func (t *kindMeans) forget(nodes []int32) {
	if t == nil {
		return
	}
	for _, v := range nodes {
		t.nodes.At(v).summed = 0
	}
}

// release gives the memory of a node's sums back.
func (t *kindMeans) release(v int32, m *nodeMeans) {
	if m.has != 0 {
		n := bits.OnesCount32(m.has)
		t.free[n] = append(t.free[n], m.row)
		delete(t.hubs, v)
	}
	m.has, m.summed = 0, 0
}

// width is the length of the sums of a node with n means.
func (t *kindMeans) width(n int) int {
	return n * (t.enc.width[1] + 2)
}

// table returns the sums of nodes with n means.
func (t *kindMeans) table(n int) *kernel.Table[float32] {
	if t.sums[n] == nil {
		t.sums[n] = kernel.NewTable[float32](t.width(n))
	}
	return t.sums[n]
}

// place returns a row for a node with n means.
func (t *kindMeans) place(n int) (row int32) {
	if last := len(t.free[n]) - 1; last >= 0 {
		row, t.free[n] = t.free[n][last], t.free[n][:last]
		return row
	}
	t.table(n).Grow(1)
	return int32(t.table(n).Len() - 1)
}

// kept returns the sums of a node that has some.
func (t *kindMeans) kept(m *nodeMeans) []float32 {
	return t.sums[bits.OnesCount32(m.has)].Row(m.row)
}

// total returns Σ w of the i-th mean of a node that has n.
func (t *kindMeans) total(row []float32, i, n int) float64 {
	return float64(row[n*t.enc.width[1]+2*i]) + float64(row[n*t.enc.width[1]+2*i+1])
}

func (t *kindMeans) setTotal(row []float32, i, n int, total float64) {
	at := row[n*t.enc.width[1]+2*i:]
	at[0] = float32(total)
	at[1] = float32(total - float64(at[0]))
}

// settle brings the sums that are kept of the nodes and, if the first layer is fused with the
// second, of their neighbours up to date. Then several workers may call summed at the same time.
func (t *kindMeans) settle(g *Graph, nodes []int32) {
	if t == nil || t.enc == nil {
		return
	}
	for _, v := range nodes {
		t.summed(g, v, &g.workers.space[0])
		if t.enc.baseLayer() > 0 {
			for _, x := range t.near(v) {
				t.summed(g, x.node(), &g.workers.space[0])
			}
		}
	}
}

// summed returns v's sums, valid until w's next call, and in which means they are.
func (t *kindMeans) summed(g *Graph, v int32, w *workspace) (row []float32, has uint32) {
	m := t.nodes.At(v)
	hides := t.hidden.ends(v)
	if m.has != 0 && int(m.summed) == m.near.Len() && !hides {
		return t.kept(m), m.has
	}
	near := t.near(v)
	from := 0
	if !hides {
		has, from = m.has, int(m.summed)
	}
	for _, x := range near[from:] {
		has |= 1 << x.mean()
	}
	n, out := bits.OnesCount32(has), t.enc.width[1]
	isHub := len(near) > hubDegree
	var hub []float64
	if isHub && !hides {
		hub = t.hubs[v]
	}
	goesOn := m.has == has && m.summed > 0 && !hides && (hub != nil) == isHub
	keeps := !hides && !t.trial && len(near) > fewNeighbours(n)
	if keeps {
		if !goesOn {
			t.release(v, m)
			m.has, m.row = has, t.place(n)
		}
		row = t.kept(m)
	} else {
		w.sums = kernel.Resize(w.sums, t.width(n))
		row = w.sums
		if goesOn {
			copy(row, t.kept(m))
			hub = slices.Clone(hub)
		}
	}
	if !goesOn {
		from = 0
		clear(row)
		if hub = nil; isHub {
			hub = make([]float64, n*(out+1))
		}
	}
	if keeps {
		m.summed = int32(len(near))
		if isHub {
			t.hubs[v] = hub
		}
	}
	t.add(g, row, hub, has, near[from:], w)
	return row, has
}

// add adds neighbours to sums in some means, in float64 if those of a hub are given.
func (t *kindMeans) add(g *Graph, row []float32, hub []float64, has uint32, near []weighed, w *workspace) {
	n, out := bits.OnesCount32(has), t.enc.width[1]
	for next, x := range near {
		if next%prefetchedRows == 0 && len(near) > next+1 {
			t.prefetchMessages(g, near[next:min(next+prefetchedRows, len(near))])
		}
		message := g.rows.row(x.node(), &w.row)[int(x.mean())*out:][:out]
		i := bits.OnesCount32(has & (1<<x.mean() - 1))
		if hub == nil {
			kernel.Axpy(row[i*out:(i+1)*out], x.weight, message)
			t.setTotal(row, i, n, t.total(row, i, n)+float64(x.weight))
			continue
		}
		for j, y := range message {
			hub[i*out+j] += float64(float64(x.weight) * float64(y))
		}
		hub[n*out+i] += float64(x.weight)
	}
	if hub != nil {
		for j := range n * out {
			row[j] = float32(hub[j])
		}
		for i := range n {
			t.setTotal(row, i, n, hub[n*out+i])
		}
	}
}

// firstState sets dst to v's output of the first layer, before the activation.
func (t *kindMeans) firstState(dst []float32, g *Graph, v int32, w *workspace) {
	row, has := t.summed(g, v, w)
	out, n := t.enc.width[1], bits.OnesCount32(has)
	state := g.rows.row(v, &w.row)[t.enc.means*out:]
	for i := range n {
		kernel.Combine(dst, state, row[i*out:(i+1)*out], float32(1/t.total(row, i, n)))
		state = dst
	}
	if n == 0 {
		copy(dst, state)
	}
}

// gather sets dst, of as many vectors as there are means, to v's means of x, whose vectors have
// the given width.
func (t *kindMeans) gather(dst []float32, v int32, width int, w *workspace, x func(u int32) []float32) {
	near := t.near(v)
	var total [MaxMeans]float64
	for _, u := range near {
		total[u.mean()] += float64(u.weight)
	}
	add := func(dst []float32, near []weighed) {
		for _, u := range near {
			kernel.Axpy(dst, float32(float64(u.weight)/total[u.mean()]), x(u.node()))
		}
	}
	if len(near) <= hubDegree {
		clear(dst)
		for i, u := range near {
			add(dst[int(u.mean())*width:][:width], near[i:i+1])
		}
		return
	}
	for k := range t.enc.means {
		some := slices.DeleteFunc(slices.Clone(near), func(u weighed) bool { return int(u.mean()) != k })
		w.sum(dst[k*width:(k+1)*width], len(some), func(dst []float32, from, to int) { add(dst, some[from:to]) })
	}
}

// prefetch brings what the base layer reads for the next nodes into the cache, the further ahead
// the earlier it is needed.
func (t *kindMeans) prefetch(g *Graph, nodes []int32, w *workspace) {
	if t.enc == nil {
		if len(nodes) > 1 {
			g.prefetchRows(nodes[1])
		}
		return
	}
	reads := func(v int32) []int32 { // the nodes whose first states it reads, or the first of them
		w.at = append(w.at[:0], v)
		if t.enc.baseLayer() > 0 {
			for _, x := range t.first(v) {
				w.at = append(w.at, x.node())
			}
		}
		return w.at
	}
	if len(nodes) > 2 {
		kernel.Prefetch(t.nodes, reads(nodes[2]), 0, 1)
	}
	if len(nodes) > 1 {
		t.prefetchMessages(g, t.first(nodes[1]))
		t.prefetchSums(g, reads(nodes[1]), w)
	}
	for _, v := range reads(nodes[0]) {
		if m := t.nodes.At(v); m.has == 0 {
			t.prefetchMessages(g, t.first(v))
		}
	}
}

// first returns the first of a node's neighbours.
func (t *kindMeans) first(v int32) []weighed {
	near := t.lists.View(t.nodes.At(v).near)
	return near[:min(len(near), prefetchedRows)]
}

func (t *kindMeans) prefetchMessages(g *Graph, near []weighed) {
	if g.rows.whole == nil {
		return
	}
	out := t.enc.width[1]
	for _, x := range near {
		kernel.Prefetch(g.rows.whole, []int32{x.node()}, int(x.mean())*out, out)
	}
}

// prefetchSums brings what firstState reads of nodes into the cache.
func (t *kindMeans) prefetchSums(g *Graph, nodes []int32, w *workspace) {
	if g.rows.whole != nil {
		out := t.enc.width[1]
		kernel.Prefetch(g.rows.whole, nodes, t.enc.means*out, out)
	}
	w.ends = w.ends[:0]
	for _, v := range nodes {
		m := t.nodes.At(v)
		if m.has != 0 {
			sums := t.sums[bits.OnesCount32(m.has)]
			kernel.Prefetch(sums, []int32{m.row}, 0, sums.Width())
		}
		w.ends = t.lists.AppendEnd(w.ends, m.near)
	}
	kernel.PrefetchLines(w.ends)
}

// WeighedEdge says what the edge from Source to Target is: it counts in mean AtSource of its
// source and in mean AtTarget of its target, with a positive weight.
type WeighedEdge struct {
	Source, Target     int32
	AtSource, AtTarget uint8
	Weight             float32
}

// EachWeighed calls count for v's neighbours by kinds of edges, see [Graph.Weigh], in the order in which the
// edges came.
func (g *Graph) EachWeighed(v int32, count func(u int32, mean uint8, weight float32)) {
	if g.kinds == nil { // all alike
		for _, u := range g.Neighbours(v) {
			count(u, 0, 1)
		}
		return
	}
	for _, x := range g.kinds.near(v) {
		count(x.node(), x.mean(), x.weight)
	}
}

// Weigh says what edges are, those of them that are there, one after the other. Said again of
// the same means it changes the weight; of others, it is one more edge. [Graph.Unlink] and
// [Graph.Remove] remove all of them. For each it takes time proportional to the smaller degree, and
// where it changes a weight to both.
func (g *Graph) Weigh(edges ...WeighedEdge) {
	if g.kinds == nil {
		if !slices.ContainsFunc(edges, func(e WeighedEdge) bool { return e.Weight != 1 }) {
			return
		}
		g.TellApart()
	}
	t := g.kinds
	for i, e := range edges {
		if i%aheadEdges == 0 {
			t.prefetchMeans(edges[i:])
		}
		few, many, k, l := e.Source, e.Target, e.AtSource, e.AtTarget
		if g.Degree(few) > g.Degree(many) {
			few, many, k, l = many, few, l, k
		}
		if !slices.Contains(g.Neighbours(few), many) {
			continue
		}
		if !t.change(few, many, k, e.Weight) || !t.change(many, few, l, e.Weight) {
			if near := &t.nodes.At(few).near; near.Cap() == 0 { // of an arrival
				t.lists.Grow(near, g.Degree(few))
			}
			t.append(few, newWeighed(many, k, e.Weight))
			t.append(many, newWeighed(few, l, e.Weight))
		}
	}
}

// TellsApart reports whether what [Graph.Weigh] says of edges is kept. In a graph of an encoder with a
// single mean it is not before [Graph.TellApart]: all edges have weight 1, and the graph is one of [SAGE].
func (g *Graph) TellsApart() bool { return g.kinds != nil }

// TellApart has the graph tell edges apart from now on. Weigh calls it for the first weight
// that is not 1; it is to be called before the first edge of which Weigh will say nothing. It
// takes time proportional to the graph.
func (g *Graph) TellApart() {
	if g.apart == nil || g.kinds != nil {
		return
	}
	n, w, rows := g.Len(), &g.workers.space[0], g.rows // whose self terms are those of the new rows
	g.use(g.apart)
	if rows.half != nil {
		g.rows.useBFloat16()
	}
	g.rows.grow(n)
	g.kinds.grow(n)
	for v := range int32(n) {
		g.links.clearStale(g.links.nodes.At(v))
		g.rows.putSelf(v, rows.row(v, &w.row)[:g.selfLen])
		for _, u := range g.Neighbours(v) {
			g.kinds.append(v, newWeighed(u, 0, 1))
		}
	}
}

// aheadEdges is how many edges' lists Weigh reads at a time.
const aheadEdges = 8

// prefetchMeans brings what Weigh reads for the next edges but the first ones into the cache.
func (t *kindMeans) prefetchMeans(edges []WeighedEdge) {
	next := func(from int) []WeighedEdge {
		return edges[min(from, len(edges)):min(from+aheadEdges, len(edges))]
	}
	t.ids, t.ends = t.ids[:0], t.ends[:0]
	for _, e := range next(2 * aheadEdges) {
		t.ids = append(t.ids, e.Source, e.Target)
	}
	kernel.Prefetch(t.nodes, t.ids, 0, 1)
	for _, e := range next(aheadEdges) {
		t.ends = t.lists.AppendEnd(t.lists.AppendEnd(t.ends, t.nodes.At(e.Source).near), t.nodes.At(e.Target).near)
	}
	kernel.PrefetchLines(t.ends)
}

// state declares the lists of n nodes. They are copied when it is called; sums are not saved.
func (t *kindMeans) state(s *snapshot.Schema, n int) {
	if t == nil {
		return
	}
	degrees := make([]int32, n)
	var nodes []int32
	var weights []float32
	var means []uint8
	if s.Saving() {
		for v := range degrees {
			near := t.near(int32(v))
			degrees[v] = int32(len(near))
			for _, x := range near {
				nodes, weights, means = append(nodes, x.node()), append(weights, x.weight), append(means, x.mean())
			}
		}
	}
	degrees = snapshot.Array(s, "graph.marks", degrees, n)
	m := s.Len("graph.marks.nodes", len(nodes), math.MaxInt)
	nodes = snapshot.Array(s, "graph.marks.nodes", nodes, m)
	weights = snapshot.Array(s, "graph.marks.weights", weights, m)
	means = snapshot.Array(s, "graph.marks.means", means, m)
	s.Check(func() error { return t.restore(degrees, nodes, weights, means) })
}

func (t *kindMeans) restore(degrees, nodes []int32, weights []float32, means []uint8) error {
	at := 0
	for v, d := range degrees {
		if d < 0 || int(d) > len(nodes)-at {
			return notAGraph("node %d has %d edges with kinds, there are %d more", v, d, len(nodes)-at)
		}
		for range d {
			node, weight, mean := nodes[at], weights[at], means[at]
			if uint(node) >= uint(len(degrees)) || !(weight > 0) || math.IsInf(float64(weight), 1) || int(mean) >= t.hears.Means() {
				return notAGraph("node %d has the neighbour %d of weight %v in mean %d", v, node, weight, mean)
			}
			t.append(int32(v), newWeighed(node, mean, weight))
			at++
		}
	}
	if at < len(nodes) {
		return notAGraph("%d edges with kinds are of no node", len(nodes)-at)
	}
	return nil
}
