package pool

import (
	"fmt"
	"reflect"
)

// TakeOver takes over what another pool has learned that does not depend on its encoder:
// counts of labels and features, the weights of wide heads,
// and the weights and the mixture of the pool. What was learned beside another embedding, the
// last three, keeps the share keep in (0, 1) of its precision, or of its scores, and gets
// the rest from the prior. The
// paper's heads stay as they are, and so do scores and numbers of batches.
//
// The other pool must have the same configuration and number of features. Its classes are
// the first ones of p's: what concerns the others stays as it is.
func (p *Pool) TakeOver(from *Pool, keep float64) error {
	switch {
	case !reflect.DeepEqual(p.cfg, from.cfg):
		return fmt.Errorf("pool: its heads or their constants differ from those that it would take over")
	case p.shape.Features != from.shape.Features || p.shape.Means != from.shape.Means:
		return fmt.Errorf("pool: %d features and %d means over edges, those to take over are of %d and %d",
			p.shape.Features, p.shape.Means, from.shape.Features, from.shape.Means)
	case p.shape.Classes < from.shape.Classes:
		return fmt.Errorf("pool: %d classes, those to take over are %d", p.shape.Classes, from.shape.Classes)
	case !(keep > 0 && keep < 1):
		panic(fmt.Sprintf("pool: a share of %v to take over", keep))
	}
	for j, w := range p.weights {
		w.takeOver(from.weights[j], keep)
	}
	if p.mixture != nil {
		p.mixture.takeOver(from.mixture, keep)
	}
	for k, h := range p.heads {
		h.takeOver(from.heads[k], keep)
	}
	return nil
}

// copyClasses copies the first classes of every row.
func copyClasses(to []float64, toStride int, from []float64, fromStride, classes int) {
	for at, row := 0, 0; at < len(from); at, row = at+fromStride, row+toStride {
		copy(to[row:row+classes], from[at:])
	}
}
