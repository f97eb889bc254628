package pipeline

import (
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// pooledShard is the serving of a shard with a pool of heads. It has the features and labels
// around all nodes, as every shard has; the pool predicts and does not learn.
type pooledShard struct{ *pooled }

var _ sliced = pooledShard{}

// serve leaves what the nodes count for to be sent: this shard hears it when all do, see
// [hearing].
func (p pooledShard) serve(nodes []int32, embedded posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	p.predictAll(nodes, embedded, outputs, split)
}

func (p pooledShard) preparePart(b *batch, all []int32, to *pool.Part) {
	p.prepareRows(b, &to.Batch)
	to.Positions = append(to.Positions[:0], b.places...)
	p.around.FillPart(to, all, p.spec.Refreshes())
}
