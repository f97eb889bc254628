package gnn

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// projection multiplies features, dense or sparse, by a matrix.
type projection struct {
	weight  []float32 // in×out, row-major
	in, out int
}

// row adds the product of a vector, which fits, to dst.
func (p *projection) row(dst []float32, x Vector) {
	if x.Dense == nil {
		kernel.Gather(dst[:p.out], x.Index, x.Value, p.weight, p.out)
		return
	}
	kernel.Product(dst[:p.out], x.Dense, p.weight)
}

// rows is row for each of some vectors and rows of dst, which stand the given
// number of entries apart. Dense vectors that follow each other are multiplied
// together. It returns room, larger if need be, where they were laid out.
func (p *projection) rows(dst []float32, apart int, x []Vector, room []float32) []float32 {
	for len(x) > 0 {
		n := 0
		for n < len(x) && x[n].Dense != nil {
			n++
		}
		if n < 2 {
			p.row(dst, x[0])
			n = 1
		} else {
			room = room[:0]
			for _, v := range x[:n] {
				room = append(room, v.Dense...)
			}
			kernel.ProductRowsApart(dst, apart, room, p.weight, n, p.in, p.out)
		}
		dst, x = dst[min(n*apart, len(dst)):], x[n:]
	}
	return room
}

// project sets own to what the encoder makes of the features alone. It panics
// when they do not fit.
func project(e Encoder, self []float32, x Vector) {
	checkFeatures(x, e.In())
	clear(self)
	p := e.projection()
	p.row(self, x)
	e.finishSelf(self)
}

// checkFeatures panics when x cannot be multiplied by a matrix of dim rows.
// Whether the indices ascend is not looked at here, see [Vector.Validate].
func checkFeatures(x Vector, dim int) {
	switch {
	case x.Dense == nil && (len(x.Index) != len(x.Value) || len(x.Index) > 0 && int(x.Index[len(x.Index)-1]) >= dim):
		panic(fmt.Sprintf("gnn: sparse features do not fit dimension %d", dim))
	case x.Dense != nil && len(x.Dense) != dim:
		panic(fmt.Sprintf("gnn: %d features, want %d", len(x.Dense), dim))
	}
}
