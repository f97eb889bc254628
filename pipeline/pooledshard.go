package pipeline

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// pooledShard is the serving of a shard with a pool of heads. It has the features and labels
// around all nodes, as every shard has; the pool predicts and does not learn.
//
// What it serves does not count at neighbours yet: this shard hears it when all do, see
// [hearing].
type pooledShard struct{ *pooled }

var _ sliced = pooledShard{}

func (p pooledShard) gather(nodes []int32, to *surroundings) {
	to.n = 0
	for from := 0; from < len(nodes); from += chunk {
		p.first.gather(to.next(), nodes[from:min(from+chunk, len(nodes))])
	}
}

func (p pooledShard) serveGathered(around *surroundings, embedded posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	p.served = kernel.Room(p.served, embedded.Len()*p.around.PartBytes())
	from := 0
	for _, rows := range around.chunks[:around.n] {
		p.tell(p.first, rows, from, embedded, outputs, split)
		from += rows.N
	}
}

func (p pooledShard) gatherPart(joined []joined, all []int32, to *pool.Part) {
	p.around.Reset(&to.Rows)
	to.Positions = to.Positions[:0]
	for _, j := range joined {
		p.around.AppendFeatures(&to.Rows, j.number)
		to.Positions = append(to.Positions, j.place)
	}
	p.around.FillPart(to, all, p.spec.Refreshes())
}

func (p pooledShard) completePart(b *batch, to *pool.Part) { p.appendAllServed(b, &to.Batch) }
