package shards

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// pooledShard is the serving of a shard with a pool of heads. It has the features and labels
// around all nodes, as every shard has; the pool predicts and does not learn.
//
// What it serves does not count at neighbours yet: this shard hears it when all do, see
// [softLabelExchange].
type pooledShard struct{ *heads.Pool }

var _ shardHeads = pooledShard{}

func (p pooledShard) gather(nodes []int32, to *surroundings) {
	to.n = 0
	for from := 0; from < len(nodes); from += heads.Chunk {
		p.First.Gather(to.next(), nodes[from:min(from+heads.Chunk, len(nodes))])
	}
}

func (p pooledShard) serveGathered(around *surroundings, embedded posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	p.Served = kernel.Room(p.Served, embedded.Len()*p.Around.Reader.PartBytes())
	from := 0
	for _, rows := range around.chunks[:around.n] {
		p.PredictRows(p.First, rows, from, embedded, outputs, split)
		from += rows.N
	}
}

func (p pooledShard) gatherPart(joined []serve.Joined, all []int32, to *pool.Part) {
	p.Around.Reader.Reset(&to.Rows)
	to.Positions = to.Positions[:0]
	for _, j := range joined {
		p.Around.Reader.AppendFeatures(&to.Rows, j.Number)
		to.Positions = append(to.Positions, j.Place)
	}
	p.Around.FillPart(to, all)
}

func (p pooledShard) completePart(b *heads.Batch, to *pool.Part) { p.AppendAllServed(b, &to.Batch) }
