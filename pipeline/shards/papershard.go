package shards

import (
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// paperShard is the serving of a shard with the paper's heads, which read nothing around a node.
type paperShard struct{ *heads.Paper }

var _ shardHeads = paperShard{}

func (p paperShard) gather([]int32, *surroundings) {}

func (p paperShard) serveGathered(_ *surroundings, rows posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	p.Serve(nil, rows, outputs, split)
}

func (p paperShard) gatherPart(joined []serve.Joined, _ []int32, to *pool.Part) {
	to.Positions = to.Positions[:0]
	for _, j := range joined {
		to.Positions = append(to.Positions, j.Place)
	}
}

func (p paperShard) completePart(b *heads.Batch, to *pool.Part) { p.Prepare(b, &to.Batch) }
