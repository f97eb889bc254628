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
// use features and labels of neighbours.
type Pool struct {
	*PoolHeads
	graph  *gnn.Graph
	Around *neighbourhood.Features
	beside beside
	First  *rowPredictor
	second *rowPredictor // on the other thread; nil until it is needed
	Served []byte        // what the arrivals that were predicted last count for at their neighbours
}

var (
	_ Serving            = (*Pool)(nil)
	_ structure.Follower = (*Pool)(nil)
)

// NewPool returns the serving of the model's pool of heads on a graph, which is empty.
func NewPool(m *model.Model, cfg Config, graph *gnn.Graph) (*Pool, error) {
	heads, err := NewPoolHeads(m, cfg)
	if err != nil {
		return nil, err
	}
	p := &Pool{PoolHeads: heads, graph: graph, Around: neighbourhood.New(graph, heads.Spec, m.Shape()), beside: cfg.Beside}
	p.First = &rowPredictor{pool: p.pool, around: &p.Around.Reader, classes: p.classes, kinds: p.kinds}
	return p, nil
}

func (p *Pool) Serve(nodes []int32, embedded posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	if p.second == nil && p.beside.can(len(nodes)) { // not before the pool was restored
		p.second = &rowPredictor{pool: p.pool.Twin(), around: p.Around.NewReader(), classes: p.classes, kinds: p.kinds}
	}
	tell := func(by *rowPredictor) func(from, to int) {
		return func(from, to int) {
			for ; from < to; from += Chunk {
				by.Gather(&by.rows, nodes[from:min(from+Chunk, to)])
				p.PredictRows(by, &by.rows, from, embedded, outputs, split)
			}
		}
	}
	p.Around.Ready(nodes)
	width := p.Around.Reader.PartBytes()
	p.Served = kernel.Room(p.Served, len(nodes)*width)
	p.beside.share(len(nodes), tell(p.First), tell(p.second))
	for i, v := range nodes {
		p.Around.SetServed(v, p.Served[i*width:(i+1)*width])
	}
}

// PredictRows predicts rows, the first of which is the given one of all nodes that are served. It leaves in
// served what the nodes will count for at their neighbours.
func (p *Pool) PredictRows(by *rowPredictor, rows *pool.Rows, from int, embedded posterior.Rows, outputs []float32, split []posterior.Uncertainty) {
	d, width, part, to := len(embedded.Z)/max(embedded.Len(), 1), p.Width(), p.Around.Reader.PartBytes(), from+rows.N
	rows.Embedded = posterior.Rows{Z: embedded.Z[from*d : to*d], Tau: embedded.Tau[from:to]}
	by.predictRows(rows, outputs[from*width:to*width], split[from:to], p.Served[from*part:to*part])
}

func (p *Pool) PredictOne(v View, embedded posterior.Rows, outputs []float32) posterior.Uncertainty {
	return p.First.predictNode(v, embedded, outputs)
}

// Prepare writes the batch that the pool learns. Embeddings, log probabilities and counts of
// labels are those served; features of the nodes and their neighbours are the current ones. All
// of a corrected label's node is.
func (p *Pool) Prepare(b *Batch, to *pool.Batch) {
	p.Around.Reader.Reset(&to.Rows)
	for _, v := range b.Nodes {
		p.Around.Reader.AppendFeatures(&to.Rows, v)
	}
	p.Around.FillBatch(to, b.Nodes)
	p.AppendAllServed(b, to)
	p.Around.Reader.Reset(&to.Taken)
	to.TakenLabels = to.TakenLabels[:0]
	for _, c := range b.Corrections {
		if c.Class != none {
			p.Around.Reader.Append(&to.Rows, c.Node)
		}
		if c.Was == none {
			continue
		}
		learned := c.Node
		if c.Replaced {
			learned = none
		}
		p.Around.Reader.AppendOwn(&to.Taken, learned)
		to.TakenLabels = append(to.TakenLabels, c.Was)
	}
}

// AppendAllServed writes what was served for the nodes of a batch.
func (p *Pool) AppendAllServed(b *Batch, to *pool.Batch) {
	to.LogProbs = to.LogProbs[:0]
	for i := range b.Labels {
		p.appendServed(to, b.Outputs[i*p.Width():(i+1)*p.Width()])
	}
	b.copyTo(to)
}

// The methods of [structure.Follower] update the neighbourhood's features and labels.

func (p *Pool) Entered(v int32, x gnn.Vector)    { p.Around.SetFeatures(v, x) }
func (p *Pool) Leaving(nodes []int32)            { p.Around.Remove(nodes) }
func (p *Pool) Left()                            {}
func (p *Pool) Unlinked(edges [][2]int32)        { p.Around.RemoveEdges(edges) }
func (p *Pool) Linked(v int32, _, added []int32) { p.Around.AddEdges(v, added) }
func (p *Pool) Labelled(v, class int32)          { p.Around.SetLabel(v, class) }
func (p *Pool) Vacated(v int32)                  { p.Around.ClearFeatures(v) }

// State declares the features of the graph's nodes. The graph must have been declared
// before. Labels are restored by calls of labelled.
func (p *Pool) State(s *snapshot.Schema) { p.Around.State(s, p.graph.Len()) }
