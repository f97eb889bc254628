package heads

import (
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
	"github.com/gvbll/gvbll/pipeline/structure"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Pool is the serving with the model's pool of heads. It follows the graph, since the heads
// use features and labels of neighbours. Outputs are log probabilities, the pool's, then each
// head's and those of its products, followed by the counts of labels around the node, n_v and
// q_v, C numbers each, and n_v by kind of edge, C for each mean, if a head reads it.
type Pool struct {
	pool    *pool.Pool
	spec    pool.Config
	classes int
	kinds   int               // means by which labels around a node are counted, see pool.Rows
	list    []Head            // the pool, then its heads and its products
	idle    *posterior.Online // result of online if the pool has no such head; it never learns

	graph   *gnn.Graph
	around  *neighbourhood.Features
	beside  beside
	first   *rowPredictor
	second  *rowPredictor      // on the other thread; nil until it is needed
	served  []byte             // what the arrivals that were predicted last count for at their neighbours
	buffer  []byte             // scratch of Learnt
	reports []posterior.Report // of the newest update
}

var _ Serving = (*Pool)(nil)

// NewPool returns the serving of the model's pool of heads as trained, on a graph, which is empty.
func NewPool(m *model.Model, cfg Config, graph *gnn.Graph) (*Pool, error) {
	of, err := m.NewPool()
	if err != nil {
		return nil, err
	}
	p := &Pool{pool: of, spec: of.Config(), classes: len(m.Classes), graph: graph, beside: cfg.Beside}
	if l := of.Layout(); l.Need&pool.NeedKinds != 0 {
		p.kinds = l.Shape.Means
	}
	if of.Online() == nil {
		p.idle = posterior.NewOnline(m.Prior, cfg.Update)
	}
	for k, name := range of.Names() {
		p.list = append(p.list, pooledHead{p, k, name})
	}
	p.around = neighbourhood.New(graph, p.spec, m.Shape(), m.Normalizer.Ranked())
	p.first = &rowPredictor{pool: of, around: &p.around.Reader, classes: p.classes, kinds: p.kinds}
	return p, nil
}

func (p *Pool) Serve(nodes []int32, embedded posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	if p.second == nil && p.beside.can(len(nodes)) { // not before the pool was restored
		p.second = &rowPredictor{pool: p.pool.Twin(), around: p.around.NewReader(), classes: p.classes, kinds: p.kinds}
	}
	tell := func(by *rowPredictor) func(from, to int) {
		return func(from, to int) {
			for ; from < to; from += chunk {
				by.gather(&by.rows, nodes[from:min(from+chunk, to)])
				p.predictRows(by, &by.rows, from, embedded, outputs, split)
			}
		}
	}
	p.around.Ready(nodes)
	width := p.around.Reader.PartBytes()
	p.served = kernel.Room(p.served, len(nodes)*width)
	p.beside.share(len(nodes), tell(p.first), tell(p.second))
	for i, v := range nodes {
		p.around.SetServed(v, p.served[i*width:(i+1)*width])
	}
}

// predictRows predicts rows, the first of which is the given one of all nodes that are served. It leaves in
// served what the nodes will count for at their neighbours.
func (p *Pool) predictRows(by *rowPredictor, rows *pool.Rows, from int, embedded posterior.Rows, outputs []float32,
	split []posterior.Uncertainty,
) {
	d, width, part, to := len(embedded.Z)/max(embedded.Len(), 1), p.Width(), p.around.Reader.PartBytes(), from+rows.N
	rows.Embedded = posterior.Rows{Z: embedded.Z[from*d : to*d], Tau: embedded.Tau[from:to]}
	by.predictRows(rows, outputs[from*width:to*width], split[from:to], p.served[from*part:to*part])
}

func (p *Pool) PredictOne(v View, embedded posterior.Rows, outputs []float32) posterior.Uncertainty {
	p.first.weigh()
	p.first.predictNodes([]View{v}, embedded, outputs)
	return p.first.uncertainty(outputs)
}

func (p *Pool) PredictTrials(trials []View, embedded posterior.Rows, outputs []float32) {
	p.first.predictNodes(trials, embedded, outputs)
}

// Prepare writes the batch that the pool learns. Embeddings, log probabilities and counts of
// labels are those served; features of the nodes and their neighbours are the current ones. All
// of a corrected label's node is.
func (p *Pool) Prepare(b *Batch, to *pool.Batch) {
	p.around.Reader.Reset(&to.Rows)
	for _, v := range b.Nodes {
		p.around.Reader.AppendFeatures(&to.Rows, v)
	}
	p.around.FillBatch(to, b.Nodes)
	p.appendAllServed(b, to)
	p.around.Reader.Reset(&to.Taken)
	to.TakenLabels, to.TakenNodes = to.TakenLabels[:0], to.TakenNodes[:0]
	to.Nodes = append(to.Nodes[:0], b.Nodes...)
	for _, c := range b.Corrections {
		if c.Class != none {
			p.around.Reader.Append(&to.Rows, c.Node)
			to.Nodes = append(to.Nodes, c.Node)
		}
		if c.Was == none {
			continue
		}
		learned := c.Node
		if c.Replaced {
			learned = none
		}
		p.around.Reader.AppendOwn(&to.Taken, learned)
		to.TakenLabels, to.TakenNodes = append(to.TakenLabels, c.Was), append(to.TakenNodes, c.Node)
	}
}

// appendAllServed writes what was served for the nodes of a batch.
func (p *Pool) appendAllServed(b *Batch, to *pool.Batch) {
	to.LogProbs = to.LogProbs[:0]
	for i := range b.Labels {
		p.appendServed(to, b.Outputs[i*p.Width():(i+1)*p.Width()])
	}
	b.copyTo(to)
}

// Follower returns what keeps the neighbourhood's features and labels in step with the graph.
func (p *Pool) Follower() structure.Follower {
	return structure.Follower{
		Entered: p.around.SetFeatures, Leaving: p.around.Remove, Unlinked: p.around.RemoveEdges,
		Linked:   func(v int32, _, added []int32) { p.around.AddEdges(v, added) },
		Labelled: p.around.SetLabel, Vacated: p.around.ClearFeatures,
	}
}

// State declares the features of the graph's nodes. The graph must have been declared
// before. Labels are restored by calls of labelled.
func (p *Pool) State(s *snapshot.Schema) { p.around.State(s, p.graph.Len()) }
