package train

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/elementary"
)

// float is the type of a network's numbers: float32 to train, on package kernel,
// and float64 to check gradients by differences, by the plain loops below, which
// define what the kernels compute.
type float interface{ float32 | float64 }

// gather computes dst[j] += Σ_t value[t]·rows[index[t]·stride+j].
func gather[T float](dst []T, index []int32, value, rows []T, stride int) {
	if d, ok := any(dst).([]float32); ok {
		kernel.Gather(d, index, any(value).([]float32), any(rows).([]float32), stride)
		return
	}
	for t, i := range index {
		row := rows[int(i)*stride:]
		for j := range dst {
			dst[j] += T(value[t] * row[j])
		}
	}
}

// products computes n rows of dst += x·w: dst is n×out, x n×in, w in×out.
func products[T float](dst, x, w []T, n, in, out int) {
	if d, ok := any(dst).([]float32); ok {
		kernel.ProductRows(d, any(x).([]float32), any(w).([]float32), n, in, out)
		return
	}
	for i := range n {
		for k := range in {
			for j := range out {
				dst[i*out+j] += T(x[i*in+k] * w[k*out+j])
			}
		}
	}
}

// axpy computes dst[j] += a·x[j].
func axpy[T float](dst []T, a T, x []T) {
	if d, ok := any(dst).([]float32); ok {
		kernel.Axpy(d, float32(a), any(x).([]float32))
		return
	}
	for j := range dst {
		dst[j] += T(a * x[j])
	}
}

// rectify computes dst[j] = max(x[j], 0).
func rectify[T float](dst, x []T) {
	if d, ok := any(dst).([]float32); ok {
		kernel.Rectify(d, any(x).([]float32))
		return
	}
	for j, v := range x {
		dst[j] = max(v, 0)
	}
}

// gate computes dst[j] = a·dst[j] where x[j] > 0, and 0 elsewhere.
func gate[T float](dst, x []T, a T) {
	if d, ok := any(dst).([]float32); ok {
		kernel.Gate(d, any(x).([]float32), float32(a))
		return
	}
	for j, v := range x {
		if v > 0 {
			dst[j] *= a
		} else {
			dst[j] = 0
		}
	}
}

// sumRows sets dst to the sum of the rows of x, each as long as dst.
func sumRows[T float](dst, x []T) {
	clear(dst)
	for ; len(x) > 0; x = x[len(dst):] {
		axpy(dst, 1, x[:len(dst)])
	}
}

// dot is Σ x[j]·y[j], j ascending.
func dot[T float](x, y []T) (s T) {
	y = y[:len(x)]
	for j, a := range x {
		s += T(a * y[j])
	}
	return s
}

// convert sets dst to src in another type.
func convert[D, S float](dst []D, src []S) {
	for i, v := range src {
		dst[i] = D(v)
	}
}

// exportVector returns a copy of src as package gnn has it.
func exportVector[T float](src []T) []float32 {
	dst := make([]float32, len(src))
	convert(dst, src)
	return dst
}

// exportWeight returns the weight w, in×out, as package gnn has it: out×in.
func exportWeight[T float](w []T, in, out int) []float32 {
	weight := make([]float32, len(w))
	kernel.Transpose(weight, w, in, out)
	return weight
}

// exp is e^x.
func exp[T float](x T) T { return T(elementary.Exp(float64(x))) }
