package neighbourhood

import (
	"math/bits"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/posterior/pool"
)

// The sums s run in float64 and are rounded to float32 for a row, so they are right
// for a million neighbours: off by 2⁻²⁴ and n·2⁻⁵³ of the sum of absolute values. Only
// those of up to hubDegree dense vectors run in float32, off by hubDegree·2⁻²⁴ of it at
// most. Either way the terms are added in the order of the adjacency list.

// hubDegree is the largest degree at which s is not cached.
const hubDegree = 32

// hub is the cached sum s of a node of more than hubDegree neighbours.
type hub struct {
	sum
	summed int // s is the sum over this many neighbours, the first of the list
}

// sum is a sum of feature vectors.
type sum struct {
	index []int32 // of its values, ascending, if features are sparse
	value []float64
}

// forget drops the cached sum of v.
func (f *Features) forget(v int32) { delete(f.hubs, v) }

// appendSum appends s and the degree for the given neighbours, and counts the row. If they
// are those of node v in the graph, its sum is cached; otherwise v is None.
func (r *Reader) appendSum(rows *pool.Rows, v int32, near []int32) {
	f := r.of
	rows.N++
	rows.Degree = append(rows.Degree, int32(len(near)))
	switch {
	case f.wants.need&pool.NeedS == 0:
	case len(near) > hubDegree && v != None:
		f.append(&rows.S, r.hub(v, near))
	case len(near) > hubDegree || f.sparse != nil:
		s := &r.scratch
		clear(s.value)
		if f.sparse != nil {
			s.index, s.value = s.index[:0], s.value[:0]
		}
		r.extend(s, near)
		f.append(&rows.S, s)
	default:
		at := len(rows.S.Dense)
		rows.S.Dense = append(rows.S.Dense, make([]float32, f.features)...)
		kernel.Prefetch(f.dense, near, 0, f.features)
		for _, u := range near {
			kernel.Add(rows.S.Dense[at:], f.dense.Row(u))
		}
	}
}

// Ready brings the cached sums of nodes up to date, so that readers only read them.
func (f *Features) Ready(nodes []int32) {
	if f.wants.need&pool.NeedS == 0 {
		return
	}
	for _, v := range nodes {
		if near := f.graph.Neighbours(v); len(near) > hubDegree {
			f.Reader.hub(v, near)
		}
	}
}

// hub returns the cached sum of v, whose neighbours are near.
func (r *Reader) hub(v int32, near []int32) *sum {
	h := r.of.hubs[v]
	if h == nil {
		h = &hub{}
		r.of.hubs[v] = h
	}
	if h.summed < len(near) {
		r.extend(&h.sum, near[h.summed:])
		h.summed = len(near)
	}
	return &h.sum
}

// append appends a sum to x.
func (f *Features) append(x *pool.Features, s *sum) {
	if f.dense != nil {
		for _, value := range s.value {
			x.Dense = append(x.Dense, float32(value))
		}
		return
	}
	x.Index = append(x.Index, s.index...)
	for _, value := range s.value {
		x.Value = append(x.Value, float32(value))
	}
	x.Start = append(x.Start, len(x.Index))
}

// extend adds the features of nodes to a sum.
func (r *Reader) extend(s *sum, nodes []int32) {
	f := r.of
	if f.dense != nil {
		if s.value == nil {
			s.value = make([]float64, f.features)
		}
		for _, u := range nodes {
			for j, x := range f.dense.Row(u)[:len(s.value)] {
				s.value[j] += float64(x)
			}
		}
		return
	}
	a := &r.adder
	for k, j := range s.index {
		a.add(j, s.value[k])
	}
	for _, u := range nodes {
		norm := f.norms[u]
		for _, e := range f.sparse.view(u) {
			a.add(e.index, float64(float32(e.value*norm)))
		}
	}
	a.drain(s)
}

// adder adds up sparse vectors: it has a value for every feature, and a bit for each that
// was added to.
type adder struct {
	value   []float64
	present []uint64
}

func newAdder(features int) adder {
	return adder{value: make([]float64, features), present: make([]uint64, (features+63)/64)}
}

func (a *adder) add(j int32, x float64) {
	a.present[j>>6] |= 1 << (j & 63)
	a.value[j] += x
}

// drain moves the sum to s.
func (a *adder) drain(s *sum) {
	s.index, s.value = s.index[:0], s.value[:0]
	for i, word := range a.present {
		for ; word != 0; word &= word - 1 {
			j := i<<6 | bits.TrailingZeros64(word)
			s.index, s.value = append(s.index, int32(j)), append(s.value, a.value[j])
			a.value[j] = 0
		}
		a.present[i] = 0
	}
}
