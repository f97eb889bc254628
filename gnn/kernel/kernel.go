package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/gvbll/gvbll/gnn/kernel/level"
)

//go:generate go run -modfile=../../.ci/tools.mod gen/main.go gen/single.go gen/double.go gen/averages.go gen/sparse.go -out kernel_amd64.s -stubs stubs_amd64.go -choice choice_amd64.go -other stubs_other.go -pkg kernel

// Gather computes dst[j] += Σ_t value[t]·rows[index[t]·stride+j], t ascending:
// a sparse row times a matrix whose rows are stride entries apart.
func Gather[I int32 | uint32](dst []float32, index []I, value, rows []float32, stride int) {
	if len(value) != len(index) {
		panic(fmt.Sprintf("kernel: %d indices with %d values", len(index), len(value)))
	}
	if !fits(dst, index, rows, stride) {
		return
	}
	i := signed(index)
	if level.Active != level.Plain {
		gather(&dst[0], len(dst), &i[0], &value[0], len(i), &rows[0], stride)
		return
	}
	for ; len(i) >= 4; i, value = i[4:], value[4:] {
		axpy4(dst, value, rows[int(i[0])*stride:], rows[int(i[1])*stride:], rows[int(i[2])*stride:], rows[int(i[3])*stride:])
	}
	for t, i := range i {
		Axpy(dst, value[t], rows[int(i)*stride:])
	}
}

// GatherSum is [Gather] with all values 1.
func GatherSum[I int32 | uint32](dst []float32, index []I, rows []float32, stride int) {
	if !fits(dst, index, rows, stride) {
		return
	}
	if i := signed(index); level.Active != level.Plain {
		gatherSum(&dst[0], len(dst), &i[0], len(i), &rows[0], stride)
		return
	}
	for _, i := range index {
		Add(dst, rows[int(i)*stride:])
	}
}

// fits panics when a row is out of range, and reports whether there is anything
// to do.
func fits[I int32 | uint32](dst []float32, index []I, rows []float32, stride int) bool {
	if len(dst) == 0 || len(index) == 0 {
		return false
	}
	if stride < 0 || len(rows) < len(dst) {
		panic(fmt.Sprintf("kernel: rows of %d numbers, %d apart, in %d", len(dst), stride, len(rows)))
	}
	var most uint32 // negative indices are large
	for _, i := range index {
		most = max(most, uint32(i))
	}
	if stride > 0 && uint64(most) > uint64((len(rows)-len(dst))/stride) || most > 1<<31-1 {
		panic(fmt.Sprintf("kernel: row %d of %d numbers, %d apart, in %d", int32(most), len(dst), stride, len(rows)))
	}
	return true
}

// signed returns indices that passed fits, none of which is above an int32, as
// the type that the kernels read.
func signed[I int32 | uint32](index []I) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(index))), len(index))
}

// Product computes dst[j] += Σ_k x[k]·w[k·len(dst)+j], k ascending: a dense row
// times a matrix of len(x) rows.
func Product(dst, x, w []float32) {
	if len(w) != len(x)*len(dst) {
		panic(fmt.Sprintf("kernel: %d numbers times a matrix of %d into %d", len(x), len(w), len(dst)))
	}
	if len(dst) > 0 && len(x) > 0 {
		productColumns(dst, x, w, len(dst))
	}
}

// productColumns is [Product] with the first len(dst) columns of a matrix whose
// rows are stride entries apart.
func productColumns(dst, x, w []float32, stride int) {
	if level.Active != level.Plain {
		product(&dst[0], len(dst), &x[0], len(x), &w[0], stride)
		return
	}
	k := 0
	for ; k+4 <= len(x); k += 4 {
		axpy4(dst, x[k:], w[k*stride:], w[(k+1)*stride:], w[(k+2)*stride:], w[(k+3)*stride:])
	}
	for ; k < len(x); k++ {
		Axpy(dst, x[k], w[k*stride:])
	}
}

// ProductRows is [Product] for each of n rows: dst is n×out, x n×in and w
// in×out, all row-major.
func ProductRows(dst, x, w []float32, n, in, out int) {
	if n < 0 || out < 0 || len(dst) != n*out {
		panic(fmt.Sprintf("kernel: %d numbers for %d×%d", len(dst), n, out))
	}
	ProductRowsApart(dst, out, x, w, n, in, out)
}

// ProductRowsApart is [ProductRows] with the rows of dst apart entries from
// each other, at least out. It leaves the entries between them unchanged; there
// need be none after the last.
func ProductRowsApart(dst []float32, apart int, x, w []float32, n, in, out int) {
	if n < 0 || in < 0 || out < 0 || apart < out || len(x) != n*in || len(w) != in*out || n > 0 && len(dst) < (n-1)*apart+out {
		panic(fmt.Sprintf("kernel: %d×%d (%d numbers) times %d×%d (%d) into %d, rows %d apart", n, in, len(x), in, out,
			len(w), len(dst), apart))
	}
	if in == 0 || out == 0 {
		return
	}
	i := 0
	for ; i+4 <= n && level.Active != level.Plain; i += 4 {
		d, x := dst[i*apart:(i+3)*apart+out], x[i*in:(i+4)*in]
		done := productRows4(&d[0], out, apart, &x[0], in, &w[0])
		for r := range 4 {
			if done < out {
				productColumns(d[r*apart+done:r*apart+out], x[r*in:(r+1)*in], w[done:], out)
			}
		}
	}
	for ; i < n; i++ {
		productColumns(dst[i*apart:i*apart+out], x[i*in:(i+1)*in], w, out)
	}
}

// AdamStep has the constants of a step of Kingma and Ba (Adam: A Method for
// Stochastic Optimization, 2015, Algorithm 1).
type AdamStep struct {
	Size         float32 // α/(1-β1^t), with α the learning rate
	Root         float32 // 1/√(1-β2^t)
	Decay        float32 // coefficient of an L2 term of the loss
	Beta1, Beta2 float32
	Epsilon      float32
}

// Adam changes param by one step against grad, with the moments first (m) and
// second (v):
//
//	g = grad + decay·param
//	m = β1·m + (1-β1)·g
//	v = β2·v + (1-β2)·g²
//	param -= size·m / (√v·root + ε)
func Adam(param, grad, first, second []float32, s AdamStep) {
	grad, first, second = grad[:len(param)], first[:len(param)], second[:len(param)]
	c1, c2 := 1-s.Beta1, 1-s.Beta2
	if vectors(param) {
		adam(&param[0], len(param), &grad[0], &first[0], &second[0], s.Size, s.Root, s.Decay, s.Beta1, c1, s.Beta2, c2, s.Epsilon)
		return
	}
	for i, p := range param {
		g := grad[i] + float32(s.Decay*p)
		m := float32(s.Beta1*first[i]) + float32(c1*g)
		v := float32(s.Beta2*second[i]) + float32(c2*float32(g*g))
		first[i], second[i] = m, v
		param[i] = p - float32(s.Size*m)/(float32(float32(math.Sqrt(float64(v)))*s.Root)+s.Epsilon)
	}
}
