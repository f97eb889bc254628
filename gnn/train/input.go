package train

import "github.com/gvbll/gvbll/gnn/kernel"

// input is a layer's input X, rows×width: the features, or states after
// activation and dropout. Bags of words are sparse, everything else is dense.
type input[T float] struct {
	rows, width int
	dense       []T
	sparse      *sparse[T] // instead of dense
	grad        []T        // of dense; nil if no layer below needs it

	// Storage of backward:
	columns sparse[T] // Xᵀ of a sparse X
	blockT  []T       // the transpose of a block of dense
	weightT []T       // wᵀ
}

// blockRows is the number of rows of dense that are transposed at once: with 128
// columns 256 KiB, which stay in the second-level cache.
const blockRows = 512

// times sets dst to X·w, with w width×out.
func (x *input[T]) times(dst, w []T, out int) {
	clear(dst)
	if x.sparse == nil {
		products(dst, x.dense, w, x.rows, x.width, out)
		return
	}
	for i := range x.rows {
		index, value := x.sparse.row(i)
		gather(dst[i*out:(i+1)*out], index, value, w, out)
	}
}

// backward sets dw to Xᵀ·dy, with dy rows×out, and grad, unless nil, to dy·wᵀ.
func (x *input[T]) backward(dw, dy, w []T, out int) {
	clear(dw)
	if x.sparse != nil {
		x.sparse.transpose(&x.columns)
		for k := range x.width {
			index, value := x.columns.row(k)
			gather(dw[k*out:(k+1)*out], index, value, dy, out)
		}
		return
	}
	for i := 0; i < x.rows; i += blockRows {
		n := min(blockRows, x.rows-i)
		x.blockT = kernel.Resize(x.blockT, n*x.width)
		kernel.Transpose(x.blockT, x.dense[i*x.width:(i+n)*x.width], n, x.width)
		products(dw, x.blockT, dy[i*out:(i+n)*out], x.width, n, out)
	}
	if x.grad != nil {
		x.weightT = kernel.Resize(x.weightT, len(w))
		kernel.Transpose(x.weightT, w, x.width, out)
		clear(x.grad)
		products(x.grad, dy, x.weightT, x.rows, out, x.width)
	}
}
