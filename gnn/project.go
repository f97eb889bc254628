package gnn

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// projection is the product of features, dense or sparse, with a matrix.
type projection struct {
	weight  []float32 // in×out, row-major
	in, out int
}

// row adds the product of x to dst.
func (p *projection) row(dst []float32, x Vector) {
	if x.Dense == nil {
		kernel.Gather(dst[:p.out], x.Index, x.Value, p.weight, p.out)
		return
	}
	kernel.Product(dst[:p.out], x.Dense, p.weight)
}

// rows adds the product of each of the vectors to a row of dst, whose rows are
// stride entries apart. Consecutive dense vectors are copied to buf and multiplied
// together. It returns buf, which may have grown.
func (p *projection) rows(dst []float32, stride int, x []Vector, buf []float32) []float32 {
	for len(x) > 0 {
		n := 0
		for n < len(x) && x[n].Dense != nil {
			n++
		}
		if n < 2 {
			p.row(dst, x[0])
			n = 1
		} else {
			buf = buf[:0]
			for _, v := range x[:n] {
				buf = append(buf, v.Dense...)
			}
			kernel.ProductRowsApart(dst, stride, buf, p.weight, n, p.in, p.out)
		}
		dst, x = dst[min(n*stride, len(dst)):], x[n:]
	}
	return buf
}

// project sets the rows of dst, zeros, to the encoder's self terms of the features. It panics when
// they do not fit.
func (r *room) project(e Encoder, dst rows, x []Vector) {
	p := e.projection()
	for from := 0; from < len(x); from += blockRows {
		some := x[from:min(from+blockRows, len(x))]
		for _, v := range some {
			checkFeatures(v, p.in)
		}
		r.dense = p.rows(dst.x[from*dst.width:], dst.width, some, r.dense)
	}
	for i := range x {
		e.finishSelf(dst.at(int32(i)))
	}
}

// project sets self to the encoder's self term of the features. It panics when they
// do not fit.
func project(e Encoder, self []float32, x Vector) {
	checkFeatures(x, e.In())
	clear(self)
	p := e.projection()
	p.row(self, x)
	e.finishSelf(self)
}

// checkFeatures panics when x cannot be multiplied by a matrix of dim rows. It does
// not check that sparse indices increase; [Vector.Validate] does.
func checkFeatures(x Vector, dim int) {
	switch {
	case x.Dense == nil && (len(x.Index) != len(x.Value) || len(x.Index) > 0 && int(x.Index[len(x.Index)-1]) >= dim):
		panic(fmt.Sprintf("gnn: sparse features do not fit dimension %d", dim))
	case x.Dense != nil && len(x.Dense) != dim:
		panic(fmt.Sprintf("gnn: %d features, want %d", len(x.Dense), dim))
	}
}
