package gnn

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// projection multiplies features, dense or sparse, by a matrix.
type projection struct {
	weight  []float32 // in×out, row-major
	in, out int
	dense   []float32 // room for the features of some rows, one after the other
}

// rows adds to dst, of which the rows stand the given number of entries apart,
// the products of as many vectors, which fit. Dense vectors that follow each
// other are multiplied together.
func (p *projection) rows(dst []float32, apart int, x []Vector) {
	for len(x) > 0 {
		if x[0].Dense == nil {
			kernel.Gather(dst[:p.out], x[0].Index, x[0].Value, p.weight, p.out)
			dst, x = dst[min(apart, len(dst)):], x[1:]
			continue
		}
		p.dense = p.dense[:0]
		n := 0
		for ; n < len(x) && x[n].Dense != nil; n++ {
			p.dense = append(p.dense, x[n].Dense...)
		}
		kernel.ProductRowsApart(dst, apart, p.dense, p.weight, n, p.in, p.out)
		dst, x = dst[min(n*apart, len(dst)):], x[n:]
	}
}

// project sets own to what the encoder makes of the features alone. It panics
// when they do not fit.
func project(e Encoder, own []float32, x Vector) {
	checkFeatures(x, e.In())
	weight, out := e.bottom()
	clear(own)
	p := projection{weight: weight, in: e.In(), out: out, dense: x.Dense}
	p.rows(own, len(own), []Vector{x})
	e.settle(own)
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
