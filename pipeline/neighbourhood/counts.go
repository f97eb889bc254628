package neighbourhood

import (
	"encoding/binary"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/posterior/pool"
)

// The counts n_v are sums over v's neighbours of what each counts for:
//
//   - one of its class, if its label is known;
//   - otherwise a share, [pool.Config.Served], of the probabilities that were served for
//     it, class by class. While it has a label, the label takes their place;
//   - nothing, if it was never served.
//
// Most streams have labels for some of their nodes only, or late. A node never hears itself: n_v has no part of v, and q_v
// leaves out what v counts for at its neighbours.
//
// Parts are multiples of 1/whole, and their sums are integers. So they are exact, in
// whatever order edges, labels and predictions come and go, for up to 2²⁴ neighbours of
// a class. A part takes C bytes for each node, its sum 4 C.

// whole is what a label counts for, in units of the sums. A share of it fits a byte.
const whole = 256

// part adds what v counts for at its neighbours to sums, C of them, sign times. sign is
// 1, or minus for -1: integers without a sign wrap around.
func (f *Features) part(sums []uint32, v int32, sign uint32) {
	if y := f.label[v]; y != None {
		sums[y] += sign * whole
		return
	}
	served := f.served.Row(v)[:len(sums)]
	for ; len(served) >= 8; served, sums = served[8:], sums[8:] {
		// Most nodes were not served yet or have a label: eight zeros at once.
		if binary.LittleEndian.Uint64(served) == 0 {
			continue
		}
		for c, s := range served[:8] {
			sums[c] += sign * uint32(s)
		}
	}
	for c, s := range served {
		sums[c] += sign * uint32(s)
	}
}

const minus = ^uint32(0)

// AddEdges reports new edges between v and neighbours. The graph must have them already.
func (f *Features) AddEdges(v int32, neighbours []int32) {
	if f.counts == nil {
		return
	}
	clear(f.Reader.difference)
	f.part(f.Reader.difference, v, 1) // nothing of a new node
	f.spread(neighbours)
	sums := f.counts.Row(v)
	for _, u := range neighbours {
		f.part(sums, u, 1)
	}
}

// RemoveEdges reports edges, once each, that are out of the graph.
func (f *Features) RemoveEdges(edges [][2]int32) {
	for _, e := range edges {
		f.forget(e[0])
		f.forget(e[1])
		if f.counts == nil {
			continue
		}
		f.part(f.counts.Row(e[0]), e[1], minus)
		f.part(f.counts.Row(e[1]), e[0], minus)
	}
}

// PartBytes is the number of bytes that AppendPart appends: C, or 0 if what is served counts for
// nothing.
func (r *Reader) PartBytes() int {
	if r.of.counts == nil || r.of.wants.share == 0 {
		return 0
	}
	return r.of.classes
}

// AppendPart appends what a node without a label counts for at its neighbours if probs, one for
// each class, were served for it. It depends on no node and on nothing that changes.
func (r *Reader) AppendPart(b []byte, probs []float64) []byte {
	for _, p := range probs[:r.PartBytes()] {
		part := byte(0)
		if p > 0 { // not so if it is NaN
			part = byte(min(float64(whole*r.of.wants.share*min(p, 1))+0.5, whole-1))
		}
		b = append(b, part)
	}
	return b
}

// SetServed makes v, which must be unlabelled, count for a part, PartBytes bytes as AppendPart
// gives them.
func (f *Features) SetServed(v int32, part []byte) {
	if f.Reader.PartBytes() == 0 {
		return
	}
	f.change(v, func() { copy(f.served.Row(v), part) })
}

// SetLabel sets the class of v, None to withdraw its label.
func (f *Features) SetLabel(v, class int32) {
	if f.label[v] != None {
		f.known--
	}
	if class != None {
		f.known++
	}
	if f.counts == nil {
		f.label[v] = class
		return
	}
	f.change(v, func() { f.label[v] = class })
}

// change calls set, which changes what v counts for, and adds the difference to the
// counts of v's neighbours.
func (f *Features) change(v int32, set func()) {
	near := f.graph.Neighbours(v)
	kernel.Prefetch(f.counts, near, 0, f.classes)
	if f.frozen.served.Wants(v) {
		f.frozen.served.Keep(v, f.served.Row(v))
	}
	clear(f.Reader.difference)
	f.part(f.Reader.difference, v, minus)
	set()
	f.part(f.Reader.difference, v, 1)
	f.spread(near)
}

// spread adds difference to the counts of nodes.
func (f *Features) spread(nodes []int32) {
	f.changed = f.changed[:0] // few of many classes
	for c, d := range f.Reader.difference {
		if d != 0 {
			f.changed = append(f.changed, int32(c))
		}
	}
	if len(f.changed) == 0 {
		return
	}
	for _, u := range nodes {
		row := f.counts.Row(u)
		for _, c := range f.changed {
			row[c] += f.Reader.difference[c]
		}
	}
}

// removeParts makes nodes that are about to leave the graph count for nothing, and have no
// counts.
func (f *Features) removeParts(nodes []int32) {
	for _, v := range nodes {
		if f.label[v] != None {
			f.known--
		}
		if f.counts == nil {
			f.label[v] = None
			continue
		}
		f.change(v, func() {
			clear(f.served.Row(v))
			f.label[v] = None
		})
	}
	if f.counts != nil {
		for _, v := range nodes {
			clear(f.counts.Row(v))
		}
	}
}

// appendCounts appends n_v and q_v of node v, whose neighbours are near; without are
// others that are left out.
func (r *Reader) appendCounts(rows *pool.Rows, v int32, near, without []int32) {
	f := r.of
	if f.counts == nil {
		return
	}
	sums := r.difference
	copy(sums, f.counts.Row(v))
	for _, u := range without {
		f.part(sums, u, minus)
	}
	rows.Labelled = appendUnits(rows.Labelled, sums)
	r.appendKinds(rows, without, func(count func(u int32, mean uint8, weight float32)) { f.graph.EachWeighed(v, count) })
	clear(sums)
	f.part(sums, v, 1)
	r.appendSecond(rows, near, sums, 0)
}

// appendKinds appends n by kind of edge, of the neighbours for which each calls count; without are
// left out. An edge counts with its weight over the mean of those in its mean: the unit of weights is
// not heard, as the encoder does not, and equal ones count as one each. Sums with weights
// would not be exact as edges and labels come and go, so these are computed when they are read.
func (r *Reader) appendKinds(rows *pool.Rows, without []int32, each func(count func(u int32, mean uint8, weight float32))) {
	f := r.of
	if f.wants.need&pool.NeedKinds == 0 {
		return
	}
	c := f.classes
	clear(r.kinds)
	clear(r.weights)
	each(func(u int32, mean uint8, weight float32) {
		if slices.Contains(without, u) {
			return
		}
		w, sums := float64(weight), r.kinds[int(mean)*c:][:c]
		r.weights[mean][0] += w
		r.weights[mean][1]++
		if y := f.label[u]; y != None {
			sums[y] += float64(w * whole)
			return
		}
		for k, s := range f.served.Row(u) {
			if s > 0 {
				sums[k] += float64(w * float64(s))
			}
		}
	})
	for k, w := range r.weights {
		by := 0.0
		if w[1] > 0 {
			by = w[1] / (w[0] * whole)
		}
		for _, sum := range r.kinds[k*c : (k+1)*c] {
			rows.Kinds = append(rows.Kinds, float32(sum*by))
		}
	}
}

// appendCountsOf appends n and q of a new node with the given neighbours.
func (r *Reader) appendCountsOf(rows *pool.Rows, near []int32, weighed []gnn.WeighedEdge) {
	f := r.of
	if f.counts == nil {
		return
	}
	sums := r.difference
	clear(sums)
	for _, u := range near {
		f.part(sums, u, 1)
	}
	rows.Labelled = appendUnits(rows.Labelled, sums)
	r.appendKinds(rows, nil, func(count func(u int32, mean uint8, weight float32)) {
		for _, e := range weighed {
			if e.Source == int32(f.graph.Len()) {
				count(e.Target, e.AtSource, e.Weight)
			} else {
				count(e.Source, e.AtTarget, e.Weight)
			}
		}
	})
	clear(sums)
	r.appendSecond(rows, near, sums, 1)
}

// appendUnits appends sums as numbers of neighbours.
func appendUnits(to []float32, sums []uint32) []float32 {
	for _, n := range sums {
		to = append(to, float32(n)*(1.0/whole))
	}
	return to
}

// appendSecond appends q for a node with the given neighbours, each of which has its own
// part in its counts; that is left out. more is added to the neighbours' degrees: 1 if
// they do not include the node yet.
func (r *Reader) appendSecond(rows *pool.Rows, near []int32, own []uint32, more int) {
	f := r.of
	if f.wants.need&pool.NeedSecond == 0 {
		return
	}
	second := r.second
	clear(second)
	kernel.Prefetch(f.counts, near, 0, f.classes)
	for _, u := range near {
		by := 1 / float64(whole*(f.graph.Degree(u)+more))
		counts := f.counts.Row(u)[:len(second)]
		for c, n := range own[:len(second)] {
			second[c] += float64(float64(counts[c]-n) * by)
		}
	}
	for _, q := range second {
		rows.Second = append(rows.Second, float32(q))
	}
}
