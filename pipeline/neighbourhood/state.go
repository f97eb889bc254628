package neighbourhood

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// The tensors of n nodes' features.
const (
	tensorDense  = "features.rows"    // F32, n × d; or, for sparse features,
	tensorLength = "features.lengths" // I32, n: number of nonzero features
	tensorIndex  = "features.index"   // I32, their indices, by node
	tensorValue  = "features.value"   // F32
	tensorServed = "features.served"  // U8, n × C: what was served; see counts.go
	tensorSweep  = "features.sweep"   // I32: where the sweep over labelled nodes is; see batch.go
)

// State declares the features of n nodes and what was served for them. Everything else is
// derived from that, the graph and the labels.
//
// When restoring, f must be empty and the graph have its edges. The restored nodes are
// unlabelled: the caller sets their labels.
func (f *Features) State(s *snapshot.Schema, n int) {
	switch {
	case f.dense != nil:
		snapshot.Rows(s, tensorDense, f.dense, &f.frozen.dense, checkFinite, n, f.features)
	case f.sparse != nil:
		f.sparseState(s, n)
	}
	if f.counts != nil {
		snapshot.Rows(s, tensorServed, f.served, &f.frozen.served, f.checkServed, n, f.classes)
	}
	if f.wants.replay > 0 {
		snapshot.Value(s, tensorSweep, &f.next)
	}
	s.Check(func() error {
		f.label = slices.Repeat([]int32{None}, n)
		if f.next < 0 || int(f.next) > n {
			return snapshot.Damaged("features: a sweep has come to node %d of %d", f.next, n)
		}
		if f.counts != nil {
			f.counts.Grow(n)
			for v := range int32(n) {
				for _, u := range f.graph.Neighbours(v) {
					f.part(f.counts.Row(v), u, 1)
				}
			}
		}
		return nil
	})
}

func (f *Features) checkServed(parts []uint8) error {
	for _, x := range parts {
		if float64(x) > float64(whole*f.wants.share)+0.5 {
			return snapshot.Damaged("features: %d/%d of what was served, a probability has at most %v", x, whole, f.wants.share)
		}
	}
	return nil
}

func (f *Features) sparseState(s *snapshot.Schema, n int) {
	s.Freeze(&f.frozen.sparse, n)
	lengths, indices, values := f.frozen.sparse.Walk(f.sparse.view), f.frozen.sparse.Walk(f.sparse.view),
		f.frozen.sparse.Walk(f.sparse.view)
	length := snapshot.Column(s, tensorLength, func() int32 { return int32(len(lengths())) }, n)
	all := s.Len(tensorIndex, f.sparse.entries, math.MaxInt)
	index := snapshot.Lists(s, tensorIndex, project(indices, func(e entry) int32 { return e.index }), all)
	value := snapshot.Lists(s, tensorValue, project(values, func(e entry) float32 { return e.value }), all)
	s.Check(func() error {
		f.sparse.grow(n)
		f.norms = make([]float32, n)
		for v, m := range length {
			if m < 0 || int(m) > len(index) {
				return snapshot.Damaged("features: node %d has %d, there are %d more", v, m, len(index))
			}
			f.Reader.entries = f.Reader.entries[:0]
			last := int32(-1)
			for k, j := range index[:m] {
				if j <= last || int(j) >= f.features || value[k] == 0 || !finite(value[k]) {
					return snapshot.Damaged("features: node %d has feature %d of value %v after feature %d, of %d", v, j,
						value[k], last, f.features)
				}
				f.Reader.entries = append(f.Reader.entries, entry{j, value[k]})
				last = j
			}
			f.sparse.set(int32(v), f.Reader.entries)
			f.norms[v] = inverseNorm(f.Reader.entries)
			index, value = index[m:], value[m:]
		}
		if len(index) > 0 {
			return snapshot.Damaged("features: %d of no node", len(index))
		}
		return nil
	})
}

// project returns a function that returns one field of the entries of the next vector,
// valid until it is called again.
func project[T safetensors.Element](next func() []entry, field func(entry) T) func() []T {
	var fields []T
	return func() []T {
		fields = fields[:0]
		for _, e := range next() {
			fields = append(fields, field(e))
		}
		return fields
	}
}

// keep lets an open snapshot copy the features of v before they change.
func (f *Features) keep(v int32) {
	switch {
	case f.frozen.dense.Wants(v):
		f.frozen.dense.Keep(v, f.dense.Row(v))
	case f.frozen.sparse.Wants(v):
		f.frozen.sparse.Keep(v, f.sparse.view(v))
	}
}

func checkFinite(features []float32) error {
	for _, x := range features {
		if !finite(x) {
			return snapshot.Damaged("features: one is %v", x)
		}
	}
	return nil
}

func finite(x float32) bool { return math.Abs(float64(x)) <= math.MaxFloat32 }
