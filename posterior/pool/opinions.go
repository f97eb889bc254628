package pool

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// opinions are what the heads of a pool said of n rows, as its weights read them.
type opinions struct {
	heads, classes int     // K, C
	stride         int     // K rounded up to whole registers
	floor          float64 // what lower log probabilities count as

	a          []float64 // a_k(c) = max(log p_k(c), floor), n × K × C
	transposed []float64 // the same, n × C × stride
}

func newOpinions(heads, classes int, floor float64) *opinions {
	return &opinions{heads: heads, classes: classes, stride: strideOf(heads), floor: floor}
}

// load sets a from the heads' log probabilities of n rows; at(i, k) returns those of
// head k for row i.
func (o *opinions) load(n int, at func(i, k int) []float32) {
	o.a = kernel.Resize(o.a, n*o.heads*o.classes)
	for i := range n {
		for k := range o.heads {
			from := (i*o.heads + k) * o.classes
			double.Raise(o.a[from:from+o.classes], at(i, k), o.floor)
		}
	}
}

// transpose sets transposed from a, which only learning needs.
func (o *opinions) transpose(n int) {
	size := o.classes * o.stride
	o.transposed = kernel.Resize(o.transposed, n*size)
	if o.stride > o.heads {
		clear(o.transposed)
	}
	for i := range n {
		to := o.transposed[i*size : (i+1)*size]
		for k := range o.heads {
			from := (i*o.heads + k) * o.classes
			for c, x := range o.a[from : from+o.classes] {
				to[c*o.stride+k] = x
			}
		}
	}
}
